"""GhostGittins: the index against a scan of all plans, and what finished prompts teach it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import ConfigError, GhostGittins, PrefixKey, RadixCache
from radixcache.gittins import ReuseGaps, gittins_indices
from radixcache.tree import Node

CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def put(cache: RadixCache, tokens: list[int], pages: list[int]) -> None:
    cache.release(cache.insert(PrefixKey(tokens), pages).handle)


def plan(chances: list[float], ages: list[int], start: int, stop: int) -> float:
    """Return the expected reuses / expected time of holding from bin start to bin stop."""
    reuses = held = 0.0
    for end in range(start, stop):
        alive = 1.0
        for chance in chances[start:end]:
            alive *= 1 - chance
        middle = (ages[end] + ages[end + 1]) / 2 - ages[start]
        reuses += alive * chances[end]
        held += alive * chances[end] * middle
    alive = 1.0
    for chance in chances[start:stop]:
        alive *= 1 - chance
    held += alive * (ages[stop] - ages[start])
    return reuses / held


@given(CHANCES, st.lists(st.integers(1, 50), min_size=8, max_size=8))
def test_the_index_is_that_of_the_best_plan(chances: list[float], widths: list[int]) -> None:
    ages = [sum(widths[:end]) for end in range(len(chances) + 1)]
    found = gittins_indices([*chances, 0.5], ages)
    for start in range(len(chances)):
        plans = [plan(chances, ages, start, end) for end in range(start + 1, len(ages))]
        assert found[start] == pytest.approx(max(plans), abs=1e-12)
    assert found[-1] == 0


def test_the_index_of_falling_chances_falls_and_of_rising_ones_rises() -> None:
    ages = [0, 1, 2, 3, 4]
    falling = gittins_indices([0.8, 0.4, 0.2, 0.1, 0], ages)
    assert falling == sorted(falling, reverse=True)
    rising = gittins_indices([0.1, 0.2, 0.4, 0.8, 0], ages)[:-1]
    assert rising == sorted(rising)


def test_ends_that_wait_still_count_as_at_risk() -> None:
    gaps = ReuseGaps()
    for _ in range(10):
        gaps.reused(0, 1)
    alone = gaps.indices([])
    waiting = gaps.indices([(0, 100)] * 90)
    assert waiting[0][0] == pytest.approx(alone[0][0] / 10, rel=0.2)
    # Another class has none of its own and borrows what all classes show together.
    assert waiting[3][0] == pytest.approx(waiting[0][0], rel=0.2)
    for _ in range(90):
        gaps.lost(0, 100)
    assert gaps.indices([]) == waiting
    gaps.fade()
    assert gaps.indices([])[0][0] == pytest.approx(waiting[0][0], rel=0.2)


def chat(cache: RadixCache, turns: int, first_page: int = 0) -> int:
    """Users who ask once, between users who come back at once, once; return the next page."""
    page = first_page
    for turn in range(turns):
        put(cache, [3 * turn], [page])
        put(cache, [3 * turn + 1], [page + 1])
        put(cache, [3 * turn + 1, 3 * turn + 2], [page + 1, page + 2])
        page += 3
    return page


def test_it_is_lru_until_enough_prompts_finished() -> None:
    young = RadixCache(1, policy=GhostGittins())
    plain = RadixCache(1)
    for cache in (young, plain):
        chat(cache, 33)
    assert young.evict(99) == plain.evict(99)


def test_it_keeps_the_turns_that_come_back_over_later_ones_that_do_not() -> None:
    gone = {}
    for name, policy in (("lru", "lru"), ("ghost-gittins", GhostGittins())):
        cache = RadixCache(1, policy=policy)
        chat(cache, 100)
        cache.evict(300)
        put(cache, [901], [0])
        put(cache, [903], [1])  # a first turn: half of them come back one finish later
        put(cache, [901, 902], [0, 2])  # a second turn: none ever came back
        gone[name] = list(cache.evict(1))
        cache.check()
    assert gone == {"lru": [1], "ghost-gittins": [2]}


def test_evicted_ends_teach_it_too() -> None:
    policy = GhostGittins()
    cache = RadixCache(1, policy=policy)
    for turn in range(60):
        put(cache, [2 * turn], [0])
        cache.evict(1)
        put(cache, [2 * turn, 2 * turn + 1], [0, 1])
        cache.evict(2)
    assert not policy._uses
    assert sum(map(sum, policy.gaps._reused)) == 60


def test_the_ends_it_remembers_are_bounded() -> None:
    policy = GhostGittins(max_ends=10)
    cache = RadixCache(1, policy=policy)
    chat(cache, 100)
    assert len(policy._ends) == 10
    with pytest.raises(ConfigError, match="max_ends is 0"):
        GhostGittins(max_ends=0)


def test_it_serves_one_cache() -> None:
    policy = GhostGittins()
    RadixCache(1, policy=policy)
    with pytest.raises(ConfigError, match="make one for each cache"):
        RadixCache(1, policy=policy)


class Counting(GhostGittins):
    """Counts how often it ranks."""

    ranked = 0

    def rank(self, node: Node) -> tuple[float, int]:
        self.ranked += 1
        return super().rank(node)


@pytest.mark.parametrize("leaves", [100, 1_000])
def test_ranking_all_again_costs_a_constant_number_of_ranks_a_finish(leaves: int) -> None:
    policy = Counting()
    cache = RadixCache(1, policy=policy)
    for token in range(leaves):
        put(cache, [token], [token])
    before = policy.ranked
    for token in range(leaves):
        cache.release(cache.match(PrefixKey([token])))
    assert policy.ranked - before <= 20 * leaves
