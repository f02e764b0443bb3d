"""The smallest engine loop: arrivals, a client that leaves, streaming, an end by stop string.

The scheduler has no clock and no thread; your loop has. Each turn of it submits what arrived,
schedules a batch, runs the model on it and completes it. The model here is a stand-in that
answers each request with its own letters, one at a time. ``engine_loop.py`` runs a real one.

It prints, a line a step, what was prefilled and decoded and what ended, then the answers.

    python examples/embed_in_a_loop.py
"""

from __future__ import annotations

from radixcache import PagePool, PrefixKey, RadixCache
from scheduler import Batch, Event, Finished, FirstToken, Request, Scheduler, SchedulerConfig

SYSTEM = "You are a helpful assistant. Answer in one word. "
ARRIVALS = {
    0: [("a", "What is the capital of France?", "Paris!"), ("b", "And of Italy?", "Rome.")],
    1: [("c", "Tell me everything you know.", "Once upon a time")],
    2: [("d", "And of Spain?", "Madrid")],
}
LEAVES = {5: "c"}
"""Step at which a client closes its connection."""


class FakeModel:
    """Answers from a script; a real one would read KV through ``batch.rows``."""

    def __init__(self) -> None:
        self.scripts: dict[str, str] = {}
        self._said: dict[str, int] = {}

    def run(self, batch: Batch) -> dict[str, int]:
        """Return the next token of each request whose prompt is complete."""
        tokens = {}
        done = [chunk.rid for chunk in batch.chunks if chunk.last]
        for rid in (*done, *batch.decode_rids):
            place = self._said[rid] = self._said.get(rid, -1) + 1
            script = self.scripts[rid]
            tokens[rid] = ord(script[place]) if place < len(script) else 0
        return tokens


def describe(events: tuple[Event, ...]) -> list[str]:
    """Say of each event what a server would tell its client."""
    words = []
    for event in events:
        if isinstance(event, FirstToken):
            words.append(f"{event.state.rid} speaks")
        elif isinstance(event, Finished):
            words.append(f"{event.state.rid} ended ({event.reason})")
    return words


def main() -> None:
    cache, pool = RadixCache(page_size=8), PagePool(capacity_pages=64)
    config = SchedulerConfig(page_size=8, chunk_tokens=48)
    scheduler = Scheduler(cache, pool, config, policy="lpm")
    model = FakeModel()
    states = {}
    step = 0
    while step <= max(ARRIVALS) or not scheduler.is_idle:
        for rid, question, answer in ARRIVALS.get(step, ()):
            key = PrefixKey([ord(letter) for letter in SYSTEM + question])
            request = Request(rid=rid, key=key, prompt_tokens=len(key), max_new_tokens=6)
            states[rid] = scheduler.submit(request, now=step).state
            model.scripts[rid] = answer
        events: list[Event] = []
        if step in LEAVES:
            events.append(scheduler.abort(LEAVES[step], now=step))
        batch = scheduler.schedule(now=step)
        events += batch.events
        if not batch.is_empty:
            tokens = model.run(batch)
            stops = {ord("!"), ord("."), 0}
            results = {
                rid: ([token], "stop" if token in stops else None) for rid, token in tokens.items()
            }
            events += scheduler.complete(batch, results, now=step + 1)
        chunks = " ".join(f"{c.rid}[{c.start_tokens}:{c.stop_tokens}]" for c in batch.chunks)
        decodes = " ".join(batch.decode_rids)
        happened = ", ".join(describe(tuple(events)))
        print(
            f"{step:2}  prefill {chunks or '-':23}  decode {decodes or '-':7}  {happened}".rstrip()
        )
        step += 1
    for rid, state in states.items():
        answer = "".join(map(chr, state.outputs))
        print(f"{rid}: {answer!r}, {state.hit_tokens} of {state.prompt_tokens} tokens cached")


if __name__ == "__main__":
    main()
