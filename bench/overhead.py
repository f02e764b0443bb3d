"""What cache and queue cost when nothing is ever reused, as a share of the engine's steps.

    python -m bench overhead

Unique prompts of 1,024 tokens, 256 tokens of output, 64 running at any time, as many waiting,
a pool in which finished requests are evicted all the time; steps of 8 ms. The same requests run
with RadixCache and the lpm queue, and with NullCache and a plain first-come queue. The
difference of the two, a step, is what cache and queue cost.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from functools import partial

from bench.runner import OURS, Options, Results, alternate, cpu_seconds, parse_options
from radixcache import KeyKind, NullCache, PagePool, PrefixCache, PrefixKey, RadixCache
from scheduler import Candidate, Request, RequestState, Scheduler, SchedulerConfig, WaitingQueue

__all__ = ["FirstCome", "run", "step_seconds"]

PAGE = 16
PROMPT_TOKENS = 1_024
OUTPUT_TOKENS = 256
RUNNING = 64
ENGINE_STEP_S = 0.008
STEPS = 2_000
POOL_PAGES = (RUNNING + 32) * (PROMPT_TOKENS + OUTPUT_TOKENS) // PAGE


class FirstCome:
    """The plainest queue there is: it never looks at the cache."""

    def __init__(self) -> None:
        self._states: deque[RequestState] = deque()

    def begin_pass(self, now: float) -> None:
        pass

    def prefilled(self, tokens: int) -> None:
        pass

    def add(self, state: RequestState) -> None:
        self._states.append(state)

    def remove(self, state: RequestState) -> None:
        self._states.remove(state)

    def candidates(self) -> Iterator[Candidate]:
        for state in list(self._states):
            yield Candidate(state, 0, held=False)

    def look(self, state: RequestState) -> Candidate:
        return Candidate(state, 0, held=False)

    @property
    def changes(self) -> None:
        return None

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        self._states.popleft()

    def published(self, state: RequestState, tokens: int) -> None:
        pass

    def given_up(self, state: RequestState) -> None:
        pass

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, state: object) -> bool:
        return state in self._states

    @property
    def backlog_tokens(self) -> int:
        return PROMPT_TOKENS * len(self._states)

    @property
    def matched_tokens(self) -> int:
        return 0

    @property
    def pending_optimal_tokens(self) -> int:
        return self.backlog_tokens

    def check(self) -> None:
        pass


def requests(seed: int, count: int) -> list[Request]:
    rng = random.Random(seed)
    return [
        Request(
            rid=f"r{number}",
            key=PrefixKey.from_packed(rng.randbytes(4 * PROMPT_TOKENS), KeyKind.TOKENS),
            prompt_tokens=PROMPT_TOKENS,
            max_new_tokens=OUTPUT_TOKENS,
        )
        for number in range(count)
    ]


def step_seconds(asked: list[Request], steps: int, *, caching: bool) -> dict[str, float]:
    """Run the scheduler for a number of steps; return its CPU seconds a step."""
    cache: PrefixCache = RadixCache(PAGE) if caching else NullCache(PAGE)
    queue: WaitingQueue | None = None if caching else FirstCome()
    config = SchedulerConfig(page_size=PAGE, max_running=RUNNING)
    scheduler = Scheduler(cache, PagePool(POOL_PAGES), config, queue=queue, policy="lpm")
    coming = iter(asked)
    spent = 0.0
    for number in range(steps):
        now = number * ENGINE_STEP_S
        missing = 2 * RUNNING - scheduler.waiting - scheduler.running
        arriving = [next(coming) for _ in range(missing)]
        start = cpu_seconds()
        for request in arriving:
            scheduler.submit(request, now)
        batch = scheduler.schedule(now)
        spent += cpu_seconds() - start
        # The end of a prompt brings a token, as a decode does.
        ready = {rid: ([7], None) for rid in batch.rids}
        for chunk in batch.chunks:
            if not chunk.last:
                del ready[chunk.rid]
        start = cpu_seconds()
        scheduler.complete(batch, ready, now + ENGINE_STEP_S)
        spent += cpu_seconds() - start
    return {"scheduler step": spent / steps}


def run(options: Options) -> Results:
    """Measure with and without cache and queue, in turn."""
    results = Results(options)
    steps = options.size(STEPS, 400)
    asked = requests(options.seed, 2 * RUNNING + 2 * steps * RUNNING // OUTPUT_TOKENS)
    null = "NullCache, first come"
    turns = {
        OURS: partial(step_seconds, asked, steps, caching=True),
        null: partial(step_seconds, asked, steps, caching=False),
    }
    found = alternate(options.rounds, turns)
    results.add_group(found, "without reuse", running=RUNNING)
    pairs = zip(found[OURS]["scheduler step"], found[null]["scheduler step"], strict=True)
    costs = [max(whole - bare, 0.0) for whole, bare in pairs]
    row = results.add("cache and queue a step, without reuse", OURS, costs, running=RUNNING)
    print(f"{'':44s} {row.median / ENGINE_STEP_S:.2%} of a step of {ENGINE_STEP_S * 1e3:.0f} ms")
    return results


if __name__ == "__main__":
    run(parse_options("overhead")).save()
