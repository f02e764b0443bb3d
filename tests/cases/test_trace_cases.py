"""Faults of trace readers that real systems shipped (group N)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import TraceError
from scheduler.trace import ReadOptions, Trace, open_trace


def trace_of(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "case.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_trace(path, options=ReadOptions(**options))


def row(time: Any, length: int, ids: list[int]) -> dict[str, Any]:
    return {"timestamp": time, "input_length": length, "output_length": 1, "hash_ids": ids}


def test_b74_wide_block_ids_are_not_truncated(tmp_path: Path) -> None:
    rows = [row(0, 512, [5]), row(1, 512, [5 + 2**32]), row(2, 512, [5])]
    first, second, third = (request.key for request in trace_of(tmp_path, rows))
    assert second.common_prefix_tokens(first) == 0
    assert third.common_prefix_tokens(first) == 512


def test_b75_offsets_keep_their_precision(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [row(t, 512, [1]) for t in (1, 2, 9, 11)])
    assert [r.arrival_s for r in trace] == [0.0, 0.001, 0.008, 0.01]


@pytest.mark.parametrize(
    ("times", "reason", "kept"),
    [
        ([None, 100], "timestamp is missing", [0.0]),
        ([-5, 0], "timestamp is negative", [0.0]),
        ([float("nan"), 3, 7], "timestamp is not finite", [0.0, 0.004]),
        ([float("inf"), 3], "timestamp is not finite", [0.0]),
    ],
)
def test_b75_impossible_times_are_skipped_with_their_line(
    tmp_path: Path, times: list[Any], reason: str, kept: list[float]
) -> None:
    rows = [row(t, 512, [1]) for t in times]
    trace = trace_of(tmp_path, rows)
    assert [r.arrival_s for r in trace] == kept
    assert trace.summary.skipped == {reason: 1}
    assert trace.summary.first_lines[reason] == [1]
    with pytest.raises(TraceError, match=r"case\.jsonl:1: timestamp"):
        list(trace_of(tmp_path, rows, strict=True))


def test_b75_unsorted_rows_are_never_replayed_backwards(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [row(t, 512, [t]) for t in (30, 10, 20)])
    assert [r.key.tokens() for r in trace] == [[10], [20], [30]]


@pytest.mark.parametrize(
    ("length", "ids", "tokens"),
    [
        (20, [0, 1], None),
        (513, [0, 1], 513),
        (512, [0], 512),
        (1536, [0, 1, 2, 3], None),
        (0, [], None),
        (1024, [7, 7], None),
    ],
)
def test_b78_ids_must_number_what_the_length_needs(
    tmp_path: Path, length: int, ids: list[int], tokens: int | None
) -> None:
    trace = trace_of(tmp_path, [row(0, 512, [9]), row(1, length, ids)])
    prompts = [r.prompt_tokens for r in trace]
    assert prompts == ([512] if tokens is None else [512, tokens])
    assert trace.summary.rows == trace.summary.requests + trace.summary.skipped_rows == 2
    if tokens is None:
        ((_, lines),) = trace.summary.first_lines.items()
        assert lines == [2]


H, G = {"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}
S = {"from": "system", "value": "Be brief."}
USER, ASSISTANT = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}


@pytest.mark.parametrize(
    ("messages", "requests", "skipped"),
    [
        ([H, G, H, G], 2, {}),
        ([G, H, G], 1, {"answer without a prompt before it": 1}),
        ([], 0, {"empty conversation": 1}),
        ([H], 1, {}),
        ([S, H, G], 1, {}),
        ([H, {"from": "gpt", "value": ""}], 0, {"empty answer": 1}),
        ([USER, ASSISTANT], 1, {}),
    ],
)
def test_b77_every_shape_of_conversation_is_counted(
    tmp_path: Path, messages: list[Any], requests: int, skipped: dict[str, int]
) -> None:
    path = tmp_path / "shapes.json"
    rows = [{"id": "first", "conversations": [H, G]}, {"id": "x", "conversations": messages}]
    path.write_text(json.dumps(rows))
    trace = open_trace(path)
    found = [request for request in trace if request.session_id == "x"]
    assert len(found) == requests
    assert trace.summary.skipped == skipped
    assert trace.summary.rows == trace.summary.requests + trace.summary.skipped_rows
    for before, after in pairwise(found):
        whole = before.key.tokens() + list(before.recorded_output_ids or ())
        assert after.key.tokens()[: len(whole)] == whole


def test_b77_system_text_is_part_of_the_prompt(tmp_path: Path) -> None:
    path = tmp_path / "shapes.json"
    path.write_text(json.dumps([{"conversations": [S, H, G]}, {"conversations": [H, G]}]))
    with_system, without = open_trace(path)
    assert with_system.prompt_tokens > without.prompt_tokens
    assert with_system.key.common_prefix_tokens(without.key) < 4
