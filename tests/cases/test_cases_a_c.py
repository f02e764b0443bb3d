"""Cases A-C: size accounting, pins, page boundaries. Each test carries its case's number."""

from __future__ import annotations

from radixcache import PagePool, PrefixKey, RadixCache
from tests.models.driver import Driver


def test_b01_counters_stay_right_through_a_split() -> None:
    d = Driver(page_size=1)
    d.insert(1, 2, 3, 4, 5)
    handle = d.lock(1, 2, 3, 4, 5)
    d.insert(1, 2, 3, 9, 9)
    assert d.cache.size == (2, 5)
    d.unlock(handle)
    d.unlock(d.lock(1, 2, 3, 9, 9))
    assert d.cache.size == (7, 0)


def test_b02_a_key_shorter_than_a_page_creates_nothing() -> None:
    d = Driver(page_size=4, capacity_pages=2)
    assert d.insert(1, 2, 3, 4, 5, 6) == 4
    # The partial tail page was never the cache's.
    assert d.pool.free_pages == 1
    nodes = len(list(d.cache._tree.nodes()))
    assert d.matched(1, 2, 3) == 0
    assert d.matched(1, 2, 3, 9) == 0
    assert len(list(d.cache._tree.nodes())) == nodes
    assert d.evict(1) == 1
    assert d.cache.size == (0, 0)
    assert d.pool.free_pages == 2


def test_b03_each_page_of_a_finished_request_ends_once() -> None:
    """4 prompt tokens and 3 outputs, 8 slots allocated: the last output has no KV."""
    pool, cache = PagePool(16), RadixCache(1)
    row = pool.allocate(8)
    result = cache.insert(PrefixKey([1, 2, 3, 4, 5, 6, 7]), row, limit_tokens=4 + 3 - 1)
    pool.free(result.duplicate_pages)
    pool.free(row[result.cached_tokens :])
    cache.release(result.handle)
    cache.release(result.handle)
    cache.check()
    assert cache.size == (6, 0)
    assert pool.free_pages + 6 == 16


def test_b04_inner_nodes_count_as_evictable() -> None:
    d = Driver(page_size=1)
    for stop in (4, 8, 12):
        d.insert(*range(1, stop + 1))
    assert len(list(d.cache._tree.nodes())) == 3
    assert d.cache.size.evictable_pages == 12
    assert list(d.cache.evict(12)) == list(reversed(range(12)))


def test_b06_a_pin_protects_the_matched_node_itself() -> None:
    d = Driver(page_size=1)
    d.insert(1, 2, 3)
    d.insert(1, 2, 3, 4, 5)
    handle = d.lock(1, 2, 3, 4, 5)
    assert d.evict(5) == 0
    assert d.cache.size == (0, 5)
    assert d.matched(1, 2, 3, 4, 5) == 5
    d.unlock(handle)
    assert d.evict(5) == 5


def test_b08_a_reset_under_a_pin_is_refused_or_leaves_a_stale_handle() -> None:
    d = Driver(page_size=1)
    d.insert(1, 2, 3, 4)
    handle = d.lock(1, 2, 3, 4)
    assert not d.cache.reset().done
    assert d.cache.size == (0, 4)
    d.unlock(handle)
    assert d.cache.reset().done
    d = Driver(page_size=1)
    d.insert(1, 2, 3, 4)
    stale = d.lock(1, 2, 3, 4)
    dropped = d.cache.reset(force=True)
    d.pool.free(dropped.pages)
    d.insert(1, 2, 3, 4)
    d.unlock(stale)
    d.pool.free(dropped.pinned_pages)
    assert d.cache.size == (4, 0)


def test_b10_looking_while_waiting_pins_nothing() -> None:
    d = Driver(page_size=1)
    d.insert(1, 2, 3, 4)
    for _ in range(3):
        assert d.cache.peek(PrefixKey([1, 2, 3, 4])).prefix_tokens == 4
        assert d.cache.size.protected_pages == 0
    d.unlock(d.lock(1, 2, 3, 4))
    assert d.cache.size == (4, 0)


def test_b11_a_failed_admission_leaves_no_pin() -> None:
    d = Driver(page_size=1, capacity_pages=16)
    d.insert(*range(1, 9))
    d.lock(*range(20, 28)) if d.insert(*range(20, 28)) else None
    before = d.cache.size
    for _ in range(1000):
        handle = d.cache.match(PrefixKey(range(1, 9)))
        assert d.pool.free_pages + d.cache.size.evictable_pages == 0
        d.cache.release(handle)
    assert d.cache.size == before
    d.check()


def test_b13_a_page_of_pairs_needs_one_token_more() -> None:
    cache = RadixCache(4, kind=PrefixKey.from_pairs([]).kind)
    handle = cache.insert(PrefixKey.from_pairs([1, 2, 3, 4, 5]), [0]).handle
    cache.release(handle)
    assert cache.size.total_pages == 1
    found = [
        cache.match(PrefixKey.from_pairs(raw)).prefix_tokens
        for raw in ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [1])
    ]
    assert found == [0, 4, 0]
    cache.check()


def test_b15_a_full_hit_leaves_a_token_to_compute() -> None:
    for page_size, prompt, expected in ((4, 8, 4), (4, 9, 8), (1, 8, 7)):
        d = Driver(page_size=page_size)
        d.insert(*range(1, 9))
        cap = (prompt - 1) // page_size * page_size
        handle = d.cache.match(PrefixKey(range(1, prompt + 1)), limit_tokens=cap)
        assert handle.prefix_tokens == expected
        d.cache.release(handle)
        nodes = len(list(d.cache._tree.nodes()))
        d.insert(*range(1, 9))
        assert len(list(d.cache._tree.nodes())) == nodes
        assert d.cache.size.total_pages == 8 // page_size
