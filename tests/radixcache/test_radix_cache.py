"""RadixCache: pins, splits, sizes, ownership, events; what only a caching cache shows."""

from __future__ import annotations

import pytest

from radixcache import (
    HandleError,
    IntegrityError,
    KeyKind,
    LockError,
    Namespace,
    PrefixKey,
    RadixCache,
    format_tree,
)
from tests.models.residency_log import ResidencyLog


def key(*tokens: int, space: str | None = None) -> PrefixKey:
    return PrefixKey(tokens, Namespace.of(space))


def put(cache: RadixCache, tokens: list[int], first_page: int, space: str | None = None) -> None:
    """Insert tokens with page ids from ``first_page`` on and release them."""
    pages = range(first_page, first_page + len(tokens) // cache.page_size)
    cache.release(cache.insert(key(*tokens, space=space), list(pages)).handle)


def test_peek_changes_nothing() -> None:
    cache = RadixCache(2)
    put(cache, [1, 2, 3, 4, 5, 6], 0)
    before = format_tree(cache)
    assert cache.peek(key(1, 2, 3, 4, 9, 9)) == (4, 2)
    assert cache.peek(key(1, 2, 3)) == (2, 1)
    assert format_tree(cache) == before


def test_peek_counts_only_unpinned_pages() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2, 3, 4], 0)
    handle = cache.match(key(1, 2))
    assert cache.peek(key(1, 2, 3, 9)) == (3, 1)
    cache.release(handle)
    assert cache.peek(key(1, 2, 3, 9)) == (3, 3)


def test_a_second_pin_moves_nothing() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2, 3], 0)
    one, two = cache.match(key(1, 2, 3)), cache.match(key(1, 2, 3))
    assert cache.size == (0, 3)
    cache.release(one)
    assert cache.size == (0, 3)
    cache.release(two)
    assert cache.size == (3, 0)


def test_a_split_inside_a_pinned_path_keeps_the_pin() -> None:
    cache = RadixCache(1)
    handle = cache.insert(key(*range(8)), list(range(8))).handle
    assert cache.match(key(0, 1, 2, 9)).prefix_tokens == 3
    assert cache.size == (0, 8)
    assert list(handle.pages) == list(range(8))
    cache.release(handle)
    assert cache.size == (5, 3)
    cache.check()


def test_size_is_constant_under_splits() -> None:
    for page_size in (1, 2):
        cache = RadixCache(page_size)
        put(cache, list(range(16)), 0)
        for stop in (14, 6, 2, 10, 4):
            cache.release(cache.match(key(*range(stop), 99, 99)))
            assert cache.size.total_pages == 16 // page_size
            cache.check()


def test_a_partial_match_touches_the_upper_half_only() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2, 3, 4], 0)
    cache.release(cache.match(key(1, 2, 9)))
    upper = cache.match_prefix(key(1, 2)).last_node
    lower = next(iter(upper.children.values()))
    assert (upper.hits, lower.hits) == (1, 0)
    assert upper.tick > lower.tick
    assert upper.created == lower.created


def test_split_copies_metadata_and_keeps_the_lower_node() -> None:
    cache = RadixCache(1)
    handle = cache.insert(key(1, 2, 3, 4), [0, 1, 2, 3], priority=5).handle
    cache.release(cache.match(key(1, 2, 3, 4)))
    node = cache.match_prefix(key(1, 2, 3, 4)).last_node
    cache.release(cache.match(key(1, 2, 9)))
    upper = node.parent
    assert (upper.priority, upper.hits, upper.lock_ref) == (5, 2, 1)
    assert (node.priority, node.hits, node.lock_ref) == (5, 1, 1)
    assert list(node.pages) == [2, 3]
    cache.release(handle)
    cache.check()


def test_priority_is_raised_along_the_path_and_never_lowered() -> None:
    cache = RadixCache(1, policy="priority")
    cache.insert(key(1, 2, 3, 4), [0, 1, 2, 3], priority=1)
    cache.insert(key(1, 2, 9), [0, 1, 4], priority=3)
    cache.insert(key(1, 2), [0, 1], priority=0)
    upper = cache.match_prefix(key(1, 2)).last_node
    by_token = {node.edge[0]: node.priority for node in upper.children.values()}
    assert upper.priority == 3
    assert by_token == {3: 1, 9: 3}


def test_insert_adopts_what_is_missing_and_returns_duplicates() -> None:
    cache = RadixCache(2)
    put(cache, [1, 2, 3, 4], 0)
    result = cache.insert(key(1, 2, 3, 4, 5, 6, 7), [0, 8, 9])
    assert result.cached_tokens == 6
    assert list(result.duplicate_pages) == [8]
    assert list(result.handle.pages) == [0, 1, 9]
    assert cache.size == (0, 3)


def test_page_ids_beyond_the_full_pages_are_ignored() -> None:
    cache = RadixCache(2)
    result = cache.insert(key(1, 2, 3), [0, 1])
    assert result.cached_tokens == 2
    assert list(result.handle.pages) == [0]


def test_namespaces_share_nothing_and_go_one_by_one() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2], 0)
    put(cache, [1, 2], 2, "")
    put(cache, [1, 2], 4, "a")
    assert [cache.peek(key(1, 2, space=s)).prefix_tokens for s in (None, "", "b")] == [2, 2, 0]
    handle = cache.match(key(1, 2, space=""))
    assert not cache.drop_namespace(Namespace.of("")).done
    assert list(cache.drop_namespace(Namespace.of("a")).pages) == [4, 5]
    cache.release(handle)
    dropped = cache.drop_namespace(Namespace.of("", cache_salt=""))
    assert sorted(dropped.pages) == [2, 3]
    assert cache.size == (2, 0)
    cache.check()


def test_roots_go_with_their_last_child() -> None:
    cache = RadixCache(1)
    for salt in range(100):
        space = Namespace.of(None, None, str(salt))
        cache.release(cache.match(PrefixKey([1], space)))
        cache.release(cache.insert(PrefixKey([1], space), [salt]).handle)
    assert len(cache._roots) == 100
    cache.evict(99)
    assert len(cache._roots) == 1
    cache.check()


def test_a_refused_reset_changes_nothing_and_a_forced_one_parts_the_pages() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2, 3, 4], 0)
    handle = cache.match(key(1, 2))
    before = format_tree(cache)
    refused = cache.reset()
    assert (refused.done, list(refused.pages), list(refused.pinned_pages)) == (False, [], [])
    assert format_tree(cache) == before
    forced = cache.reset(force=True)
    assert (list(forced.pages), list(forced.pinned_pages)) == ([2, 3], [0, 1])
    assert cache.size == (0, 0)
    cache.release(handle)
    cache.check()
    put(cache, [1, 2, 3, 4], 0)
    cache.check()


def test_a_handle_of_no_tokens_pins_nothing() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2], 0)
    handle = cache.match(key(5, 6))
    assert cache.reset().done
    cache.release(handle)
    cache.check()


def test_events_follow_inserts_and_evictions_only() -> None:
    cache = RadixCache(2)
    log = ResidencyLog(2, 8)
    cache.add_observer(log)
    put(cache, [1, 2, 3, 4, 5, 6], 0)
    put(cache, [1, 2, 9, 9], 0)
    cache.release(cache.match(key(1, 2, 3, 4, 8, 8)))
    cache.peek(key(1, 2))
    assert log.calls == [("stored", 0, 6), ("stored", 2, 4)]
    cache.evict(2)
    assert log.calls[2:] == [("removed", 4, 6), ("removed", 2, 4)]


def test_locks_by_hand_never_take_a_handles_pin() -> None:
    cache = RadixCache(2)
    put(cache, [1, 2, 3, 4], 0)
    node = cache.match_prefix(key(1, 2, 3, 4)).last_node
    handle = cache.match(key(1, 2, 3, 4))
    with pytest.raises(LockError, match="not locked"):
        cache.dec_lock_ref(node)
    cache.inc_lock_ref(node)
    cache.inc_lock_ref(node)
    assert (cache.evictable_size(), cache.protected_size()) == (0, 4)
    cache.release(handle)
    cache.dec_lock_ref(node)
    assert cache.protected_size() == 4
    cache.dec_lock_ref(node)
    with pytest.raises(LockError):
        cache.dec_lock_ref(node)
    assert cache.evictable_size() == 4
    cache.evict(2)
    with pytest.raises(LockError, match="has left"):
        cache.inc_lock_ref(node)
    cache.inc_lock_ref(None)
    cache.dec_lock_ref(None)
    cache.check()


def test_match_prefix_touches_but_counts_no_hit() -> None:
    cache = RadixCache(1)
    put(cache, [1, 2], 0)
    put(cache, [3, 4], 2)
    found = cache.match_prefix(key(1, 2))
    assert (found.prefix_tokens, list(found.pages), found.last_node.hits) == (2, [0, 1], 0)
    assert list(cache.evict(2)) == [3, 2]
    assert cache.match_prefix(key(8)) == (0, None, found.pages[:0])


def test_a_chain_of_100_000_nodes_works() -> None:
    cache = RadixCache(1)
    depth = 100_000
    data = PrefixKey(range(depth)).data
    # Built through the tree: inserting each prefix in turn costs the square of the depth.
    node = cache._tree.root(Namespace.of())
    pages = cache.insert(key(0), [0]).handle.pages
    node = cache.match_prefix(key(0)).last_node
    for token in range(1, depth):
        edge = data[4 * token : 4 * token + 4]
        node = cache._tree.attach(node, edge, type(pages)("i", [token]), 1)
    cache._evictable = depth - 1
    cache._heap.offer(node)
    whole = PrefixKey.from_packed(data, KeyKind.TOKENS)
    assert cache.peek(whole) == (depth, depth - 1)
    handle = cache.match(whole)
    assert len(handle.pages) == depth
    cache.check()
    assert "nodes more" in format_tree(cache)
    cache.release(handle)
    assert cache.match(whole, depth // 2).prefix_tokens == depth // 2
    assert len(cache.evict(depth)) == depth // 2
    cache.check()
    assert len(cache.reset(force=True).pinned_pages) == depth // 2


def test_pages_of_a_forced_reset_are_unreadable() -> None:
    cache = RadixCache(1)
    handle = cache.insert(key(1), [0]).handle
    cache.reset(force=True)
    with pytest.raises(HandleError, match="reset"):
        handle.pages


def test_check_finds_a_page_that_is_held_twice() -> None:
    cache = RadixCache(1)
    put(cache, [1], 0)
    put(cache, [2], 0)
    with pytest.raises(IntegrityError, match="more than one place"):
        cache.check()


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("_evictable", 7, "the counters say"),
        ("_live_pins", 3, "pins are alive"),
        ("_tick", 0, "touched at"),
        ("_taken", {1: 1}, "own pins"),
        ("_taken", {99: 1}, "are gone"),
    ],
)
def test_check_finds_a_wrong_counter(attribute: str, value: object, words: str) -> None:
    cache = RadixCache(1)
    put(cache, [1, 2], 0)
    setattr(cache, attribute, value)
    with pytest.raises(IntegrityError, match=words):
        cache.check()


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("edge", b"", "empty edge"),
        ("edge", b"1234567", "bytes for pages"),
        ("parent", None, "point back"),
        ("lock_ref", 2, "counters say"),
        ("entry", None, "not in the heap"),
        ("tick", 0, "touched at"),
    ],
)
def test_check_finds_a_broken_node(attribute: str, value: object, words: str) -> None:
    cache = RadixCache(1)
    put(cache, [1, 2], 0)
    node = cache.match_prefix(key(1, 2)).last_node
    root = node.parent
    setattr(node, attribute, value)
    if attribute == "parent":
        root.children[b"abcd"] = node
    with pytest.raises(IntegrityError, match=words):
        cache.check()


def test_format_tree_says_what_it_leaves_out() -> None:
    cache = RadixCache(1)
    for token in range(5):
        put(cache, [token, *range(10, 20)], 20 * token, "x")
    text = format_tree(cache, max_nodes=2)
    assert text.splitlines()[0] == (
        "RadixCache tokens, page size 1, lru: 55 evictable and 0 protected pages"
    )
    assert "0 10 11 12 13 14 ...: pages 0 1 2 3 4 5 ... (11), lock_ref 0, hits 0, tick 1" in text
    assert text.endswith("... and 3 nodes more")
