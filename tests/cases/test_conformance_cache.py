"""What people know from SGLang, line by line; each test carries the line's number."""

from __future__ import annotations

import pytest

from radixcache import LockError, NullCache, PrefixKey, RadixCache
from tests.models.driver import Driver
from tests.models.residency_log import ResidencyLog


@pytest.mark.parametrize("page_size", [1, 2])
def test_c10_a_split_by_match_keeps_the_total(page_size: int) -> None:
    d = Driver(page_size)
    d.insert(1, 2, 3, 4)
    assert d.matched(1, 2) == 2
    assert d.matched(1, 2, 3) == 3 // page_size * page_size
    assert d.cache.size.total_pages == 4 // page_size


def test_c11_a_repeated_insert_adds_nothing_and_a_null_cache_keeps_nothing() -> None:
    d = Driver(4)
    for _ in range(2):
        assert d.insert(*range(10)) == 8
        assert d.cache.size == (2, 0)
    null = NullCache(4)
    assert null.insert(PrefixKey(range(10)), [0, 1]).cached_tokens == 0
    assert null.size == (0, 0)


def test_c12_pages_stay_parallel_to_the_key_through_splits() -> None:
    cache = RadixCache(1)
    cache.insert(PrefixKey(range(8)), range(100, 108))
    for stop in (5, 2, 7):
        cache.match(PrefixKey([*range(stop), 99]))
    for stop in range(9):
        assert list(cache.match(PrefixKey(range(stop))).pages) == list(range(100, 100 + stop))
    cache.check()


def test_c16_a_shared_prefix_is_held_once() -> None:
    cache = RadixCache(16)
    prefix = list(range(10_000))
    for request in range(50):
        tokens = prefix + [20_000 + request] * 16
        cache.release(cache.insert(PrefixKey(tokens), [*range(625), 1000 + request]).handle)
    assert sum(len(node.edge) for node in cache._tree.nodes()) == 4 * (10_000 + 50 * 16)
    cache.check()


def test_c17_a_reset_empties_everything_and_says_so_once() -> None:
    d = Driver(1)
    log = ResidencyLog(1, 4)
    d.cache.add_observer(log)
    d.insert(1, 2, 3)
    assert sorted(d.cache.reset().pages) == [0, 1, 2]
    assert d.cache.size == (0, 0)
    assert not list(d.cache._tree.nodes())
    assert [call[0] for call in log.calls] == ["stored", "cleared"]


def test_c21_a_lock_survives_a_split_inside_it() -> None:
    cache = RadixCache(1)
    cache.release(cache.insert(PrefixKey(range(8)), range(8)).handle)
    node = cache.match_prefix(PrefixKey(range(8))).last_node
    cache.inc_lock_ref(node)
    cache.match_prefix(PrefixKey([0, 1, 2, 9]))
    assert cache.protected_size() == 8
    cache.dec_lock_ref(node)
    assert (cache.evictable_size(), cache.protected_size()) == (8, 0)
    cache.check()


def test_c22_unlocking_too_often_raises() -> None:
    cache = RadixCache(1)
    cache.release(cache.insert(PrefixKey([1]), [0]).handle)
    with pytest.raises(LockError):
        cache.dec_lock_ref(cache.match_prefix(PrefixKey([1])).last_node)
    cache.check()


def test_c23_only_free_branches_go() -> None:
    d = Driver(1)
    d.insert(1, 2, 3, 4)
    d.insert(1, 2, 3, 4, 5, 6, 7)
    d.insert(1, 2, 3, 4, 8, 9, 10)
    handle = d.lock(1, 2, 3, 4)
    assert d.evict(100) == 6
    assert list(handle.pages) == [0, 1, 2, 3]


def test_c32_one_page_can_be_evicted_from_a_long_leaf() -> None:
    d = Driver(1, capacity_pages=100)
    d.insert(*range(100))
    assert d.evict(1) == 1
    assert d.matched(*range(100)) == 99


def test_c34_the_freed_pages_are_the_difference_of_the_size() -> None:
    d = Driver(2)
    for leaf in range(4):
        d.insert(leaf, leaf, 9, 9)
    for asked in (1, 3, 2, 9):
        before = d.cache.size.evictable_pages
        assert d.evict(asked) == before - d.cache.size.evictable_pages == min(asked, before)


def test_c35_a_shared_prefix_outlives_a_branch() -> None:
    d = Driver(1)
    d.insert(1, 2, 3)
    d.insert(1, 2, 4)
    handle = d.lock(1, 2, 3)
    assert d.evict(9) == 1
    assert d.matched(1, 2, 9) == 2
    d.unlock(handle)
    assert d.evict(9) == 3


def test_c36_an_empty_or_pinned_cache_evicts_nothing() -> None:
    d = Driver(1)
    assert d.evict(5) == 0
    d.insert(1)
    d.lock(1)
    assert d.evict(5) == 0


def test_c38_a_later_reuse_counts_once() -> None:
    cache = RadixCache(2)
    key = PrefixKey(range(8))
    for stop in (4, 8):
        cache.release(cache.insert(key, range(4), limit_tokens=stop).handle)
    cache.release(cache.match(key))
    assert {node.hits for node in cache._tree.nodes()} == {1}


def test_c56_a_full_eviction_can_be_filled_again() -> None:
    d = Driver(2)
    log = ResidencyLog(2, 8)
    d.cache.add_observer(log)
    for _ in range(2):
        d.insert(1, 2, 3, 4)
        assert d.evict(2) == 2
    assert [call[0] for call in log.calls] == ["stored", "removed"] * 2
