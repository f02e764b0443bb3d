"""Eviction: order of every policy, own policies, protection, and the heap's size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import (
    EVICTION_POLICIES,
    LRU,
    ConfigError,
    EvictionPolicy,
    Namespace,
    PrefixKey,
    RadixCache,
    Random,
    make_policy,
)
from radixcache.tree import Node, pages_of


def put(cache: RadixCache, tokens: list[int], pages: list[int], priority: int = 0) -> None:
    cache.release(cache.insert(PrefixKey(tokens), pages, priority=priority).handle)


def use(cache: RadixCache, tokens: list[int]) -> None:
    cache.release(cache.match(PrefixKey(tokens)))


ORDERS = {
    "random": [1, 4, 2, 3],
    "t-lru": [2, 4, 1, 3],
    "arc": [2, 4, 1, 3],
    "ghost-gittins": [2, 4, 1, 3],
    "lru": [2, 4, 1, 3],
    "lfu": [2, 1, 4, 3],
    "fifo": [1, 2, 3, 4],
    "filo": [4, 3, 2, 1],
    "mru": [3, 1, 4, 2],
    "slru": [2, 1, 4, 3],
    "priority": [4, 2, 1, 3],
}


@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_each_policy_has_its_order(policy: str) -> None:
    cache = RadixCache(1, policy=policy)
    for token in (1, 2, 3, 4):
        put(cache, [token], [token], priority=token == 3)
    put(cache, [1], [1], priority=1)
    put(cache, [2], [2], priority=1)
    use(cache, [4])
    use(cache, [4])
    for token in (1, 3, 3, 3):
        use(cache, [token])
    assert list(cache.evict(9)) == ORDERS[policy]


def test_slru_keeps_a_twice_hit_prefix_under_a_scan() -> None:
    cache = RadixCache(1, policy="slru")
    put(cache, [1, 2], [0, 1])
    use(cache, [1, 2])
    use(cache, [1, 2])
    for token in range(10, 20):
        put(cache, [token], [token])
    assert sorted(cache.evict(10)) == list(range(10, 20))


def test_a_leaf_is_trimmed_from_its_tail() -> None:
    cache = RadixCache(2)
    put(cache, [1, 2, 3, 4, 5, 6], [0, 1, 2])
    assert list(cache.evict(1)) == [2]
    assert cache.peek(PrefixKey([1, 2, 3, 4, 5, 6])).prefix_tokens == 4
    assert list(cache.evict(2)) == [1, 0]
    cache.check()


def test_names_classes_and_instances_make_policies() -> None:
    assert make_policy("mru").name == "mru"
    assert isinstance(make_policy(LRU), LRU)
    own = LRU()
    assert make_policy(own) is own
    for bad in ("newest", 3, object):
        with pytest.raises(ConfigError):
            make_policy(bad)


class Coarse(EvictionPolicy):
    """Ties everywhere: the node id decides."""

    name = "coarse"

    def rank(self, node: Node) -> int:
        return node.tick // 4


class TailPage(EvictionPolicy):
    """Ranks by page id, each page on its own."""

    name = "tail-page"

    def __init__(self, rank_of: dict[int, int]) -> None:
        self.rank_of = rank_of

    def rank(self, node: Node) -> int:
        return self.rank_of[node.pages[-1]]

    def shared_tail_pages(self, node: Node) -> int:
        last = self.rank(node)
        count = 0
        for page in reversed(node.pages):
            if self.rank_of[page] != last:
                break
            count += 1
        return count


class DuckTyped:
    """No subclass, only a rank."""

    name = "duck"

    def rank(self, node: Node) -> int:
        return -len(node.pages)


class Listener(EvictionPolicy):
    """Writes down what it is told."""

    name = "listener"

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int], int]] = []
        self.newest_first = False
        self.ranked = 0

    def start(self, page_size: int) -> None:
        self.told.append(("start", [], page_size))

    def rank(self, node: Node) -> int:
        self.ranked += 1
        return -node.tick if self.newest_first else node.tick

    def on_release(self, end: Node, leaves: int) -> bool:
        self.told.append(("release", list(pages_of(end)), leaves))
        return self.newest_first

    def on_evict(self, leaf: Node, num_pages: int) -> None:
        self.told.append(("evict", list(leaf.pages), num_pages))

    def on_drop(self, node: Node) -> None:
        self.told.append(("drop", list(node.pages), node.lock_ref))


def brute_force(cache: RadixCache, rank: Callable[[Node], Any]) -> int:
    """Return the page that goes first: the last one of the best leaf."""
    leaves = [n for n in cache._tree.nodes() if not n.children and not n.lock_ref]
    return min(leaves, key=lambda node: (rank(node), node.id)).pages[-1]


PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)


@given(prompts=PROMPTS, data=st.data())
@pytest.mark.parametrize("kind", ["coarse", "tail-page"])
def test_own_policies_equal_a_scan_page_by_page(
    kind: str, prompts: list[list[int]], data: st.DataObject
) -> None:
    ranks = data.draw(st.lists(st.integers(0, 5), min_size=96, max_size=96))
    policy = Coarse() if kind == "coarse" else TailPage(dict(enumerate(ranks)))
    cache = RadixCache(1, policy=policy)
    page = 0
    for tokens in prompts:
        put(cache, tokens, list(range(page, page + len(tokens))))
        page += len(tokens)
        cache.check()
    while cache.size.evictable_pages:
        expected = brute_force(cache, policy.rank)
        assert list(cache.evict(1)) == [expected]
        cache.check()


@given(prompts=PROMPTS, chunk=st.integers(1, 9), data=st.data())
def test_large_evictions_equal_single_ones(
    prompts: list[list[int]], chunk: int, data: st.DataObject
) -> None:
    ranks = data.draw(st.lists(st.integers(0, 5), min_size=96, max_size=96))
    gone: list[list[int]] = []
    for step in (1, chunk):
        cache = RadixCache(1, policy=TailPage(dict(enumerate(ranks))))
        page = 0
        for tokens in prompts:
            put(cache, tokens, list(range(page, page + len(tokens))))
            page += len(tokens)
        out: list[int] = []
        while cache.size.evictable_pages:
            out += cache.evict(step)
            cache.check()
        gone.append(out)
    assert gone[0] == gone[1]


def test_a_policy_needs_only_a_rank() -> None:
    cache = RadixCache(1, policy=DuckTyped())
    put(cache, [1], [0])
    put(cache, [2, 3, 4], [1, 2, 3])
    put(cache, [5, 6], [4, 5])
    assert list(cache.evict(3)) == [3, 2, 1]
    cache.check()


def test_a_learning_policy_is_told_of_the_last_release_of_evictions_and_of_drops() -> None:
    policy = Listener()
    cache = RadixCache(2, policy=policy)
    put(cache, [1, 1, 2, 2, 3, 3], [0, 1, 2])
    first = cache.match(PrefixKey([1, 1, 2, 2]))
    second = cache.match(PrefixKey([1, 1]))
    cache.release(second)  # the first pin lies below it still
    cache.release(first)
    cache.evict(1)
    held = cache.match(PrefixKey([1, 1]))
    cache.reset(force=True)
    cache.release(held)
    assert policy.told == [
        ("start", [], 2),
        ("release", [0, 1, 2], 0),
        ("release", [0, 1], 1),
        ("evict", [2], 1),
        ("drop", [0], 1),
        ("drop", [1], 0),
    ]


def test_publishing_a_part_of_a_prompt_is_no_release() -> None:
    policy = Listener()
    cache = RadixCache(1, policy=policy)
    part = cache.insert(PrefixKey([1, 2, 3]), [0, 1], limit_tokens=2).handle
    whole = cache.insert(PrefixKey([1, 2, 3]), [0, 1, 2]).handle
    cache.release(part)
    cache.release(whole)
    assert policy.told[1:] == [("release", [0, 1, 2], 0)]


def test_all_candidates_are_ranked_again_when_a_release_says_so() -> None:
    policy = Listener()
    cache = RadixCache(1, policy=policy)
    for token in range(5):
        put(cache, [token], [token])
    before = policy.ranked
    policy.newest_first = True
    put(cache, [5], [5])
    assert policy.ranked - before <= 7
    cache.check()
    assert list(cache.evict(6)) == [5, 4, 3, 2, 1, 0]


def test_hooks_that_are_not_overridden_are_never_called() -> None:
    heap = RadixCache(1, policy=Coarse())._heap
    assert heap.on_release is heap.on_evict is heap.on_drop is None
    heap = RadixCache(1, policy=DuckTyped())._heap
    assert heap.on_release is heap.on_evict is heap.on_drop is None


def test_random_differs_by_seed_and_repeats_with_it() -> None:
    orders = []
    for seed in (1, 1, 2):
        cache = RadixCache(1, policy=Random(seed))
        for token in range(20):
            put(cache, [token], [token])
        orders.append(list(cache.evict(20)))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(20)) != orders[0]


def test_a_rank_that_falls_is_told() -> None:
    rank_of = {0: 5, 1: 6, 2: 7}
    cache = RadixCache(1, policy=TailPage(rank_of))
    for page in rank_of:
        put(cache, [page], [page])
    rank_of[2] = 0
    cache.rank_fell(Namespace.of(), PrefixKey([2]).data)
    cache.rank_fell(Namespace.of(), PrefixKey([77]).data)
    cache.rank_fell(Namespace.of("unknown"), PrefixKey([2]).data)
    cache.check()
    assert list(cache.evict(3)) == [2, 0, 1]


def test_a_look_through_match_prefix_counts_as_use_for_mru() -> None:
    cache = RadixCache(1, policy="mru")
    put(cache, [1], [1])
    put(cache, [2], [2])
    cache.match_prefix(PrefixKey([1]))
    cache.check()
    assert list(cache.evict(2)) == [1, 2]


def test_needed_pages_go_last_and_a_need_can_end() -> None:
    needed = {1: 2, 2: 0}

    def protected(space: Namespace, data: bytes) -> int:
        return needed.get(data[0], 0)

    cache = RadixCache(1, protected_tokens=protected)
    put(cache, [1, 5, 6], [0, 1, 2])
    put(cache, [2, 5], [3, 4])
    put(cache, [3], [5])
    assert list(cache.evict(4)) == [2, 4, 3, 5]
    assert list(cache.evict(1)) == [1]
    put(cache, [2], [3])
    needed[1] = 0
    cache.rank_fell(Namespace.of(), PrefixKey([1, 5]).data)
    assert list(cache.evict(2)) == [0, 3]


def test_a_need_that_ends_under_a_pin_counts_at_the_release() -> None:
    needed = {1: 1}
    cache = RadixCache(1, protected_tokens=lambda space, data: needed.get(data[0], 0))
    put(cache, [1], [0])
    put(cache, [2], [1])
    put(cache, [3], [2])
    assert list(cache.evict(1)) == [1]
    handle = cache.match(PrefixKey([1]))
    needed.clear()
    cache.rank_fell(Namespace.of(), PrefixKey([1]).data)
    cache.release(handle)
    cache.check()
    put(cache, [3], [2])
    assert list(cache.evict(2)) == [0, 2]


def test_protection_can_be_set_and_taken_off() -> None:
    cache = RadixCache(2)
    put(cache, [1, 1, 2, 2], [0, 1])
    put(cache, [3, 3], [2])
    # One token of the second page is needed, so the whole page is.
    cache.set_protection(lambda space, data: 3 if data[0] == 1 else 0)
    assert list(cache.evict(1)) == [2]
    put(cache, [3, 3], [2])
    cache.check()
    cache.set_protection(None)
    cache.check()
    assert list(cache.evict(3)) == [1, 0, 2]


@pytest.mark.parametrize("policy", sorted(EVICTION_POLICIES))
def test_touches_do_not_grow_the_heap(policy: str) -> None:
    cache = RadixCache(1, policy=policy)
    for token in range(4):
        put(cache, [token], [token])
    key = PrefixKey([2])
    largest = 0
    for _ in range(100_000 if policy in {"lru", "mru"} else 2_000):
        cache.release(cache.match(key))
        largest = max(largest, len(cache._heap))
    assert largest <= 2 * 4 + 64
    assert len(cache.evict(4)) == 4
    assert cache._heap.leaves == 0
    cache.check()


def test_a_growing_chain_does_not_grow_the_heap() -> None:
    cache = RadixCache(1)
    tokens: list[int] = []
    for token in range(300):
        tokens.append(token)
        put(cache, tokens, list(range(token + 1)))
    assert len(cache._heap) <= 2 + 64
    assert list(cache.evict(300)) == list(reversed(range(300)))


def test_compaction_keeps_the_order() -> None:
    busy, calm = RadixCache(1, policy="mru"), RadixCache(1, policy="mru")
    for token in range(40):
        put(busy, [token], [token])
        put(calm, [token], [token])
    for _ in range(20):
        for token in range(0, 40, 3):
            use(busy, [token])
    for token in range(0, 40, 3):
        use(calm, [token])
    assert busy.evict(40) == calm.evict(40)
