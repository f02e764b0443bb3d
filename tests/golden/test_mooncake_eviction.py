"""Eviction on the Mooncake trace: full blocks, last-token rule, cold; LRU, the optimum, Gittins."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.lookup import lookup_replay
from scheduler.request import Request
from scheduler.trace import open_trace

BLOCK_TOKENS = 512
LRU = {1_000: 4.59, 2_000: 5.64, 4_000: 9.20, 8_000: 18.89, 16_000: 27.33, 32_000: 34.39}
OPTIMAL = {1_000: 18.28, 2_000: 25.43, 4_000: 32.67, 8_000: 37.27, 16_000: 37.34}


@pytest.fixture(scope="module")
def mooncake(shared_dir: Path) -> list[Request]:
    return list(open_trace(shared_dir / "traces" / "mooncake_conversation.jsonl.gz"))


def percent(requests: list[Request], policy: str, capacity_pages: int) -> float:
    found = lookup_replay(
        requests, BLOCK_TOKENS, capacity_pages=capacity_pages, policy=policy, last_token=True
    )
    assert found.requests == 12_031
    assert found.cold_hit_rate is not None
    return 100 * found.cold_hit_rate


@pytest.mark.parametrize("capacity", sorted(LRU))
def test_lru(mooncake: list[Request], capacity: int) -> None:
    assert round(percent(mooncake, "lru", capacity), 2) == LRU[capacity]


@pytest.mark.parametrize("capacity", sorted(OPTIMAL))
def test_optimal(mooncake: list[Request], capacity: int) -> None:
    assert round(percent(mooncake, "optimal", capacity), 2) == OPTIMAL[capacity]


@pytest.mark.parametrize("capacity", sorted(LRU))
def test_ghost_gittins_is_never_below_lru(mooncake: list[Request], capacity: int) -> None:
    assert percent(mooncake, "ghost-gittins", capacity) >= LRU[capacity]
