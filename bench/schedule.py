"""Time one scheduling step with many requests waiting.

A step is an arrival, a pop (best candidate, overtake guard), an admission (pin, pages), a
publish and the evictions these need: waiting queue + guard + RadixCache + PagePool, on
4,096-token few-shot prompts whose keys are ready, page size 16, a pool of 262,144 tokens.

    python bench/schedule.py -o bench/results/schedule.json

``--sglang FOLDER`` measures SGLang's ``calc_priority`` in the same run, its 128 fallback off:
FOLDER holds ``harness.py``, PEERS_DIR names the unpacked wheels, and the interpreter is
that of the peers. Values are CPU seconds (``time.process_time``) of one step, one value a
batch of steps. The output is readable by pyperf.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from radixcache import KeyKind, PagePool, PrefixKey, RadixCache
from scheduler.overtake_guard import OvertakeGuard
from scheduler.policies import LPM
from scheduler.rematch_queue import RematchQueue
from scheduler.request import Request, RequestState
from scheduler.waiting_queue import Candidate, WaitingQueue
from scheduler.waiting_tree import WaitingTree

PAGE = 16
PROMPT_TOKENS = 4096
SYSTEM_TOKENS = 1024
SHOTS_TOKENS = 3072
POOL_PAGES = 16_384
CHUNK_TOKENS = 8192
WAITING = (128, 1_000, 8_192, 10_000, 100_000)


def prompts(seed: int) -> Iterator[bytes]:
    """Yield packed few-shot prompts: 8 system prompts × 12 example sets, 1,024 own tokens."""
    rng = random.Random(seed)
    systems = [rng.randbytes(4 * SYSTEM_TOKENS) for _ in range(8)]
    own = 4 * (SHOTS_TOKENS - SYSTEM_TOKENS)
    shots = [system + rng.randbytes(own) for system in systems for _ in range(12)]
    while True:
        yield rng.choice(shots) + rng.randbytes(4 * (PROMPT_TOKENS - SHOTS_TOKENS))


def state_of(data: bytes, seq: int) -> RequestState:
    key = PrefixKey.from_packed(data, KeyKind.TOKENS)
    request = Request(rid=f"r{seq}", key=key, prompt_tokens=PROMPT_TOKENS, max_new_tokens=64)
    return RequestState(request, arrival_seq=seq, page_size=PAGE, submitted_s=0.0)


class Engine:
    """The parts of a scheduler that a step of admissions goes through."""

    def __init__(self, queue: str) -> None:
        self.cache = RadixCache(PAGE)
        self.pool = PagePool(POOL_PAGES)
        self.guard: OvertakeGuard[RequestState] = OvertakeGuard(
            base_tokens=4 * CHUNK_TOKENS, kappa=0.5
        )
        self.queue: WaitingQueue
        if queue == "tree":
            tree = WaitingTree(self.cache, LPM(), on_unneeded=self.cache.rank_fell)
            self.cache.set_protection(tree.protected_tokens)
            self.queue = tree
        else:
            self.queue = RematchQueue(self.cache, LPM())

    def fill(self, states: Iterator[RequestState]) -> None:
        # The backlog is only roughly right: the plain queue would need minutes to sum it up.
        for number, state in enumerate(states):
            self.guard.arrive(state, number * (PROMPT_TOKENS - SHOTS_TOKENS))
            self.queue.add(state)

    def arrive(self, state: RequestState) -> None:
        self.guard.arrive(state, self.queue.backlog_tokens)
        self.queue.add(state)

    def pick(self) -> tuple[Candidate, int]:
        chosen = next(iter(self.queue.candidates()))
        while True:
            weight = chosen.state.prefill_tokens - chosen.matched_tokens
            tight = self.guard.tight(chosen.state, weight)
            if tight is None:
                return chosen, weight
            matched = self.cache.peek(tight.key, tight.cap_tokens).prefix_tokens
            chosen = Candidate(tight, matched, held=False)

    def step(self, arriving: RequestState) -> None:
        cache, pool = self.cache, self.pool
        self.arrive(arriving)
        (state, matched, _), weight = self.pick()
        handle = cache.match(state.key, state.cap_tokens)
        self.guard.admitted(state, weight)
        self.queue.admit(state, matched)
        need = (PROMPT_TOKENS - matched) // PAGE
        if need > pool.free_pages:
            pool.free(cache.evict(need - pool.free_pages))
        result = cache.insert(state.key, handle.pages + pool.allocate(need))
        pool.free(result.duplicate_pages)
        cache.release(handle)
        self.queue.published(state, PROMPT_TOKENS)
        cache.release(result.handle)
        self.guard.removed(state)


class Timing(NamedTuple):
    name: str
    values: list[float]


def time_steps(queue: str, waiting: int, rounds: int, batch: int, seed: int) -> Timing:
    """Return CPU seconds a step, one value a batch, after a batch to warm up."""
    engine = Engine(queue)
    source = prompts(seed)
    sequence = itertools.count()
    engine.fill(state_of(next(source), next(sequence)) for _ in range(waiting))
    values = []
    for _ in range(rounds + 1):
        arriving = [state_of(next(source), next(sequence)) for _ in range(batch)]
        gc.collect()
        gc.freeze()
        start = time.process_time()
        for state in arriving:
            engine.step(state)
        values.append((time.process_time() - start) / batch)
    gc.unfreeze()
    return Timing(f"step with {waiting} waiting, {queue}", values[1:])


def write_pyperf(timings: list[Timing], path: Path, metadata: dict[str, str]) -> None:
    benchmarks = [
        {
            "metadata": {"name": timing.name, "unit": "second", "loops": 1},
            "runs": [{"values": timing.values}],
        }
        for timing in timings
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"version": "1.0", "metadata": metadata, "benchmarks": benchmarks}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="+", default=list(WAITING))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sglang", type=Path, help="folder with harness.py")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    timings = []

    def show(timing: Timing) -> None:
        timings.append(timing)
        values = timing.values
        print(
            f"{timing.name:44s} median {statistics.median(values) * 1e6:12.1f} µs, "
            f"{min(values) * 1e6:.1f} to {max(values) * 1e6:.1f}",
            flush=True,
        )

    for waiting in options.waiting:
        show(time_steps("tree", waiting, options.rounds, options.batch, options.seed))
        few = max(3, 20_000 // waiting)
        show(time_steps("rematch", waiting, min(options.rounds, 3), min(few, 200), options.seed))
        if options.sglang is not None:
            sys.path.insert(0, str(options.sglang))
            from schedule_sglang import pass_seconds

            own = list(itertools.islice(prompts(options.seed), waiting))
            values = pass_seconds(own, PAGE, SHOTS_TOKENS, 3 if waiting <= 10_000 else 1)
            show(Timing(f"calc_priority with {waiting} waiting, SGLang", values))
    if options.output is not None:
        facts = {
            "command": " ".join(sys.argv),
            "python_version": platform.python_version(),
            "platform": platform.platform(),
            "seed": str(options.seed),
            "page_size": str(PAGE),
            "clock": "time.process_time",
        }
        write_pyperf(timings, options.output, facts)


if __name__ == "__main__":
    main()
