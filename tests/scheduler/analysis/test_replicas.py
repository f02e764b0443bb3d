"""Routes of replicas, one request at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixcache.errors import ConfigError
from scheduler.analysis.changes import Replicas
from scheduler.analysis.replicas import Fleet, Route
from scheduler.lookup_cache import LookupCache
from tests.models.optimal_model import Ask, as_request


def fleet(count: int, route: Route) -> Fleet:
    return Fleet([LookupCache(1, last_token=True) for _ in range(count)], route)


def places(fleet: Fleet, *asks: tuple[tuple[int, ...], str | None]) -> list[int]:
    """Return where each prompt went."""
    went = []
    for prompt, session in asks:
        before = list(fleet.routed_tokens)
        fleet.serve(replace(as_request(Ask(prompt)), session_id=session), None)
        went.append(next(i for i, tokens in enumerate(fleet.routed_tokens) if tokens != before[i]))
    return went


def test_round_robin_goes_round() -> None:
    asks = [((1,), None)] * 5
    assert places(fleet(3, "round-robin"), *asks) == [0, 1, 2, 0, 1]


def test_a_session_stays_where_the_least_loaded_replica_was() -> None:
    asks = [((1,) * 9, "a"), ((2,), "b"), ((3,), "c"), ((4,) * 9, "b"), ((5,), None), ((6,), "a")]
    found = fleet(2, "session")
    assert places(found, *asks) == [0, 1, 1, 1, 0, 0]
    assert found.sessions == 3


def test_the_longest_prefix_wins_however_short() -> None:
    shared = (1,) + (2,) * 9
    asks = [(shared, None), ((3,) * 4, None), ((1,) + (4,) * 9, None), (shared, None)]
    assert places(fleet(2, "prefix"), *asks) == [0, 1, 0, 0]


def test_cache_aware_asks_for_a_share_of_the_prompt() -> None:
    asks = [
        ((1,) * 5 + (2,) * 5, None),
        ((1,) * 3 + (3,) * 7, None),  # 3 of 10 are no more than 0.3
        ((1,) * 4 + (4,) * 6, None),
    ]
    assert places(fleet(2, "cache-aware"), *asks) == [0, 1, 0]


def test_work_is_counted_where_it_is_done() -> None:
    found = fleet(2, "round-robin")
    for prompt in [(1, 2, 3), (4, 5), (1, 2, 3), (4, 6)]:
        found.serve(as_request(Ask(prompt)), None)
    assert found.routed_tokens == [6, 4]
    assert found.computed_tokens == [4, 3]


@pytest.mark.parametrize(("count", "route"), [(0, "prefix"), (1025, "prefix"), (2, "nearest")])
def test_what_is_no_fleet_is_refused(count: int, route: Route) -> None:
    with pytest.raises(ConfigError, match="give 1 to 1024, and one of cache-aware, prefix"):
        Replicas(count, route)
