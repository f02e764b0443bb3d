"""Lookups that cache outputs or keep prefixes for good, against page-by-page models."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import EVICTION_POLICIES, Namespace, PrefixKey
from radixcache.errors import ConfigError
from scheduler.lookup import lookup_replay
from scheduler.lookup_cache import HitCounts, LookupCache, distinct_pages
from scheduler.optimal import computed_key
from tests.models.lookup_model import LookupModel
from tests.models.optimal_model import Ask, as_request

TOKENS = st.lists(st.integers(0, 1), max_size=6).map(tuple)
ASKS = st.lists(st.builds(Ask, TOKENS, TOKENS), max_size=12)
PINS = st.lists(TOKENS, max_size=3)


@given(ASKS, st.integers(1, 3), st.integers(1, 9), st.booleans(), st.booleans())
def test_lru_with_outputs_equals_the_page_model(
    asks: list[Ask], page: int, capacity: int, last_token: bool, outputs: bool
) -> None:
    found = lookup_replay(
        [as_request(ask, i) for i, ask in enumerate(asks)],
        page,
        capacity_pages=capacity,
        last_token=last_token,
        cache_outputs=outputs,
    )
    model = LookupModel(page, capacity)
    hits = [model.serve(ask, last_token=last_token, outputs=outputs) for ask in asks]
    assert found.hit_tokens == sum(hits)
    assert found.second_half_hit_tokens == sum(hits[len(hits) // 2 :])
    assert found.evicted_pages == model.evicted_pages
    assert found.uncached_pages == model.uncached_pages
    assert found.cached_outputs is outputs


def keys(prefixes: Sequence[tuple[int, ...]]) -> list[PrefixKey]:
    return [PrefixKey(prefix) for prefix in prefixes]


@given(ASKS, PINS, st.integers(1, 2), st.integers(0, 8))
def test_pinned_prefixes_stay_as_in_the_page_model(
    asks: list[Ask], pins: list[tuple[int, ...]], page: int, spare: int
) -> None:
    capacity = distinct_pages(keys(pins), page) + spare
    if not capacity:
        return
    cache = LookupCache(page, capacity_pages=capacity, pins=keys(pins))
    model = LookupModel(page, capacity, pins)
    for number, ask in enumerate(asks):
        request = as_request(ask, number)
        expected = model.prefix_tokens(ask)
        assert cache.prefix_tokens(request) == expected
        assert cache.serve(request, computed_key(request)) == model.serve(ask, outputs=True)
        for pin in map(Ask, pins):
            assert cache.prefix_tokens(as_request(pin)) == model.prefix_tokens(pin)
    assert cache.evicted_pages == model.evicted_pages


@given(ASKS, TOKENS, st.integers(1, 6), st.sampled_from(sorted(EVICTION_POLICIES)))
def test_no_policy_evicts_a_pinned_page(
    asks: list[Ask], pin: tuple[int, ...], spare: int, policy: str
) -> None:
    cache = LookupCache(1, capacity_pages=len(pin) + spare, policy=policy, pins=keys([pin]))
    held = 0
    for ask in asks:
        cache.serve(as_request(ask), computed_key(as_request(ask)))
        now = cache.prefix_tokens(as_request(Ask(pin)))
        assert now >= held
        held = now


@given(PINS, st.integers(1, 3))
def test_shared_pages_of_pins_count_once(pins: list[tuple[int, ...]], page: int) -> None:
    pages = {pin[:end] for pin in pins for end in range(page, len(pin) + 1, page)}
    assert distinct_pages(keys(pins), page) == len(pages)


def test_a_pin_holds_in_its_namespace_only() -> None:
    salted = PrefixKey([1, 2], Namespace.of(cache_salt="a"))
    cache = LookupCache(1, capacity_pages=2, pins=[salted])
    cache.serve(as_request(Ask((1, 2))))
    cache.serve(as_request(Ask((3, 4))))
    assert cache.prefix_tokens(as_request(Ask((1, 2)))) == 0


def test_pins_beyond_the_capacity_are_refused() -> None:
    with pytest.raises(ConfigError, match="take 3 pages and the cache has 2: pin less"):
        LookupCache(1, capacity_pages=2, pins=keys([(1, 2, 3)]))


def test_optimal_eviction_sees_uses_of_outputs() -> None:
    asks = [Ask((1,), (2, 0)), Ask((5,), ()), Ask((1, 2), ())]
    found = [
        lookup_replay(
            [as_request(ask) for ask in asks],
            1,
            capacity_pages=2,
            policy=policy,
            cache_outputs=True,
        ).hit_tokens
        for policy in ("lru", "optimal")
    ]
    assert found == [1, 1]
    asks = [Ask((1,), (2, 0)), Ask((5,)), Ask((6,)), Ask((1, 2))]
    requests = [as_request(ask) for ask in asks]
    best = lookup_replay(requests, 1, capacity_pages=3, policy="optimal", cache_outputs=True)
    assert best.hit_tokens == 2
    assert lookup_replay(requests, 1, capacity_pages=3, cache_outputs=True).hit_tokens == 1


def test_counts_of_an_odd_number_give_the_middle_to_the_second_half() -> None:
    counts = HitCounts()
    for hit in (1, 2, 4):
        counts.add(10, hit)
    assert (len(counts), counts.hit_tokens(), counts.hit_tokens(second_half=True)) == (3, 7, 6)
