"""Hit rates of the Mooncake conversation trace, equal in independent programs, to all digits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from radixcache import PrefixKey
from scheduler.lookup import lookup_replay
from scheduler.request import Request

BLOCK_TOKENS = 512
CAPACITIES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, None)
LONGEST_BLOCKS = 247

LRU_COLD = ".04302 .04541 .05537 .11400 .21575 .29348 .36153 .37084 .37362".split()
LRU_WARM = ".04543 .04673 .05616 .11303 .21954 .30312 .37669 .39219 .39811".split()
FIFO_WARM = ".04540 .04670 .05615 .11283 .21847 .30325 .37668 .39218 .39811".split()
OPTIMAL_COLD = ".11743 .18272 .25429 .34635 .37362 .37362 .37362 .37362 .37362".split()
OPTIMAL_WARM = ".11791 .18460 .26075 .36192 .39811 .39811 .39811 .39811 .39811".split()


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


@pytest.mark.parametrize(
    ("capacity", "cold", "warm"), zip(CAPACITIES, LRU_COLD, LRU_WARM, strict=True)
)
def test_lru(mooncake: list[Request], capacity: int | None, cold: str, warm: str) -> None:
    found = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=capacity)
    assert digits(found.cold_hit_rate) == cold
    assert digits(found.second_half_hit_rate) == warm
    assert found.uncached_pages == 0


@pytest.mark.parametrize(("capacity", "warm"), zip(CAPACITIES, FIFO_WARM, strict=True))
def test_fifo_of_leaves(mooncake: list[Request], capacity: int | None, warm: str) -> None:
    found = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=capacity, policy="fifo")
    assert digits(found.second_half_hit_rate) == warm


@pytest.mark.parametrize(
    ("capacity", "cold", "warm"), zip(CAPACITIES, OPTIMAL_COLD, OPTIMAL_WARM, strict=True)
)
def test_optimal_eviction(
    mooncake: list[Request], capacity: int | None, cold: str, warm: str
) -> None:
    found = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=capacity, policy="optimal")
    assert digits(found.cold_hit_rate) == cold
    assert digits(found.second_half_hit_rate) == warm


def test_depth_first_order_reaches_the_ceiling_with_room_for_one_request(
    mooncake: list[Request],
) -> None:
    arrival = lookup_replay(mooncake, BLOCK_TOKENS, capacity_pages=LONGEST_BLOCKS)
    depth_first = sorted(mooncake, key=lambda request: request.key.tokens())
    sorted_by_ids = lookup_replay(depth_first, BLOCK_TOKENS, capacity_pages=LONGEST_BLOCKS)
    assert digits(arrival.cold_hit_rate) == ".04276"
    assert digits(sorted_by_ids.cold_hit_rate) == ".37362"
