"""Cases D-F: page ownership, eviction order, namespaces. Each test carries its case's number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from radixcache import Namespace, PagePool, PrefixKey, RadixCache, TokenError
from tests.models.driver import Driver
from tests.models.residency_log import ResidencyLog

ROOT = Path(__file__).resolve().parents[2]


def test_b17_the_second_publisher_takes_the_trees_pages() -> None:
    pool, cache = PagePool(32), RadixCache(1)
    key = PrefixKey(range(1, 9))
    first, second = pool.allocate(8), pool.allocate(8)
    one = cache.insert(key, first)
    two = cache.insert(key, second)
    pool.free(two.duplicate_pages)
    row = two.handle.pages
    assert list(row) == list(first) == list(one.handle.pages)
    third = pool.allocate(8)
    assert not set(third) & set(row)
    cache.check()


def test_b19_published_chunks_of_a_dropped_request_stay_valid() -> None:
    pool, cache = PagePool(16), RadixCache(4)
    row = pool.allocate(3)
    key = PrefixKey(range(1, 13))
    one = cache.insert(key, row, limit_tokens=4)
    two = cache.insert(key, row, limit_tokens=8)
    cache.release(one.handle)
    cache.release(two.handle)
    pool.free(row[two.cached_tokens // 4 :])
    assert cache.size == (2, 0)
    assert pool.in_use() == set(row[:2])
    assert list(cache.match(key).pages) == list(row[:2])
    cache.check()


def test_b20_a_look_is_repeated_after_an_eviction() -> None:
    d = Driver(page_size=1)
    d.insert(*range(1, 9))
    key = PrefixKey(range(1, 15))
    assert d.cache.peek(key).prefix_tokens == 8
    d.evict(8)
    assert d.cache.match(key).prefix_tokens == 0
    d.insert(*range(1, 13))
    assert d.cache.match(key).prefix_tokens == 12


def test_b22_a_split_gives_each_half_its_age() -> None:
    d = Driver(page_size=1)
    d.insert(*range(1, 9))
    d.insert(20, 21, 22, 23)
    d.use(1, 2, 3, 4, 9)
    assert d.evict(4) == 4
    assert d.matched(*range(1, 9)) == 4
    d.cache.release(d.cache.match(PrefixKey([1, 2, 3, 4])))
    assert d.evict(4) == 4
    assert d.cache.peek(PrefixKey([20, 21, 22, 23])).prefix_tokens == 0
    assert d.cache.peek(PrefixKey([1, 2, 3, 4])).prefix_tokens == 4


def test_b24_the_heap_is_bounded_by_leaves_not_touches() -> None:
    cache = RadixCache(1)
    for token in range(4):
        cache.release(cache.insert(PrefixKey([token]), [token]).handle)
    key = PrefixKey([1])
    for _ in range(100_000):
        cache.release(cache.match(key))
    assert len(cache._heap) <= 64 + 2 * 4
    assert list(cache.evict(4)) == [0, 2, 3, 1]
    assert cache._heap.leaves == 0
    cache.check()


def test_b25_only_the_shortfall_is_evicted() -> None:
    d = Driver(page_size=1, capacity_pages=16)
    for leaf in range(5):
        d.insert(2 * leaf, 100 + leaf)
    assert d.pool.free_pages == 6
    assert d.evict(8 - d.pool.free_pages) == 2
    assert len(list(d.cache._tree.nodes())) == 4
    assert d.cache.size.evictable_pages == 8
    assert len(d.pool.allocate(8)) == 8


@pytest.mark.parametrize(
    ("leaves", "locked", "asked", "freed", "left"),
    [(5, False, 4, 4, 16), (3, True, 8, 8, 4)],
)
def test_b26_eviction_frees_exactly_what_was_asked(
    leaves: int, locked: bool, asked: int, freed: int, left: int
) -> None:
    d = Driver(page_size=1)
    for leaf in range(leaves):
        d.insert(leaf, 10, 11, 12)
    if locked:
        d.lock(0, 10, 11, 12)
    assert d.evict(asked) == freed
    assert d.cache.size.total_pages == left


def test_b26_one_call_climbs_a_chain() -> None:
    d = Driver(page_size=1)
    for stop in (4, 8, 12):
        d.insert(*range(stop))
    assert d.evict(12) == 12


def test_b27_hits_count_matches_of_the_matched_part() -> None:
    d = Driver(page_size=1, policy="lfu")
    d.insert(1, 2, 3, 4)
    d.insert(11, 12, 13, 14)
    for _ in range(3):
        d.use(1, 2, 3, 4)
    d.use(11, 12, 13, 14)
    d.evict(4)
    assert d.matched(11, 12, 13, 14) == 0
    assert d.matched(1, 2, 3, 4) == 4
    d.insert(21, 22, 23, 24, 25, 26)
    for _ in range(2):
        d.use(21, 22, 23, 24, 9)
    upper = d.cache.match_prefix(PrefixKey([21, 22, 23, 24])).last_node
    assert upper is not None
    assert [upper.hits, *(child.hits for child in upper.children.values())] == [2, 0]


def test_b27_publishing_chunk_by_chunk_counts_no_hit() -> None:
    cache = RadixCache(1)
    key = PrefixKey(range(12))
    handles = [cache.insert(key, range(12), limit_tokens=stop).handle for stop in (4, 8, 12)]
    assert [node.hits for node in cache._tree.nodes()] == [0, 0, 0]
    for handle in handles:
        cache.release(handle)
    cache.release(cache.match(key))
    assert [node.hits for node in cache._tree.nodes()] == [1, 1, 1]


def test_b28_a_chain_of_5000_nodes_needs_no_recursion() -> None:
    cache = RadixCache(1)
    key = PrefixKey(range(5000))
    pages = list(range(5000))
    handle = cache.insert(key, pages).handle
    # From the longest prefix down, so that each one splits the topmost node only.
    for stop in range(4999, 0, -1):
        cache.release(cache.match(key, stop))
    assert cache.size == (0, 5000)
    assert len(list(cache._tree.nodes())) == 5000
    cache.check()
    assert cache.peek(key).prefix_tokens == 5000
    cache.release(handle)
    assert len(cache.evict(4000)) == 4000
    assert len(cache.reset().pages) == 1000


def test_b30_namespace_parts_are_never_joined() -> None:
    d = Driver(page_size=1)
    d.insert(1, 2, 3, 4, space=Namespace.of("c", None, "ab"))
    d.insert(1, 2, 3, 4, space=Namespace.of(None, "L1"))
    assert d.matched(1, 2, 3, 4, space=Namespace.of("bc", None, "a")) == 0
    assert d.matched(1, 2, 3, 4, space=Namespace.of("L1")) == 0
    assert d.matched(1, 2, 3, 4, space=Namespace.of(None, ("L1",))) == 0
    assert d.matched(1, 2, 3, 4, space=Namespace.of(None, "L1")) == 4


def test_b32_new_weights_are_a_new_namespace_and_the_old_can_go() -> None:
    d = Driver(page_size=1)
    log = ResidencyLog(1, 4)
    d.cache.add_observer(log)
    old, new = Namespace.of(None, ("t", 1)), Namespace.of(None, ("t", 2))
    d.insert(1, 2, 3, 4, space=old)
    assert d.matched(1, 2, 3, 4, space=new) == 0
    d.insert(1, 2, 3, 4, space=new)
    dropped = d.cache.drop_namespace(old)
    d.pool.free(dropped.pages)
    assert len(dropped.pages) == 4
    assert {space for space, _ in log.resident} == {new}
    assert d.matched(1, 2, 3, 4, space=new) == 4
    assert d.matched(1, 2, 3, 4, space=old) == 0


def test_b34_tokens_are_compared_not_hashed() -> None:
    for bad in (-1, -2, True, 1.0):
        with pytest.raises(TokenError):
            PrefixKey([bad])
    cache = RadixCache(1, kind=PrefixKey([], wide=True).kind)
    cache.insert(PrefixKey([1], wide=True), [0])
    assert cache.match(PrefixKey([2**61], wide=True)).prefix_tokens == 0
    assert cache.match(PrefixKey([1], wide=True)).prefix_tokens == 1


def test_b35_keys_and_order_are_the_same_in_every_process() -> None:
    program = """
from radixcache import Namespace, PrefixKey, RadixCache
cache = RadixCache(2)
for number, extra in enumerate((None, "a", "b")):
    key = PrefixKey([1, 2, 0, 0], Namespace.of(extra), items=[(2, 2, b"cat")])
    print(key.data.hex())
    cache.release(cache.insert(key, [2 * number, 2 * number + 1]).handle)
print(list(cache.evict(5)), list(cache.reset().pages))
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1
