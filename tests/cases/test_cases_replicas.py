"""Cases of routers that hold for the replicas of a what-if: fallback, learning and ties."""

from __future__ import annotations

import pytest

from scheduler.analysis.replicas import Fleet, Route
from scheduler.lookup_cache import LookupCache
from tests.models.optimal_model import Ask, as_request


def fleet(count: int, route: Route) -> Fleet:
    return Fleet([LookupCache(1, last_token=True) for _ in range(count)], route)


def routed(fleet: Fleet, prompt: tuple[int, ...]) -> int:
    """Serve a prompt and return where it went."""
    before = list(fleet.routed_tokens)
    fleet.serve(as_request(Ask(prompt)), None)
    (place,) = (at for at, tokens in enumerate(fleet.routed_tokens) if tokens != before[at])
    return place


def test_b67_a_cold_prompt_goes_by_load_and_not_by_what_is_cached() -> None:
    found = fleet(2, "cache-aware")
    assert routed(found, (1, 2, 3, 4)) == 0
    assert routed(found, tuple(range(100, 110))) == 1
    while found.routed_tokens[0] <= found.routed_tokens[1]:
        assert routed(found, (1, 2, 3, 4)) == 0  # a small tree under much load
    assert routed(found, (7, 8)) == 1


@pytest.mark.parametrize("route", ["cache-aware", "prefix"])
def test_b69_a_prompt_below_the_threshold_is_learned_where_it_went(route: Route) -> None:
    found = fleet(2, route)
    prompt = (1, 2, 3, 4, 5, 6, 7, 8)
    assert routed(found, prompt) == routed(found, prompt)


@pytest.mark.parametrize("route", ["cache-aware", "prefix"])
def test_b70_ties_use_every_replica_alike_and_in_the_same_order(route: Route) -> None:
    prompts = [(1_000 + number, 2_000 + number) for number in range(400)]
    first, again = (fleet(4, route) for _ in range(2))
    went = [routed(first, prompt) for prompt in prompts]
    assert went == [routed(again, prompt) for prompt in prompts]
    assert [went.count(place) for place in range(4)] == [100] * 4
