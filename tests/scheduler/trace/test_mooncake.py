"""Mooncake and Bailian rows: golden counts, validation, time order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from radixcache import KeyKind
from radixcache.errors import TraceError
from scheduler.trace import ReadOptions, Trace, open_trace


def row(time: Any, ids: Any, length: Any = None, output: Any = 5) -> dict[str, Any]:
    length = 512 * len(ids) if length is None else length
    return {"timestamp": time, "input_length": length, "output_length": output, "hash_ids": ids}


def written(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return open_trace(path, options=ReadOptions(**options))


def test_golden_counts_of_the_conversation_trace(shared_dir: Path) -> None:
    path = shared_dir / "traces" / "mooncake_conversation.jsonl.gz"
    trace = open_trace(path, options=ReadOptions(partial_block=True))
    requests = list(trace)
    ids = [request.key.tokens() for request in requests]
    assert (trace.format, trace.kind, trace.page_size) == ("mooncake", KeyKind.BLOCKS, 512)
    assert len(requests) == trace.summary.rows == 12_031
    assert sum(map(len, ids)) == 288_500
    assert len({i for row_ids in ids for i in row_ids}) == 182_790
    assert max(map(len, ids)) == 247
    assert sum(r.prompt_tokens for r in requests) == 144_793_823
    assert sum(r.recorded_output_tokens or 0 for r in requests) == 4_122_048
    assert not trace.summary.skipped
    assert not trace.summary.repaired


def test_scheduled_keys_hold_full_blocks_only(shared_dir: Path) -> None:
    path = shared_dir / "traces" / "mooncake_conversation.jsonl.gz"
    for request in open_trace(path):
        assert len(request.key) == request.prompt_tokens // 512 * 512


def test_partial_block_is_an_option(tmp_path: Path) -> None:
    rows = [row(0, [1, 2], 600)]
    (full,) = written(tmp_path, rows)
    (whole,) = written(tmp_path, rows, partial_block=True)
    assert (full.key.tokens(), whole.key.tokens()) == ([1], [1, 2])
    assert full.prompt_tokens == whole.prompt_tokens == 600


def test_block_size_and_time_unit_are_parameters(tmp_path: Path) -> None:
    rows = [row(1, [1, 2], 32), row(3, [1, 3], 17)]
    trace = written(tmp_path, rows, block_tokens=16, time_unit="s")
    assert [(r.arrival_s, r.key.page_size) for r in trace] == [(0.0, 16), (2.0, 16)]
    assert "timestamps are in s" in trace.assumptions


def test_bailian_rows_count_seconds_and_16_tokens(tmp_path: Path) -> None:
    more = {"chat_id": 1, "parent_chat_id": -1, "type": "text", "turn": 1}
    trace = written(tmp_path, [row(4.25, [3, 4, 5], 40) | more, row(5.5, [3], 16) | more])
    assert trace.format == "bailian"
    assert [(r.arrival_s, r.key.tokens()) for r in trace] == [(0.0, [3, 4]), (1.25, [3])]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(0, None, 5), "hash_ids is missing"),
        (row(0, "x", 5), "hash_ids is no list"),
        (row(0, [1.0]), "hash_ids holds something that is no whole number"),
        (row(0, [True]), "hash_ids holds something that is no whole number"),
        (row(0, [-1]), "hash_ids holds an id that is negative or not below 2**63"),
        (row(0, [1 << 63]), "hash_ids holds an id that is negative or not below 2**63"),
        (row(0, [1], "9"), "input_length is no whole number"),
        (row(0, [1], output=-1), "output_length is below 0"),
        (row(0, [1], output=None), "output_length is missing"),
        (row("soon", [1]), "timestamp is no number"),
        (row(True, [1]), "timestamp is no number"),
        (row(10**40, [1]), "timestamp is out of range"),
        ({"timestamp": 0, "input_length": 5}, "hash_ids is missing: no prefix identity"),
        ({"timestamp": 0, "text_input": "Hi"}, "text row in a trace of block ids"),
        ([1, 2], "not a JSON object"),
        ("{", "not a JSON object"),
    ],
)
def test_bad_row_is_skipped_with_its_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = written(tmp_path, [row(0, [1]), bad, row(1, [1])])
    assert len(list(trace)) == 2
    assert trace.summary.skipped == {reason: 1}
    assert trace.summary.first_lines == {reason: [2]}
    assert trace.summary.rows == 3
    with pytest.raises(TraceError, match=r"trace\.jsonl:2: ") as caught:
        list(written(tmp_path, [row(0, [1]), bad, row(1, [1])], strict=True))
    assert "\n" not in str(caught.value)


def test_number_as_text_is_repaired(tmp_path: Path) -> None:
    trace = written(tmp_path, [row("82", [1]), row("82.5", [1])])
    assert [r.arrival_s for r in trace] == [0.0, 0.0005]
    assert trace.summary.repaired == {"timestamp is text": 2}


def test_output_longer_than_the_default_raises_what_is_asked_for(tmp_path: Path) -> None:
    trace = written(tmp_path, [row(0, [1], output=9), row(0, [1], output=90)], max_new_tokens=16)
    assert [r.max_new_tokens for r in trace] == [16, 90]


def test_microseconds_of_the_epoch_keep_their_precision(tmp_path: Path) -> None:
    start = 1_760_428_258_635_837
    trace = written(tmp_path, [row(start + i, [1]) for i in (0, 1, 3)], time_unit="us")
    assert [r.arrival_s for r in trace] == [0.0, 1e-6, 3e-6]


def test_sorted_rows_stream_before_the_file_ends(tmp_path: Path) -> None:
    trace = written(tmp_path, [row(i, [i]) for i in range(1000)])
    requests = iter(trace)
    next(requests)
    assert trace.summary.rows == 1


def test_rows_out_of_order_are_sorted_stably_and_counted(tmp_path: Path) -> None:
    trace = written(tmp_path, [row(30, [1]), row(10, [2]), row(20, [3]), row(10, [4])])
    assert [(r.arrival_s, r.key.tokens()) for r in trace] == [
        (0.0, [2]),
        (0.0, [4]),
        (0.01, [3]),
        (0.02, [1]),
    ]
    assert trace.summary.repaired == {"row goes back in time: sorted, ties in file order": 3}


def test_every_pass_gives_the_same_requests(tmp_path: Path) -> None:
    trace = written(tmp_path, [row(3, [1]), row(1, [2])])
    assert list(trace) == list(trace)
    assert trace.summary.requests == 2


def test_gzip_is_known_by_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.data"
    path.write_bytes(gzip.compress(json.dumps(row(0, [1])).encode()))
    assert len(list(open_trace(path))) == 1


def test_delay_stands_for_a_timestamp_inside_a_session(tmp_path: Path) -> None:
    rows = [
        row(1000, [1], output=100) | {"session_id": "s"},
        row(5000, [9]) | {"session_id": "t"},
        {k: v for k, v in row(0, [1, 2]).items() if k != "timestamp"}
        | {"session_id": "s", "delay": 500},
        {k: v for k, v in row(0, [1, 2]).items() if k != "timestamp"}
        | {"session_id": "u", "delay": 500},
    ]
    trace = written(tmp_path, rows)
    assert [(r.rid, r.arrival_s) for r in trace] == [
        ("line 1", 0.0),
        ("line 3", 3.5),
        ("line 2", 4.0),
    ]
    assert trace.summary.skipped == {"timestamp is missing": 1}
    assert any("a row with a delay" in said for said in trace.assumptions)


def test_sessions_without_timestamps_come_at_the_nominal_rate(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for name in "st":
        for delay in (None, 1000):
            made = row(0, [1]) | {"session_id": name, "delay": delay}
            del made["timestamp"]
            rows.append(made)
    trace = written(tmp_path, rows, rate_per_s=2.0)
    assert trace.format == "mooncake"
    times = {r.rid: r.arrival_s for r in trace}
    assert times == {"line 1": 0.0, "line 2": 1.15, "line 3": 1.0, "line 4": 2.15}
