"""kvcache-simulator and Tair rows: ids of any type, block lengths, writes, instances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace
from radixcache.errors import ConfigError
from scheduler.trace import ReadOptions, Trace, open_trace
from scheduler.trace.block_ids import block_length, block_units

NO_ID = "hash_ids holds something that is neither text nor an int of 64 bits"
FEWER = "fewer block ids than full blocks: the rest of the prompt is shared with nobody"


def trace_of(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_trace(path, options=ReadOptions(**options))


def simulated(ids: Any, length: Any, **more: Any) -> dict[str, Any]:
    return {"block_size": 64, "hash_ids": ids, "input_length": length} | more


def get(time: int, keys: Any, length: Any = 32, **more: Any) -> dict[str, Any]:
    row = {"instance_id": "i", "timestamp_us": time, "keys": keys, "input_len": length}
    return row | {"query_type": "prefix_match"} | more


def test_simulator_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [simulated([1, 2], 128), simulated([1, 3], 100)])
    first, second = trace
    assert (first.key.tokens(), second.key.tokens()) == ([1, 2], [1])
    assert (first.prompt_tokens, second.prompt_tokens) == (128, 100)
    assert (first.arrival_s, second.arrival_s) == (0.0, 1.0)
    assert trace.page_size == 64


def test_same_id_under_other_parents_is_no_shared_prefix(tmp_path: Path) -> None:
    first, second, twice = trace_of(
        tmp_path, [simulated(["A", "B"], 128), simulated(["C", "B"], 128), simulated([7, 7], 128)]
    )
    assert first.key.common_prefix_tokens(second.key) == 0
    assert twice.key.tokens() == [7, 7]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (simulated([1], 64, block_size=16), "block_size is not 64 as in the first row"),
        (simulated([1, 2, 3], 128), "hash_ids are more than blocks of 64 tokens"),
        (simulated([1, 2], 100, block_tokens=[32, 68]), "a block before the last one is not full"),
        (simulated([1, 2], 128, block_tokens=[64]), "block_tokens are no list as long as hash_ids"),
        (simulated([1.5], 64), NO_ID),
        (simulated([True], 64), NO_ID),
        (simulated([1 << 64], 64), NO_ID),
        (simulated(None, 64), "hash_ids is missing"),
        (simulated([1], 0), "input_length is below 1"),
    ],
)  # fmt: skip
def test_bad_simulator_row_is_skipped_with_its_reason(
    tmp_path: Path, bad: Any, reason: str
) -> None:
    trace = trace_of(tmp_path, [simulated([1], 64), bad])
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {reason: 1}


def test_block_length_that_is_not_said_is_found_from_the_lengths(tmp_path: Path) -> None:
    rows = [{"hash_ids": list("abcd"), "input_length": 130}, {"hash_ids": [1], "input_length": 33}]
    trace = trace_of(tmp_path, [rows[0], simulated([1], 33, block_size=None)])
    assert trace.page_size == 32
    assert any("from the lengths of the first rows" in said for said in trace.assumptions)
    odd = trace_of(tmp_path, [{"hash_ids": [1, 2], "input_length": 5}, rows[1]])
    assert odd.page_size == 16
    assert any("a guess" in said for said in odd.assumptions)
    with pytest.raises(ConfigError, match=r"blocks of .* are of 64 tokens"):
        trace_of(tmp_path, [simulated([1], 64)], block_tokens=16)


@given(
    length=st.sampled_from([1, 16, 64, 512]),
    tokens=st.lists(st.integers(1, 5000), min_size=1, max_size=9),
    partial=st.booleans(),
)
def test_block_length_explains_the_rows_it_is_found_from(
    length: int, tokens: list[int], partial: bool
) -> None:
    def ids(size: int, count: int) -> int:
        return -(-count // size) if partial else count // size

    rows = [(ids(length, count), count) for count in tokens]
    found = block_length(rows)
    if not any(count for count, _ in rows):
        assert found is None
        return
    assert found is not None
    for number, count in rows:
        assert number in {0, count // found, -(-count // found)}


@given(st.lists(st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=3), unique=True))
def test_different_ids_stay_different_and_fit_a_key(ids: list[Any]) -> None:
    units = block_units({"ids": ids}, "ids")
    assert all(0 <= unit < 1 << 63 for unit in units)
    # -1 and 2**64 - 1 are the same 64 bits.
    distinct = {value % (1 << 64) if isinstance(value, int) else value for value in ids}
    assert len(set(units)) == len(distinct)


def test_tair_reads_are_requests_and_writes_are_not(tmp_path: Path) -> None:
    write = {"type": "write", "instance_id": "i", "timestamp_us": 5, "keys": [1, 2]}
    rows = [get(1_000_000, [1, 2]), write, get(3_000_000, [1, 3], output_len=7, type="get")]
    trace = trace_of(tmp_path, [*rows, get(4_000_000, [1], query_type="batch_get")])
    first, second = trace
    assert (first.key.tokens(), second.key.tokens()) == ([1, 2], [1, 3])
    assert (first.arrival_s, second.arrival_s) == (0.999995, 2.999995)
    assert (second.recorded_output_tokens, second.client_id) == (7, "i")
    assert trace.page_size == 16
    assert trace.summary.skipped == {
        "a write or another event, no request": 1,
        "query_type is not prefix_match": 1,
    }


def test_tair_instances_never_share(tmp_path: Path) -> None:
    first, second = trace_of(tmp_path, [get(1, [1, 2]), get(2, [1, 2], instance_id="j")])
    assert first.key.namespace == Namespace("i")
    assert second.key.namespace == Namespace("j")


def test_tair_may_count_nanoseconds_and_leave_out_the_tail(tmp_path: Path) -> None:
    rows = [
        {"type": "request", "instance_id": "i", "timestamp_ns": 10**9 * i, "keys": keys,
         "input_len": length}
        for i, (keys, length) in enumerate([([1, 2], 33), ([1], 40)])
    ]  # fmt: skip
    trace = trace_of(tmp_path, rows, block_tokens=16)
    first, second = trace
    assert second.arrival_s == 1.0
    assert (len(first.key), len(second.key)) == (32, 16)
    assert trace.summary.repaired == {FEWER: 1}
