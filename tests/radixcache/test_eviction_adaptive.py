"""T-LRU keeps what the next turn needs; ARC moves its target by the ghosts that come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import ARC, TLRU, ConfigError, PrefixKey, RadixCache


def serve(cache: RadixCache, tokens: list[int], capacity: int) -> int:
    """Run one request; a page's id is chosen among the free ones. Return the pages it hit."""
    hit = cache.match(PrefixKey(tokens))
    pages = list(hit.pages)
    room = capacity - cache.size.total_pages
    missing = len(tokens) // cache.page_size - len(pages)
    cache.evict(max(0, missing - room))
    used = {page for node in cache._tree.nodes() for page in node.pages}
    free = [page for page in range(capacity) if page not in used]
    table = pages + free[:missing]
    stored = cache.insert(PrefixKey(tokens), table, len(table) * cache.page_size)
    cache.release(hit)
    cache.release(stored.handle)
    cache.check()
    return len(pages)


def cached(cache: RadixCache, tokens: list[int]) -> int:
    return cache.peek(PrefixKey(tokens)).prefix_tokens


def test_t_lru_first_evicts_what_may_be_computed_within_the_target() -> None:
    # 10 tokens + 3 expected - 5 allowed: the first 8 must stay, so 4 of its 5 pages.
    cache = RadixCache(2, policy=TLRU(threshold_tokens=5, next_prompt_tokens=3))
    long, short = list(range(10)), [20, 21]
    serve(cache, short, 8)
    serve(cache, long, 8)
    assert len(cache.evict(1)) == 1
    assert (cached(cache, short), cached(cache, long)) == (0, 10)
    assert len(cache.evict(1)) == 1
    assert cached(cache, long) == 8
    serve(cache, short, 8)
    cache.evict(1)
    assert (cached(cache, short), cached(cache, long)) == (0, 8)
    cache.evict(1)
    assert cached(cache, long) == 6


def test_t_lru_does_not_shrink_a_conversation_with_its_tail() -> None:
    cache = RadixCache(1, policy=TLRU(threshold_tokens=2, next_prompt_tokens=0))
    serve(cache, [1, 2, 3, 4], 9)
    cache.evict(2)
    serve(cache, [9], 9)
    cache.evict(1)
    # What is left of it is at its budget, so the newer but needless page went.
    assert (cached(cache, [1, 2, 3, 4]), cached(cache, [9])) == (2, 0)


def test_t_lru_keeps_a_shared_page_that_one_conversation_needs() -> None:
    cache = RadixCache(1, policy=TLRU(threshold_tokens=2, next_prompt_tokens=0))
    serve(cache, [1, 2, 3, 4], 9)
    serve(cache, [1, 2], 9)
    serve(cache, [7, 8], 9)
    cache.evict(4)
    assert cached(cache, [1, 2, 3, 4]) == 2


@pytest.mark.parametrize("policy", [TLRU(0, 0), TLRU(10**9, 0)])
def test_t_lru_at_both_ends_is_lru(policy: TLRU) -> None:
    cache, plain = RadixCache(1, policy=policy), RadixCache(1)
    for tokens in ([1, 2, 3], [1, 2, 4, 5], [6], [1, 2, 3]):
        serve(cache, tokens, 20)
        serve(plain, tokens, 20)
    assert list(cache.evict(9)) == list(plain.evict(9))


def test_t_lru_rejects_negative_tokens() -> None:
    with pytest.raises(ConfigError, match="threshold_tokens is -1"):
        TLRU(threshold_tokens=-1)
    with pytest.raises(ConfigError, match="next_prompt_tokens is -2"):
        TLRU(next_prompt_tokens=-2)


@pytest.mark.parametrize("make", [TLRU, ARC])
def test_a_policy_that_learns_serves_one_cache(make: type[TLRU] | type[ARC]) -> None:
    policy = make()
    RadixCache(1, policy=policy)
    with pytest.raises(ConfigError, match="make one for each cache"):
        RadixCache(1, policy=policy)


def test_arc_keeps_what_was_used_twice_under_a_scan() -> None:
    policy = ARC()
    cache = RadixCache(1, policy=policy)
    for token in (1, 2, 1, 2):
        serve(cache, [token], 6)
    for token in range(100, 200):
        serve(cache, [token], 6)
    assert (cached(cache, [1]), cached(cache, [2])) == (1, 1)
    assert policy.target_pages == 0


def test_arc_moves_its_target_by_the_kind_of_ghost_that_comes_back() -> None:
    policy = ARC()
    cache = RadixCache(1, policy=policy)
    for token in (1, 1, 2, 2, 3, 4, 5):
        serve(cache, [token], 4)
    assert cached(cache, [3]) == 0
    serve(cache, [3], 4)
    assert policy.target_pages == 1
    serve(cache, [4], 4)
    assert policy.target_pages == 2
    # Now recent pages are below the target, so frequent ones went, the oldest first.
    assert cached(cache, [1]) == 0
    serve(cache, [1], 4)
    assert policy.target_pages == 1


def test_arc_forgets_what_a_reset_drops() -> None:
    policy = ARC()
    cache = RadixCache(1, policy=policy)
    for token in (1, 1, 2):
        serve(cache, [token], 4)
    cache.reset()
    assert not policy._marks.of_page
    assert not policy._frequent
    serve(cache, [1], 4)
    assert not policy._frequent


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), max_size=40))
def test_arc_remembers_no_more_ghosts_than_pages(prompts: list[list[int]]) -> None:
    policy = ARC()
    cache = RadixCache(1, policy=policy)
    for tokens in prompts:
        serve(cache, tokens, 7)
        ghosts = len(policy._recent_ghosts) + len(policy._frequent_ghosts)
        resident = len(policy._marks.of_page)
        assert resident == cache.size.total_pages
        assert policy._frequent <= policy._marks.of_page.keys()
        recent = resident - len(policy._frequent)
        assert recent + len(policy._recent_ghosts) <= 7
        assert resident + ghosts <= 14
        assert 0 <= policy.target_pages <= 7
