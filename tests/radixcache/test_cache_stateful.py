"""Random operations on a RadixCache agree with the obvious model after every step."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from radixcache import (
    ARC,
    EVICTION_POLICIES,
    TLRU,
    EvictionPolicy,
    GhostGittins,
    Namespace,
    PagePool,
    PrefixHandle,
    PrefixKey,
    RadixCache,
    Random,
)
from radixcache.sglang_names import MatchedPrefix
from radixcache.tree import Node
from tests.models.cache_model import RANKS, CacheModel, Tokens
from tests.models.residency_log import ResidencyLog

CAPACITY_PAGES = 24
SPACES = st.sampled_from([Namespace.of(), Namespace.of("", None, "s")])
SYMBOLS = st.lists(st.integers(0, 1), max_size=6)
LIMITS = st.none() | st.integers(0, 40)

Pin = tuple[PrefixHandle, Namespace, Tokens]


def small_policy(name: str) -> EvictionPolicy | str:
    """Return the policy with parameters that matter in a small tree."""
    small: dict[str, EvictionPolicy] = {
        "random": Random(seed=7),
        "t-lru": TLRU(threshold_tokens=9, next_prompt_tokens=3),
        "arc": ARC(),
        "ghost-gittins": GhostGittins(max_ends=6, first_finishes=3),
    }
    return small.get(name, name)


def rank_of_page(cache: RadixCache, page_id: int) -> Any:
    """Find a page by scanning and return its rank as the last one of its node."""
    for node in cache._tree.nodes():
        if page_id in node.pages:
            size = node.pages.index(page_id) + 1
            tail = Node(node.id, node.edge, node.pages[:size], node.parent, node.tick)
            return cache.policy.rank(tail), node.id
    raise AssertionError(f"page {page_id} is not cached")


class CacheMachine(RuleBasedStateMachine):
    policy = "lru"
    pins = Bundle("pins")
    locks = Bundle("locks")

    @initialize(page_size=st.sampled_from([1, 2, 4, 16]))
    def start(self, page_size: int) -> None:
        self.model = CacheModel(page_size, self.policy)
        self.cache = RadixCache(
            page_size,
            policy=small_policy(self.policy),
            protected_tokens=self.protected_tokens,
        )
        if self.policy not in RANKS:
            self.model.rank_of_page = lambda page_id: rank_of_page(self.cache, page_id)
        self.pool = PagePool(CAPACITY_PAGES)
        self.log = ResidencyLog(page_size, 4 * page_size)
        self.cache.add_observer(self.log)
        self.live: list[Pin] = []
        self.locked: list[tuple[MatchedPrefix, Namespace, Tokens]] = []

    def protected_tokens(self, space: Namespace, data: bytes) -> int:
        return self.model.protected_tokens(space, tuple(array("I", data)))

    def tokens(self, symbols: list[int], tail: int) -> Tokens:
        """Pages that differ in their last token only, and a partial page."""
        size = self.model.page_size
        full = [t for symbol in symbols for t in (*([7] * (size - 1)), symbol)]
        return (*full, *([7] * (tail % size)))

    def pinned(self, handle: PrefixHandle, space: Namespace, path: Tokens) -> Pin:
        assert handle.prefix_tokens == len(path)
        pin = (handle, space, path)
        if path:
            self.model.pins.append((space, path))
        self.live.append(pin)
        return pin

    @rule(
        target=pins,
        space=SPACES,
        symbols=SYMBOLS,
        tail=st.integers(0, 15),
        limit=LIMITS,
        priority=st.integers(-1, 2),
        matched_first=st.booleans(),
    )
    def insert(
        self,
        space: Namespace,
        symbols: list[int],
        tail: int,
        limit: int | None,
        priority: int,
        matched_first: bool,
    ) -> Pin:
        tokens = self.tokens(symbols, tail)
        key = PrefixKey(tokens, space)
        hit = self.cache.match(key) if matched_first else None
        if hit:
            path = self.model.touch(space, tokens, None, 1)
            self.pinned(hit, space, path)
        kept = hit.pages if hit else array("i")
        wanted = len(symbols) - len(kept)
        if self.pool.free_pages < wanted:
            self.evict(wanted - self.pool.free_pages)
        if self.pool.free_pages < wanted:
            wanted = self.pool.free_pages
            limit = min(40 if limit is None else limit, self.model.page_size * (wanted + len(kept)))
        own = self.pool.allocate(wanted)
        table = kept + own
        result = self.cache.insert(key, table, limit, priority)
        path, duplicates = self.model.insert(space, tokens, list(table), limit, priority)
        assert result.cached_tokens == len(path)
        assert list(result.duplicate_pages) == duplicates
        self.pool.free(duplicates)
        self.pool.free(set(table[len(path) // self.model.page_size :]) - set(kept))
        pin = self.pinned(result.handle, space, path)
        if hit:
            self.release((hit, space, self.live[-2][2]))
        return pin

    @rule(target=pins, space=SPACES, symbols=SYMBOLS, tail=st.integers(0, 15), limit=LIMITS)
    def match(self, space: Namespace, symbols: list[int], tail: int, limit: int | None) -> Pin:
        tokens = self.tokens(symbols, tail)
        handle = self.cache.match(PrefixKey(tokens, space), limit)
        return self.pinned(handle, space, self.model.touch(space, tokens, limit, 1))

    @rule(space=SPACES, symbols=SYMBOLS, tail=st.integers(0, 15), limit=LIMITS)
    def peek(self, space: Namespace, symbols: list[int], tail: int, limit: int | None) -> None:
        tokens = self.tokens(symbols, tail)
        found = self.model.cached(space, tokens, limit)
        unpinned = sum(not self.model.pinned(space, prefix) for prefix in found)
        expected = (len(found) * self.model.page_size, unpinned)
        assert self.cache.peek(PrefixKey(tokens, space), limit) == expected

    @rule(pin=consumes(pins), again=st.booleans())
    def release_one(self, pin: Pin, again: bool) -> None:
        self.release(pin)
        if again:
            self.cache.release(pin[0])

    def release(self, pin: Pin) -> None:
        handle, space, path = pin
        self.cache.release(handle)
        if any(live[0] is handle for live in self.live):
            self.live = [live for live in self.live if live[0] is not handle]
            if path:
                self.model.pins.remove((space, path))

    @rule(
        space=SPACES,
        prompts=st.lists(st.tuples(SYMBOLS, st.integers(0, 15), st.integers(0, 2)), max_size=6),
    )
    def traffic(self, space: Namespace, prompts: list[tuple[list[int], int, int]]) -> None:
        """Requests that come and go: this is what makes a tree of some size."""
        for symbols, tail, priority in prompts:
            self.release(self.insert(space, symbols, tail, None, priority, tail % 2 == 1))

    @rule(space=SPACES, prompts=st.lists(st.tuples(SYMBOLS, st.integers(0, 15)), max_size=4))
    def lookups(self, space: Namespace, prompts: list[tuple[list[int], int]]) -> None:
        for symbols, tail in prompts:
            self.release(self.match(space, symbols, tail, None))

    @rule(num_pages=st.integers(0, 8))
    def evict(self, num_pages: int) -> None:
        expected = self.model.evict(num_pages)
        gone = self.cache.evict(num_pages)
        assert list(gone) == expected
        self.pool.free(gone)

    @rule(space=SPACES, symbols=SYMBOLS)
    def need(self, space: Namespace, symbols: list[int]) -> None:
        self.model.needed.append((space, self.tokens(symbols, 0)))

    @precondition(lambda self: self.model.needed)
    @rule(data=st.data())
    def need_no_more(self, data: st.DataObject) -> None:
        space, path = data.draw(st.sampled_from(self.model.needed))
        self.model.needed.remove((space, path))
        self.cache.rank_fell(space, PrefixKey(path, space).data)

    @rule(target=locks, space=SPACES, symbols=SYMBOLS, tail=st.integers(0, 15))
    def lock_by_hand(
        self, space: Namespace, symbols: list[int], tail: int
    ) -> tuple[MatchedPrefix, Namespace, Tokens]:
        tokens = self.tokens(symbols, tail)
        found = self.cache.match_prefix(PrefixKey(tokens, space))
        path = self.model.touch(space, tokens, None, 0)
        assert found.prefix_tokens == len(path)
        assert list(found.pages) == self.model.page_ids(space, path)
        lock = (found, space, path)
        if tail % 2:
            self.cache.inc_lock_ref(found.last_node)
            if path:
                self.model.pins.append((space, path))
                self.locked.append(lock)
        return lock

    @rule(lock=consumes(locks))
    def unlock_by_hand(self, lock: tuple[MatchedPrefix, Namespace, Tokens]) -> None:
        if any(known is lock for known in self.locked):
            self.cache.dec_lock_ref(lock[0].last_node)
            self.locked = [known for known in self.locked if known is not lock]
            self.model.pins.remove((lock[1], lock[2]))

    # Dropping all too often would leave only small trees to look at.
    @precondition(lambda self: self.model.tick % 8 == 0)
    @rule(space=SPACES)
    def drop_namespace(self, space: Namespace) -> None:
        self.dropped(self.cache.drop_namespace(space), self.model.drop(space, False))

    @precondition(lambda self: self.model.tick % 8 == 1)
    @rule(force=st.booleans())
    def reset(self, force: bool) -> None:
        generation = self.cache.generation
        expected = self.model.drop(None, force)
        self.dropped(self.cache.reset(force), expected)
        assert self.cache.generation == generation + (expected is not None)
        if expected is not None:
            self.live.clear()
            self.locked.clear()

    def dropped(self, dropped: object, expected: tuple[list[int], list[int]] | None) -> None:
        done, pages, pinned = dropped
        assert done == (expected is not None)
        free, held = expected or ([], [])
        assert sorted(pages) == sorted(free)
        assert sorted(pinned) == sorted(held)
        self.pool.free(pages)
        self.pool.free(pinned)

    def teardown(self) -> None:
        """Everything can go, in the right order, once nobody pins it."""
        if not hasattr(self, "cache"):
            return
        for pin in list(self.live):
            self.release(pin)
        for found, space, path in self.locked:
            self.cache.dec_lock_ref(found.last_node)
            self.model.pins.remove((space, path))
        for _ in range(CAPACITY_PAGES // 3):
            self.evict(3)
        self.everything_agrees()
        assert self.cache.size == (0, 0)

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.cache.check()
        self.pool.check()
        evictable = self.model.evictable()
        assert self.cache.size == (evictable, len(self.model.pages) - evictable)
        assert self.pool.in_use() == {page.page_id for page in self.model.pages.values()}
        resident = {(space, PrefixKey(path).data) for space, path in self.model.pages}
        assert self.log.resident == resident
        for handle, space, path in self.live:
            assert list(handle.pages) == self.model.page_ids(space, path)
        assert self.cache.evictable_size() == evictable * self.model.page_size


@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_cache_agrees_with_the_model(policy: str) -> None:
    machine = type(f"{policy}Machine", (CacheMachine,), {"policy": policy})
    run_state_machine_as_test(machine)
