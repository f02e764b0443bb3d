"""One scheduling step with many requests waiting, beside a re-match of the queue and SGLang's pass.

    python -m bench schedule --peers-dir PEERS

A step is an arrival, a pop (best candidate, overtake guard), an admission (pin, pages), a
publish and the evictions these need: waiting queue + guard + RadixCache + PagePool, on
4,096-token few-shot prompts whose keys are ready, page size 16, a pool of 262,144 tokens.
"rematch" is the plain queue that matches every waiting prompt anew. SGLang's ``calc_priority``
orders the whole queue once, its fallback above 128 waiting requests off; it runs on the same
prompts. A value is CPU seconds a step over a batch of steps, or of one pass.
"""

from __future__ import annotations

import gc
import itertools
import random
from collections.abc import Iterator

from bench.peer_registry import find_peers
from bench.peer_sglang import SglangRust, pass_seconds
from bench.runner import OURS, Options, Results, cpu_seconds, parse_options
from radixcache import KeyKind, PagePool, PrefixKey, RadixCache
from scheduler.overtake_guard import OvertakeGuard
from scheduler.policies import LPM
from scheduler.rematch_queue import RematchQueue
from scheduler.request import Request, RequestState
from scheduler.waiting_queue import Candidate, WaitingQueue
from scheduler.waiting_tree import WaitingTree

__all__ = ["Engine", "prompts", "run", "state_of"]

PAGE = 16
PROMPT_TOKENS = 4096
SYSTEM_TOKENS = 1024
SHOTS_TOKENS = 3072
POOL_PAGES = 16_384
CHUNK_TOKENS = 8192
WAITING = (128, 1_000, 8_192, 10_000, 100_000)
MOST_REMATCHED = 8_192


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


def step_seconds(queue: str, waiting: int, rounds: int, batch: int, seed: int) -> list[float]:
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
        start = cpu_seconds()
        for state in arriving:
            engine.step(state)
        values.append((cpu_seconds() - start) / batch)
    gc.unfreeze()
    return values[1:]


def run(options: Options) -> Results:
    """Measure each length of the queue."""
    results = Results(options)
    peers = find_peers(options.peers_dir, results.skip, only=("SGLang",))
    batch = options.size(500, 50)
    for waiting in WAITING[: options.size(len(WAITING), 2)]:
        values = step_seconds("tree", waiting, options.rounds, batch, options.seed)
        label = f"with {waiting:,} waiting"
        ours = results.add(f"step {label}", OURS, values, waiting=waiting)
        if waiting <= MOST_REMATCHED:
            few = min(100, max(3, 20_000 // waiting))
            values = step_seconds("rematch", waiting, 3, few, options.seed)
            results.add(f"step {label}", "re-match of every prompt", values, waiting=waiting)
        if SglangRust in peers and waiting <= MOST_REMATCHED:
            own = list(itertools.islice(prompts(options.seed), waiting))
            values = pass_seconds(own, PAGE, SHOTS_TOKENS, 3)
            theirs = results.add(f"pass {label}", SglangRust.name, values, waiting=waiting)
            print(f"{'':44s} a pass is {theirs.median / ours.median:,.0f} of our steps")
            gc.collect()
    return results


if __name__ == "__main__":
    run(parse_options("schedule")).save()
