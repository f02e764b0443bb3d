"""C* is the minimum over all orders, is reached as promised, and is never beaten."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache import EvictionPolicy, PrefixKey
from scheduler.optimal import optimal_prefill
from tests.models.one_by_one import OneByOne, Shuffled, pages_of
from tests.models.optimal_model import Ask, as_request

AMPLE = 200
PAGES = st.sampled_from([1, 2, 3])
PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=9).map(tuple)
PLAIN = st.builds(Ask, PROMPT)
CAPPED = st.builds(Ask, PROMPT, st.just(()), st.none() | st.integers(0, 9))
ANSWERED = st.builds(Ask, PROMPT, st.lists(st.integers(0, 1), max_size=6).map(tuple))


def fewest_computed(
    asks: list[Ask], page: int, *, warm: list[tuple[int, ...]] | None = None, outputs: bool = False
) -> int:
    totals = []
    for order in permutations(asks):
        engine = OneByOne(page, AMPLE)
        for tokens in warm or []:
            engine.warm(tokens)
        totals.append(sum(engine.serve(ask, keep_output=outputs) for ask in order))
    return min(totals)


@settings(max_examples=40)
@given(st.lists(PLAIN, min_size=1, max_size=5), PAGES)
def test_it_is_the_minimum_over_all_orders(asks: list[Ask], page: int) -> None:
    assert optimal_prefill(map(as_request, asks), page).prefill_tokens == fewest_computed(
        asks, page
    )


@settings(max_examples=40)
@given(st.lists(CAPPED, min_size=1, max_size=4), PAGES, st.lists(PROMPT, max_size=2))
def test_it_is_the_minimum_with_capped_matches_and_a_warm_cache(
    asks: list[Ask], page: int, warm: list[tuple[int, ...]]
) -> None:
    bound = optimal_prefill(map(as_request, asks), page, warm=map(PrefixKey, warm))
    assert bound.prefill_tokens == fewest_computed(asks, page, warm=warm)


@settings(max_examples=40)
@given(st.lists(ANSWERED, min_size=1, max_size=4), PAGES)
def test_it_is_the_minimum_with_cached_outputs(asks: list[Ask], page: int) -> None:
    bound = optimal_prefill(map(as_request, asks), page, cached_outputs=True)
    assert bound.prefill_tokens == fewest_computed(asks, page, outputs=True)


@pytest.mark.parametrize(
    "policy", ["lru", "mru", Shuffled(1), Shuffled(2)], ids=["lru", "mru", "random-1", "random-2"]
)
@given(st.lists(PLAIN, min_size=1, max_size=12), PAGES)
def test_longest_match_with_short_ties_reaches_it_with_room_for_the_longest_request(
    policy: str | EvictionPolicy, asks: list[Ask], page: int
) -> None:
    room = max(pages_of(ask, page) for ask in asks)
    computed = OneByOne(page, room, policy).serve_longest_match_first(asks)
    assert computed == optimal_prefill(map(as_request, asks), page).prefill_tokens


@given(st.lists(ANSWERED, min_size=1, max_size=10), PAGES, st.integers(8, 30), st.booleans())
def test_no_run_beats_it(asks: list[Ask], page: int, capacity: int, outputs: bool) -> None:
    engine = OneByOne(page, capacity + 8)
    computed = sum(engine.serve(ask, keep_output=outputs) for ask in asks)
    bound = optimal_prefill(map(as_request, asks), page, cached_outputs=outputs)
    assert computed >= bound.prefill_tokens


def test_arrival_order_on_ties_misses_it() -> None:
    asks = [Ask((1, 1, 1, 1)), Ask((1, 1)), Ask((0, 0))]
    engine = OneByOne(1, AMPLE)
    in_order = sum(engine.serve(ask) for ask in asks)
    assert in_order == 7
    assert OneByOne(1, 4).serve_longest_match_first(asks) == 6
    assert optimal_prefill(map(as_request, asks), 1).prefill_tokens == 6
