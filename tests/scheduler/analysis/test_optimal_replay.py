"""Optimal eviction on runs against the replay with every page, at every capacity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.optimal_replay import OptimalReplay
from scheduler.analysis.stack_distances import StackDistances
from scheduler.analysis.touches import TouchRule
from scheduler.lookup import lookup_replay
from scheduler.request import Request
from tests.models.curve_cases import CHATS, REQUESTS, most_capacity


def distances_of(requests: list[Request], rule: TouchRule) -> StackDistances:
    distances = StackDistances(rule)
    for request in requests:
        distances.add(request)
    return distances


@given(REQUESTS, st.booleans())
def test_every_capacity_equals_the_replay(
    traffic: tuple[int, list[Request]], last_token: bool
) -> None:
    page_size, requests = traffic
    replay = OptimalReplay(distances_of(requests, TouchRule(page_size, last_token=last_token)))
    for capacity in range(1, most_capacity(requests, page_size) + 1):
        hits = replay.hits(capacity)
        found = lookup_replay(
            requests,
            page_size,
            capacity_pages=capacity,
            policy="optimal",
            last_token=last_token,
        )
        assert hits.hit_tokens == found.hit_tokens
        assert hits.second_half_hit_tokens == found.second_half_hit_tokens
        assert hits.hit_rate == found.cold_hit_rate
        assert hits.second_half_hit_rate == found.second_half_hit_rate


@given(CHATS, st.booleans())
def test_with_cached_outputs_too(traffic: tuple[int, list[Request]], last_token: bool) -> None:
    page_size, requests = traffic
    rule = TouchRule(page_size, last_token=last_token, cached_outputs=True)
    replay = OptimalReplay(distances_of(requests, rule))
    for capacity in range(1, most_capacity(requests, page_size) + 1):
        hits = replay.hits(capacity)
        found = lookup_replay(
            requests,
            page_size,
            capacity_pages=capacity,
            policy="optimal",
            last_token=last_token,
            cache_outputs=True,
        )
        assert hits.hit_tokens == found.hit_tokens
        assert hits.second_half_hit_tokens == found.second_half_hit_tokens


@given(CHATS)
def test_the_ceiling_is_reached_there_and_not_before(traffic: tuple[int, list[Request]]) -> None:
    page_size, requests = traffic
    replay = OptimalReplay(distances_of(requests, TouchRule(page_size, cached_outputs=True)))
    enough = replay.ceiling_pages()
    most = replay.hits(most_capacity(requests, page_size)).hit_tokens
    if not most:
        assert enough == 0
        return
    assert replay.hits(enough).hit_tokens == most
    if enough > 1:
        assert replay.hits(enough - 1).hit_tokens < most


def test_bad_capacity_says_what_to_do() -> None:
    replay = OptimalReplay(distances_of([], TouchRule(1)))
    assert replay.hits(1).hit_rate is None
    with pytest.raises(ConfigError, match="capacity_pages is 0"):
        replay.hits(0)


def test_a_request_that_cannot_use_a_page_hands_it_on() -> None:
    key = PrefixKey([1, 2])
    asked = [
        Request(rid=str(i), key=key, prompt_tokens=2, max_new_tokens=1, max_match_tokens=cap)
        for i, cap in enumerate((None, 0, None))
    ]
    replay = OptimalReplay(distances_of(asked, TouchRule(1)))
    assert replay.hits(2).hit_tokens == 1


def test_where_requests_bring_what_they_cannot_hit_another_eviction_may_win() -> None:
    """Page 2 is kept for the fifth request, although the fourth brings it anyway."""
    prompts = [[3], [2], [1, 3], [2], [2, 0], [3, 1]]
    asked = [
        Request(rid=str(i), key=PrefixKey(p), prompt_tokens=len(p), max_new_tokens=1)
        for i, p in enumerate(prompts)
    ]
    found = lookup_replay(asked, 1, capacity_pages=3, policy="mru", last_token=True)
    assert OptimalReplay(distances_of(asked, TouchRule(1))).hits(3).hit_tokens == 1
    assert found.hit_tokens == 2
