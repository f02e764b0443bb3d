"""Hit rates of the Mooncake conversation trace to all digits; shared/traces/README.md has them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from radixcache import PrefixKey
from scheduler.lookup import lookup_replay
from scheduler.optimal import optimal_prefill
from scheduler.request import Request

BLOCK_TOKENS = 512
LONGEST_BLOCKS = 247


class Golden(NamedTuple):
    """Token hit rates at one capacity in blocks."""

    capacity: int | None
    lru_cold: str
    lru_warm: str
    fifo_warm: str
    optimal_cold: str
    optimal_warm: str


GOLDEN = [
    Golden(500, ".04302", ".04543", ".04540", ".11743", ".11791"),
    Golden(1_000, ".04541", ".04673", ".04670", ".18272", ".18460"),
    Golden(2_000, ".05537", ".05616", ".05615", ".25429", ".26075"),
    Golden(5_000, ".11400", ".11303", ".11283", ".34635", ".36192"),
    Golden(10_000, ".21575", ".21954", ".21847", ".37362", ".39811"),
    Golden(20_000, ".29348", ".30312", ".30325", ".37362", ".39811"),
    Golden(50_000, ".36153", ".37669", ".37668", ".37362", ".39811"),
    Golden(100_000, ".37084", ".39219", ".39218", ".37362", ".39811"),
    Golden(None, ".37362", ".39811", ".39811", ".37362", ".39811"),
]
at_each_capacity = pytest.mark.parametrize(
    "golden", GOLDEN, ids=lambda golden: f"{golden.capacity or 'unbounded'}"
)


def digits(rate: float | None) -> str:
    assert rate is not None
    return f"{rate:.5f}".removeprefix("0")


@pytest.fixture(scope="module")
def mooncake(shared_dir: Path) -> list[Request]:
    """Every hash id is a unit of the key, the partial last block too."""
    with gzip.open(shared_dir / "traces" / "mooncake_conversation.jsonl.gz") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Request(
            rid=str(i),
            key=PrefixKey.from_block_ids(row["hash_ids"], BLOCK_TOKENS),
            prompt_tokens=row["input_length"],
            max_new_tokens=row["output_length"],
        )
        for i, row in enumerate(rows)
    ]


def test_the_trace_is_the_one_the_numbers_are_of(mooncake: list[Request]) -> None:
    blocks = [len(request.key) // BLOCK_TOKENS for request in mooncake]
    assert len(mooncake) == 12_031
    assert sum(blocks) == 288_500
    assert max(blocks) == LONGEST_BLOCKS
    assert len({unit for request in mooncake for unit in request.key}) == 182_790


@at_each_capacity
def test_lru(mooncake: list[Request], golden: Golden) -> None:
    found = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=golden.capacity)
    assert digits(found.cold_hit_rate) == golden.lru_cold
    assert digits(found.second_half_hit_rate) == golden.lru_warm
    assert found.uncached_pages == 0


@at_each_capacity
def test_fifo_of_leaves(mooncake: list[Request], golden: Golden) -> None:
    found = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=golden.capacity, policy="fifo")
    assert digits(found.second_half_hit_rate) == golden.fifo_warm


@at_each_capacity
def test_optimal_eviction(mooncake: list[Request], golden: Golden) -> None:
    found = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=golden.capacity, policy="optimal")
    assert digits(found.cold_hit_rate) == golden.optimal_cold
    assert digits(found.second_half_hit_rate) == golden.optimal_warm


def test_depth_first_order_reaches_the_ceiling_with_room_for_one_request(
    mooncake: list[Request],
) -> None:
    arrival = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=LONGEST_BLOCKS)
    depth_first = sorted(mooncake, key=lambda request: request.key.tokens())
    sorted_by_ids = lookup_replay(depth_first, BLOCK_TOKENS, capacity_pages=LONGEST_BLOCKS)
    assert digits(arrival.cold_hit_rate) == ".04276"
    assert digits(sorted_by_ids.cold_hit_rate) == ".37362"


def full_blocks(request: Request) -> Request:
    ids = request.key.tokens()[: request.prompt_tokens // BLOCK_TOKENS]
    return replace(request, key=PrefixKey.from_block_ids(ids, BLOCK_TOKENS))


def test_the_optimum_of_full_blocks(mooncake: list[Request]) -> None:
    requests = [full_blocks(request) for request in mooncake]
    exact = optimal_prefill(requests, BLOCK_TOKENS)
    assert exact.exact
    assert digits(exact.hit_rate) == ".37338"
    rough = optimal_prefill(requests, BLOCK_TOKENS, exact_limit_bytes=0)
    assert not rough.exact
    assert rough.hit_rate == pytest.approx(exact.hit_rate, abs=0.013)
