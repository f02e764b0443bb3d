"""What 100,000 waiting followers of one prefix cost a step, counted; no seconds."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from functools import partial

from bench.instruments import calls_of, lines_of
from radixcache import KeyKind, PrefixHandle, PrefixKey, RadixCache
from scheduler import LPM, OvertakeGuard, Request, RequestState, WaitingTree

PAGE = 16
PREFIX_TOKENS, OWN_TOKENS = 64, 32
HEAPED = ("heappush", "heappop", "heapreplace", "heappushpop")


class Followers:
    """A queue of requests with one prefix, and the steps a scheduler makes with it."""

    def __init__(self, count: int) -> None:
        self.rng = random.Random(1)
        self.prefix = self.rng.randbytes(4 * PREFIX_TOKENS)
        self.cache = RadixCache(PAGE)
        self.tree = WaitingTree(self.cache, LPM())
        self.guard: OvertakeGuard[RequestState] = OvertakeGuard(base_tokens=10**9)
        self.states = [self._state(seq) for seq in range(count + 2)]
        for state in self.states[:count]:
            self._arrive(state)
        self.late = self.states[count:]

    def _state(self, seq: int) -> RequestState:
        data = self.prefix + self.rng.randbytes(4 * OWN_TOKENS)
        key = PrefixKey.from_packed(data, KeyKind.TOKENS)
        request = Request(rid=f"r{seq}", key=key, prompt_tokens=len(key), max_new_tokens=1)
        return RequestState(request, arrival_seq=seq, page_size=PAGE, submitted_s=0.0)

    def _arrive(self, state: RequestState) -> None:
        self.guard.arrive(state, self.tree.backlog_tokens)
        self.tree.add(state)

    def _store(self, data: bytes) -> PrefixHandle:
        key = PrefixKey.from_packed(data, KeyKind.TOKENS)
        return self.cache.insert(key, array("i", range(len(key) // PAGE))).handle

    def steps(self) -> dict[str, Callable[[], object]]:
        """Return the steps by name, to be run in this order."""
        cache, tree = self.cache, self.tree

        def store_prefix() -> None:
            cache.release(self._store(self.prefix))

        def admit() -> None:
            found = next(iter(tree.candidates()))
            weight = found.state.prefill_tokens - found.matched_tokens
            assert self.guard.may_admit(found.state, weight)
            self.guard.admitted(found.state, weight)
            tree.admit(found.state, found.matched_tokens)
            handle = self._store(found.state.key.data)
            tree.published(found.state, found.state.prefill_tokens)
            tree.given_up(found.state)
            self.guard.removed(found.state)
            cache.release(handle)

        return {
            "arrival": partial(self._arrive, self.late[0]),
            "store": store_prefix,
            "admission": admit,
            "second admission": admit,
            "eviction": partial(cache.evict, 2),
            "abort": partial(tree.remove, self.late[0]),
            "look": lambda: next(iter(tree.candidates())),
        }


def test_a_step_costs_the_logarithm_of_the_followers_at_most() -> None:
    few, many = Followers(100), Followers(100_000)
    # The guard's tree is 10 levels deeper; nothing else may know how many wait.
    for (name, small), large in zip(few.steps().items(), many.steps().values(), strict=True):
        assert lines_of(large) <= 2 * lines_of(small) + 100, name
    many.tree.check()


def test_no_step_puts_more_than_a_few_entries_on_a_heap() -> None:
    many = Followers(20_000)
    for name, step in many.steps().items():
        counts = calls_of(step)
        assert sum(counts[call] for call in HEAPED) <= 16, name
