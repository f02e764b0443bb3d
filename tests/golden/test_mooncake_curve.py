"""The capacity curve of the Mooncake trace: a replay at 11 capacities, the tables, a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.analysis.capacity_curve import CapacityCurve, capacity_curve, curve_of
from scheduler.analysis.optimal_replay import OptimalReplay
from scheduler.analysis.sampled_curve import sampled_curve
from scheduler.analysis.stack_distances import StackDistances
from scheduler.analysis.touches import TouchRule
from scheduler.lookup import lookup_replay
from scheduler.request import Request
from scheduler.trace import ReadOptions, open_trace
from tests.golden.test_mooncake_eviction import LRU, OPTIMAL
from tests.golden.test_mooncake_lookup import BLOCK_TOKENS, GOLDEN, LONGEST_BLOCKS, digits

REPLAYED = (1, 100, 247, 500, 1_000, 3_000, 8_199, 20_000, 60_000, 158_280, 158_281)


def trace(shared_dir: Path, *, partial_block: bool) -> list[Request]:
    path = shared_dir / "traces" / "mooncake_conversation.jsonl.gz"
    return list(open_trace(path, options=ReadOptions(partial_block=partial_block)))


@pytest.fixture(scope="module")
def by_lookup(shared_dir: Path) -> list[Request]:
    """Every hash id is a unit of the key, the partial last block too."""
    return trace(shared_dir, partial_block=True)


@pytest.fixture(scope="module")
def whole_blocks(shared_dir: Path) -> list[Request]:
    return trace(shared_dir, partial_block=False)


@pytest.fixture(scope="module")
def distances(by_lookup: list[Request]) -> StackDistances:
    found = StackDistances(TouchRule(BLOCK_TOKENS, last_token=False))
    for request in by_lookup:
        found.add(request)
    return found


@pytest.fixture(scope="module")
def exact(whole_blocks: list[Request]) -> CapacityCurve:
    return capacity_curve(whole_blocks, BLOCK_TOKENS)


@pytest.mark.parametrize("capacity", REPLAYED)
def test_a_replay_hits_the_same_tokens(
    by_lookup: list[Request], distances: StackDistances, capacity: int
) -> None:
    curve = curve_of(distances)
    found = lookup_replay(by_lookup, BLOCK_TOKENS, capacity_pages=capacity)
    assert curve.hit_tokens_at(capacity) == found.hit_tokens
    assert curve.second_half_hit_tokens_at(capacity) == found.second_half_hit_tokens
    assert curve.prompt_tokens == found.prompt_tokens


def test_the_table_of_lru_and_of_the_optimum(distances: StackDistances) -> None:
    curve, optimum = curve_of(distances), OptimalReplay(distances)
    for row in GOLDEN:
        assert digits(curve.hit_rate(row.capacity)) == row.lru_cold
        assert digits(curve.second_half_hit_rate(row.capacity)) == row.lru_warm
        if row.capacity is not None:
            hits = optimum.hits(row.capacity)
            assert digits(hits.hit_rate) == row.optimal_cold
            assert digits(hits.second_half_hit_rate) == row.optimal_warm
    assert (curve.longest_pages, curve.distinct_pages) == (LONGEST_BLOCKS, 182_790)


def test_the_optimum_needs_8199_blocks_and_lru_158281(distances: StackDistances) -> None:
    curve, optimum = curve_of(distances), OptimalReplay(distances)
    most = curve.hit_tokens_at(None)
    assert optimum.ceiling_pages() == 8_199
    assert optimum.hits(8_198).hit_tokens < optimum.hits(8_199).hit_tokens == most
    assert (curve.knee(), curve.sufficient_pages, curve.saturated_pages) == (
        38_873,
        37_602,
        158_281,
    )


def test_whole_blocks_with_the_last_token_rule(
    whole_blocks: list[Request], exact: CapacityCurve
) -> None:
    for capacity, percent in LRU.items():
        rate = exact.hit_rate(capacity)
        assert rate is not None
        assert round(100 * rate, 2) == percent
    found = StackDistances(TouchRule(BLOCK_TOKENS))
    for request in whole_blocks:
        found.add(request)
    optimum = OptimalReplay(found)
    for capacity, percent in OPTIMAL.items():
        rate = optimum.hits(capacity).hit_rate
        assert rate is not None
        assert round(100 * rate, 2) == percent


def test_a_sample_is_within_two_standard_errors(
    whole_blocks: list[Request], exact: CapacityCurve
) -> None:
    """19 of 20 times by its own account; and a tenth of the pages is within a point."""
    within = []
    capacities = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    for seed in range(5):
        rough = sampled_curve(whole_blocks, BLOCK_TOKENS, rate=0.1, seed=seed)
        assert rough.sample is not None
        for capacity in capacities:
            estimate, true = rough.hit_rate(capacity), exact.hit_rate(capacity)
            assert estimate is not None
            assert true is not None
            error = rough.sample.standard_error(capacity)
            assert error < 0.015
            within.append(abs(estimate - true) <= 2 * error)
    assert sum(within) >= 0.95 * len(within)
