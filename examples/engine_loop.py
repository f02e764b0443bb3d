"""An engine loop around a real, if small, model: the cache changes the work, never the tokens.

A numpy transformer with paged KV (``tiny_transformer.py``) is driven by the Scheduler as a GPU
engine would be: prompts are prefilled in chunks on top of cached pages, requests decode together,
and two batches are in flight. While the device, a thread of its own, runs batch k, the host
schedules batch k+1. The token that batch k is about to sample is an input of batch k+1, so it
does not go through the host: the device keeps a table of last tokens, a place a request.

Each scenario serves the same closed-loop clients twice, with a RadixCache and with a NullCache,
and compares every answer with greedy decoding by plain full passes: no pages, batches, cache or
scheduler. Pages are filled with NaN the moment they are freed. Tokens are compared exactly: the
arithmetic is float64, and the last line tells the least margin by which a token was chosen, far
above the rounding (below 1e-13) by which grouping tokens into batches can change a logit.

It prints one line a scenario: requests, prefill tokens computed without and with the cache, the
share saved, mean measured time to first token (ms) without and with it; then of the run with the
cache: evicted pages, pages given up for equal ones, retractions, aborts; and whether all tokens of
both runs are the model's own.
Only the milliseconds differ from run to run.

    python examples/engine_loop.py [--small]
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import NamedTuple, get_args

if __name__ == "__main__":
    # The products are small: threads of the BLAS, which numpy starts, would only be in the way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tiny_clients import FULL, SMALL, STOP_TOKENS, Client, Reference, Sizes, Talk, make_clients
from tiny_transformer import Ints, PagedKV, Span, TinyTransformer

from radixcache import NullCache, PagePool, PrefixCache, PrefixKey, RadixCache
from scheduler import (
    Admitted,
    Batch,
    Event,
    Finished,
    FirstToken,
    Request,
    RequestState,
    Scheduler,
    SchedulerConfig,
)
from scheduler.config import HoldMode, PublishMode

# ------------------------------------------------------------------ the device


class Work(NamedTuple):
    """One batch as the device needs it; entry i of each list is the i-th request."""

    slots: list[int]
    tokens: list[Ints | None]
    """The token ids to run; None: the one sampled last, which only the device knows yet."""
    positions: list[int]
    rows: Sequence[Ints]
    table_writes: list[tuple[int, int, Ints]]
    """(slot, first page, page ids): what changed in the page table since the last batch."""


class Device:
    """Runs batches one after another on a thread of its own, as a GPU stream does."""

    def __init__(self, model: TinyTransformer, kv: PagedKV, slots: int, pages: int) -> None:
        self._model = model
        self._kv = kv
        self._page_table = np.zeros((slots, pages), np.int32)
        self._last_tokens = np.zeros(slots, np.int64)
        self._stream = ThreadPoolExecutor(max_workers=1)

    def launch(self, work: Work) -> Future[Ints]:
        """Run a batch after those launched before; give the token after each request's span."""
        return self._stream.submit(self._run, work)

    def close(self) -> None:
        self._stream.shutdown()

    def _run(self, work: Work) -> Ints:
        for slot, start, pages in work.table_writes:
            self._page_table[slot, start : start + len(pages)] = pages
        spans = []
        for slot, tokens, position, row in zip(
            work.slots, work.tokens, work.positions, work.rows, strict=True
        ):
            ids = self._last_tokens[slot : slot + 1] if tokens is None else tokens
            used = -(-(position + len(ids)) // self._kv.page_size)
            # An engine reads the batch's rows or keeps a table by remaps and changes: the same.
            assert np.array_equal(self._page_table[slot, :used], row[:used])
            spans.append(Span(ids, position, self._page_table[slot]))
        sampled = self._model.next_tokens(spans, self._kv)
        self._last_tokens[work.slots] = sampled
        return sampled


class ScrubbingPool(PagePool):
    """A pool that makes freed pages unreadable, so that a use after free shows in the tokens."""

    def __init__(self, capacity_pages: int, kv: PagedKV) -> None:
        super().__init__(capacity_pages)
        self._kv = kv

    def free(self, pages: Iterable[int]) -> None:
        ids = list(pages)
        super().free(ids)
        self._kv.scrub(ids)


# ------------------------------------------------------------------ the engine


class Engine:
    """The host's side: one Scheduler, the batches in flight, the requests by id."""

    def __init__(
        self,
        model: TinyTransformer,
        cache: PrefixCache,
        config: SchedulerConfig,
        pages: int,
        *,
        check: bool = False,
    ) -> None:
        kv = PagedKV(model.shape, pages, config.page_size)
        self.device = Device(model, kv, config.max_running, pages)
        self.scheduler = Scheduler(cache, ScrubbingPool(pages, kv), config, policy="lpm")
        self.ended: deque[RequestState] = deque()
        """Requests that reached their end and were not taken from here yet."""
        self.ttft_s: list[float] = []
        self.prefill_tokens = self.evicted_pages = self.remapped_pages = 0
        self._check = check
        self._flights: deque[tuple[Batch, Future[Ints]]] = deque()
        self._prompts: dict[str, list[int]] = {}
        self._slots: dict[str, int] = {}
        self._free_slots = list(range(config.max_running))

    def submit(self, rid: str, prompt: list[int], max_new_tokens: int) -> RequestState:
        request = Request(
            rid=rid,
            key=PrefixKey(prompt),
            prompt_tokens=len(prompt),
            max_new_tokens=max_new_tokens,
        )
        self._prompts[rid] = prompt
        return self.scheduler.submit(request, perf_counter()).state

    def abort(self, rid: str) -> None:
        self._note([self.scheduler.abort(rid, perf_counter())])

    def step(self) -> None:
        """Schedule and launch a batch, then complete the oldest if enough are in flight."""
        batch = self.scheduler.schedule(perf_counter())
        self._note(batch.events)
        if not batch.is_empty:
            self.prefill_tokens += batch.prefill_tokens
            self.evicted_pages += batch.evicted_pages
            self.remapped_pages += sum(len(remap.new_pages) for remap in batch.remaps)
            self._flights.append((batch, self.device.launch(self._work_of(batch))))
        if self._check:
            self.scheduler.check()
        if batch.is_empty or len(self._flights) == self.scheduler.config.max_in_flight:
            self._complete_oldest()

    def _work_of(self, batch: Batch) -> Work:
        slots = self._slots
        rows = dict(zip(batch.rids, batch.rows, strict=True))
        writes = [(slots[r.rid], r.start_page, np.array(r.new_pages)) for r in batch.remaps]
        writes += [
            (slots[c.rid], c.start_page, rows[c.rid][c.start_page : c.stop_page].copy())
            for c in batch.changes
        ]
        tokens: list[Ints | None] = [
            np.array(self._known(c.rid, c.start_tokens, c.stop_tokens)) for c in batch.chunks
        ]
        tokens += [None] * len(batch.decode_rids)
        return Work(
            [slots[rid] for rid in batch.rids], tokens, batch.positions.tolist(), batch.rows, writes
        )

    def _known(self, rid: str, start: int, stop: int) -> list[int]:
        """Return tokens to prefill: of the prompt and, after a retraction, of the answer."""
        prompt = self._prompts[rid]
        answer = self.scheduler.state_of(rid).outputs
        n = len(prompt)
        return prompt[start:stop] + answer[max(start - n, 0) : max(stop - n, 0)].tolist()

    def _complete_oldest(self) -> None:
        assert self._flights, "requests wait, and nothing runs"
        batch, future = self._flights.popleft()
        tokens = dict(zip(batch.rids, future.result().tolist(), strict=True))
        done = [chunk.rid for chunk in batch.chunks if chunk.last]
        results = {
            rid: ([tokens[rid]], "stop" if tokens[rid] < STOP_TOKENS else None)
            for rid in (*done, *batch.decode_rids)
        }
        self._note(self.scheduler.complete(batch, results, perf_counter()))
        if self._check:
            self.scheduler.check()

    def _note(self, events: Iterable[Event]) -> None:
        """Give a slot to who was admitted; take it back from who ended or was retracted."""
        for event in events:
            state = event.state
            if isinstance(event, Admitted):
                self._slots[state.rid] = self._free_slots.pop()
            elif isinstance(event, FirstToken):
                assert state.first_token_s is not None
                self.ttft_s.append(state.first_token_s - state.submitted_s)
            elif state.rid in self._slots:
                # Batches in flight may still use it; the next owner's batch runs after them.
                self._free_slots.append(self._slots.pop(state.rid))
            if isinstance(event, Finished):
                self.ended.append(state)


# ------------------------------------------------------------------ the scenarios


def serve(engine: Engine, clients: Sequence[Client], max_new_tokens: int) -> dict[str, list[int]]:
    """Serve clients that send their next prompt when the last one has ended: rid to answer."""
    answers: dict[str, list[int]] = {}
    live: dict[str, tuple[RequestState, Client, Talk]] = {}

    def send(client: Client, talk: Talk, turn: int) -> None:
        try:
            prompt = talk.send(answers[f"{client.name}.{turn - 1}"]) if turn else next(talk)
        except StopIteration:
            return
        rid = f"{client.name}.{turn}"
        live[rid] = engine.submit(rid, prompt, max_new_tokens), client, talk

    for client in clients:
        send(client, client.talk(), 0)
    while live:
        engine.step()
        for rid, (state, client, _) in live.items():
            limit = client.hangs_up_after[int(rid.split(".")[1])]
            if limit is not None and state.output_tokens >= limit and not state.ended:
                engine.abort(rid)
        while engine.ended:
            state = engine.ended.popleft()
            answers[state.rid] = state.outputs.tolist()
            _, client, talk = live.pop(state.rid)
            send(client, talk, int(state.rid.split(".")[1]) + 1)
    while not engine.scheduler.is_idle:  # late tokens of answers that have ended
        engine.step()
    engine.device.close()
    return answers


class Pressure(NamedTuple):
    """What makes a scenario hard."""

    name: str
    pool_requests: float | None = None
    """Pages for so many of the largest requests; None: for all there are."""
    output_reserve_ratio: float = 1.0
    """Below 1, requests are admitted that may have to be retracted."""
    hang_ups: bool = False
    hold: HoldMode = "stop"
    """"off": requests with the same new prefix compute it twice, and one gives its pages up."""


PRESSURES = (
    Pressure("none"),
    Pressure("small pool", 2.5),
    Pressure("retraction", 2.0, 0.0),
    Pressure("all, and aborts", 2.0, 0.0, True, "off"),
)


class Scenario(NamedTuple):
    """Traffic, when computed pages enter the cache, and pressure."""

    chat: bool
    publish: PublishMode
    pressure: Pressure

    @property
    def name(self) -> str:
        return f"{'chat' if self.chat else 'few-shot':8}  {self.publish:8}  {self.pressure.name:15}"


SCENARIOS = tuple(
    Scenario(chat, publish, pressure)
    for chat in (True, False)
    for publish in get_args(PublishMode)
    for pressure in PRESSURES
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a scenario gave."""

    answers: dict[str, list[int]]
    prefill_tokens: int
    ttft_ms: float
    evicted_pages: int
    remapped_pages: int
    retractions: int
    aborted: int


def run(
    model: TinyTransformer,
    scenario: Scenario,
    sizes: Sizes,
    *,
    cached: bool,
    check: bool = False,
) -> Outcome:
    """Serve the clients of a scenario with two batches in flight."""
    clients = make_clients(sizes, chat=scenario.chat, hang_ups=scenario.pressure.hang_ups)
    pages = sizes.turns * sum(map(sizes.largest_pages, clients))
    if scenario.pressure.pool_requests is not None:
        pages = int(scenario.pressure.pool_requests * max(map(sizes.largest_pages, clients)))
    cache = RadixCache(sizes.page_size) if cached else NullCache(sizes.page_size)
    config = SchedulerConfig(
        page_size=sizes.page_size,
        chunk_tokens=sizes.chunk_tokens,
        max_running=len(clients),
        max_in_flight=2,
        publish=scenario.publish,
        hold=scenario.pressure.hold,
        output_reserve_ratio=scenario.pressure.output_reserve_ratio,
    )
    engine = Engine(model, cache, config, pages, check=check)
    answers = serve(engine, clients, sizes.max_new_tokens)
    report = engine.scheduler.report()
    assert report.free_pages + cache.size.evictable_pages == pages
    return Outcome(
        answers,
        engine.prefill_tokens,
        1000 * fmean(engine.ttft_s),
        engine.evicted_pages,
        engine.remapped_pages,
        report.total.retractions,
        report.total.aborted,
    )


HEADER = (
    f"{'':43}  prefill tokens           TTFT, ms              pages\n"
    f"{'traffic':8}  {'publish':8}  {'pressure':15}  asked  no cache  cache  saved"
    "  no cache  cache  evicted  remapped  retracted  aborted  tokens"
)


def main(sizes: Sizes, *, check: bool = False) -> dict[Scenario, tuple[Outcome, bool]]:
    """Run and print every scenario; return each run with the cache, and if all is equal."""
    model = TinyTransformer(sizes.shape)
    reference = Reference(model, sizes.max_new_tokens)
    outcomes = {}
    print(HEADER)
    for scenario in SCENARIOS:
        clients = make_clients(sizes, chat=scenario.chat, hang_ups=scenario.pressure.hang_ups)
        expected = reference.serve(clients)
        bare = run(model, scenario, sizes, cached=False, check=check)
        made = run(model, scenario, sizes, cached=True, check=check)
        equal = bare.answers == made.answers == expected
        outcomes[scenario] = made, equal
        print(
            f"{scenario.name}  {len(expected):5}  {bare.prefill_tokens:8}  {made.prefill_tokens:5}"
            f"  {1 - made.prefill_tokens / bare.prefill_tokens:5.0%}"
            f"  {bare.ttft_ms:8.1f}  {made.ttft_ms:5.1f}"
            f"  {made.evicted_pages:7}  {made.remapped_pages:8}  {made.retractions:9}"
            f"  {made.aborted:7}  {'equal' if equal else 'DIFFERENT'}"
        )
    print(f"least margin of a token over the second best: {model.smallest_margin:.1e}")
    return outcomes


if __name__ == "__main__":
    ran = main(SMALL if "--small" in sys.argv[1:] else FULL)
    sys.exit(not all(equal for _, equal in ran.values()))
