"""The capacity curve against a replay at every capacity."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from radixcache.errors import ConfigError, KeyKindError
from scheduler.analysis.capacity_curve import CapacityCurve, capacity_curve
from scheduler.analysis.stack_distances import PagesByRequest
from scheduler.lookup import lookup_replay
from scheduler.request import Request
from tests.models.curve_cases import CHATS, REQUESTS, most_capacity


def of(*prompts: list[int]) -> list[Request]:
    return [
        Request(rid=str(i), key=PrefixKey(p), prompt_tokens=len(p), max_new_tokens=1)
        for i, p in enumerate(prompts)
    ]


@given(REQUESTS, st.booleans())
def test_every_capacity_equals_the_replay(
    traffic: tuple[int, list[Request]], last_token: bool
) -> None:
    page_size, requests = traffic
    curve = capacity_curve(requests, page_size, last_token=last_token)
    for capacity in (*range(1, most_capacity(requests, page_size) + 1), None):
        found = lookup_replay(requests, page_size, capacity_pages=capacity, last_token=last_token)
        assert curve.hit_tokens_at(capacity) == found.hit_tokens
        assert curve.second_half_hit_tokens_at(capacity) == found.second_half_hit_tokens
        assert curve.hit_rate(capacity) == found.cold_hit_rate
        assert curve.second_half_hit_rate(capacity) == found.second_half_hit_rate


@given(CHATS, st.booleans())
def test_with_cached_outputs_too(traffic: tuple[int, list[Request]], last_token: bool) -> None:
    page_size, requests = traffic
    curve = capacity_curve(requests, page_size, last_token=last_token, cached_outputs=True)
    for capacity in (*range(1, most_capacity(requests, page_size) + 1), None):
        found = lookup_replay(
            requests,
            page_size,
            capacity_pages=capacity,
            last_token=last_token,
            cache_outputs=True,
        )
        assert curve.hit_tokens_at(capacity) == found.hit_tokens
        assert curve.second_half_hit_tokens_at(capacity) == found.second_half_hit_tokens


@given(REQUESTS)
def test_points_rise_and_the_named_capacities_are_where_they_should_be(
    traffic: tuple[int, list[Request]],
) -> None:
    page_size, requests = traffic
    curve = capacity_curve(requests, page_size)
    assert all(a < b for a, b in pairwise(curve.capacities.tolist()))
    assert all(a <= b for a, b in pairwise(curve.hit_tokens.tolist()))
    most = curve.hit_tokens_at(None)
    if not most:
        assert (curve.knee(), curve.sufficient_pages, curve.saturated_pages) == (None, None, None)
        return
    enough, full, knee = curve.sufficient_pages, curve.saturated_pages, curve.knee()
    assert enough is not None
    assert full is not None
    assert knee is not None
    assert curve.hit_tokens_at(enough - 1) < 0.95 * most <= curve.hit_tokens_at(enough)
    assert curve.hit_tokens_at(full - 1) < most == curve.hit_tokens_at(full)
    assert knee <= max(full, curve.longest_pages)
    assert knee == slow_knee(curve)


def slow_knee(curve: CapacityCurve) -> int | None:
    """Try every capacity."""
    start, end = curve.longest_pages, curve.saturated_pages
    if end is None or end <= start:
        return end
    low, high = curve.hit_tokens_at(start), curve.hit_tokens_at(end)
    pages = range(start, end + 1)
    right = np.log(np.arange(start, end + 1) / start) / np.log(end / start)
    up = np.array([(curve.hit_tokens_at(at) - low) / (high - low) for at in pages])
    above = up - right
    return pages[int(np.argmax(above))] if above.max() > 0 else end


@given(st.lists(st.integers(0, 9), max_size=40), st.data())
def test_sums_over_requests_equal_a_list(pages: list[int], data: st.DataObject) -> None:
    plain: list[int] = []
    tree = PagesByRequest()
    for count in pages:
        if plain and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(plain) - 1))
            taken = data.draw(st.integers(0, plain[at]))
            plain[at] -= taken
            tree.take(at, taken)
        plain.append(count)
        tree.append(count)
    assert [tree.up_to(at) for at in range(len(plain))] == np.cumsum(plain).tolist()


def test_a_request_finds_its_prefix_only_where_it_fits() -> None:
    curve = capacity_curve(of([1, 2, 3], [7, 8], [1, 2, 3, 4]), 1)
    # Above 1, 2, 3 lie 7, 8: their distances are 3, 4, 5.
    assert [curve.hit_tokens_at(pages) for pages in range(7)] == [0, 0, 0, 1, 2, 3, 3]
    assert (curve.longest_pages, curve.distinct_pages) == (4, 6)
    assert curve.hit_rate(4) == 2 / 9


def test_a_request_longer_than_the_cache_leaves_its_first_pages() -> None:
    curve = capacity_curve(of([1, 2, 3, 4], [1, 2, 3, 4]), 1, last_token=False)
    assert [curve.hit_tokens_at(pages) for pages in range(6)] == [0, 1, 2, 3, 4, 4]


def test_the_last_of_the_needed_pages_makes_the_knee() -> None:
    rounds = of(*[[base, base + 1] for base in (10, 20, 30)] * 20)
    curve = capacity_curve(rounds, 1, last_token=False)
    assert curve.knee() == curve.saturated_pages == 6
    assert curve.sufficient_pages == 6


def test_no_request_and_no_hit_are_no_numbers() -> None:
    empty = capacity_curve([], 16)
    assert (empty.hit_rate(None), empty.second_half_hit_rate(4), empty.knee()) == (None, None, None)
    assert empty.as_dict()["ceiling_hit_rate"] is None
    cold = capacity_curve(of([1, 2], [3, 4]), 1)
    assert (cold.hit_rate(None), cold.saturated_pages) == (0.0, None)


def test_json_holds_the_whole_curve() -> None:
    curve = capacity_curve(of([1, 2, 3], [1, 2, 3]), 1)
    document = json.loads(json.dumps(curve.as_dict(), allow_nan=False))
    assert document["capacities_pages"] == [0, 2]
    assert document["hit_tokens"] == [0, 2]
    assert document["sample"] is None


def test_bad_arguments_say_what_to_do() -> None:
    with pytest.raises(ConfigError, match="page_size is 0"):
        capacity_curve([], 0)
    blocks = Request(
        rid="b", key=PrefixKey.from_block_ids([1], 4), prompt_tokens=4, max_new_tokens=1
    )
    with pytest.raises(KeyKindError, match="one kind of keys"):
        capacity_curve([*of([1]), blocks], 4)
    with pytest.raises(KeyKindError, match="4-token blocks for pages of 8"):
        capacity_curve([blocks], 8)
