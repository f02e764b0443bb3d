"""Rows of token ids: prefixlens, Tair raw, LLMServingSim and its agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import TraceError
from scheduler.trace import ReadOptions, Trace, open_trace

MISCOUNTED = "input_toks is not the number of ids: the ids count"


def trace_of(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_trace(path, options=ReadOptions(**options))


def call(ids: Any, answer: Any = (), **more: Any) -> dict[str, Any]:
    row = {"input_toks": len(ids or ()), "output_toks": len(answer), "input_tok_ids": ids}
    return row | {"output_tok_ids": list(answer)} | more


def test_tenant_is_the_client_and_tenants_share(tmp_path: Path) -> None:
    rows = [{"request_id": "r", "token_ids": [1, 2], "tenant": name} for name in ("a", "b")]
    first, second = trace_of(tmp_path, rows)
    assert (first.client_id, second.client_id) == ("a", "b")
    assert first.key == second.key
    assert (first.rid, second.rid) == ("r", "r (line 2)")


def test_text_rows_of_a_corpus_keep_the_tenant_too(tmp_path: Path) -> None:
    (request,) = trace_of(tmp_path, [{"request_id": "r", "prompt": "Hi", "tenant": "a"}])
    assert (request.rid, request.client_id) == ("r", "a")


def test_raw_rows_of_tair_count_seconds(tmp_path: Path) -> None:
    rows = [
        {"ts_str": "x", "timestamp": 5.0 + i, "token_ids": [i], "is_tool_call": i > 0}
        for i in range(2)
    ]
    trace = trace_of(tmp_path, rows)
    assert [(r.arrival_s, r.key.tokens()) for r in trace] == [(0.0, [0]), (1.0, [1])]


def test_answer_is_recorded_with_its_ids(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        [call([1, 2], [3], arrival_time_ns=5), call([1, 2], arrival_time_ns=10**9, input_toks=9)],
    )
    first, second = trace
    assert (first.recorded_output_ids, first.recorded_output_tokens) == ((3,), 1)
    assert (first.arrival_s, second.arrival_s) == (0.0, 0.999999995)
    assert trace.summary.repaired == {MISCOUNTED: 1}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"input_toks": 3, "arrival_time_ns": 0}, "input_tok_ids is missing: no prefix identity"),
        (call([], arrival_time_ns=0), "input_tok_ids is empty"),
        (call([1 << 32], arrival_time_ns=0),
         "input_tok_ids holds an id that is negative or not below 2**32"),
        (call([1]), "arrival_time_ns is missing"),
        (call([1], ["x"], arrival_time_ns=0),
         "output_tok_ids holds something that is no whole number"),
    ],
)  # fmt: skip
def test_bad_row_is_skipped_with_its_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = trace_of(tmp_path, [call([1], arrival_time_ns=0), bad])
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {reason: 1}


def test_call_of_an_agent_comes_after_the_answer_and_the_tool(tmp_path: Path) -> None:
    calls = [call([1], [2] * 100, tool_duration_ns=10**9), call([1, 2], [3])]
    rows = [
        {"session_id": "s", "arrival_time_ns": 10**9, "sub_requests": calls},
        {"session_id": "t", "arrival_time_ns": 3 * 10**9, "sub_requests": calls[1:]},
    ]
    trace = trace_of(tmp_path, rows)
    assert [(r.rid, r.session_id, r.arrival_s) for r in trace] == [
        ("s/1", "s", 0.0),
        ("t/1", "t", 2.0),
        ("s/2", "s", 4.0),
    ]
    assert (trace.summary.records, trace.summary.rows) == (2, 3)


def test_bad_call_of_an_agent_is_skipped_alone(tmp_path: Path) -> None:
    rows = [
        {"session_id": "s", "arrival_time_ns": 0, "sub_requests": [call([]), 5, call([1])]},
        {"session_id": "t", "arrival_time_ns": 0, "sub_requests": []},
        call([1], arrival_time_ns=0),
    ]
    trace = trace_of(tmp_path, [*rows, {"arrival_time_ns": 0, "sub_requests": [call([7])]}])
    assert [request.rid for request in trace] == ["s/3", "line 4/1"]
    assert trace.summary.skipped == {
        "input_tok_ids is empty": 1,
        "a call is no object": 1,
        "session without calls": 1,
        "sub_requests is no list": 1,
    }


@pytest.mark.parametrize(
    "row",
    [
        {"input_toks": 3, "output_toks": 2, "arrival_time_ns": 0},
        {"session_id": "s", "arrival_time_ns": 0,
         "sub_requests": [{"input_toks": 9, "output_toks": 3, "tool_duration_ns": 1}]},
    ],
)  # fmt: skip
def test_lengths_without_ids_are_no_prefix_identity(tmp_path: Path, row: Any) -> None:
    with pytest.raises(TraceError, match=r"LLMServingSim trace .*no prefix identity"):
        trace_of(tmp_path, [row])


def test_segment_ids_are_refused(tmp_path: Path) -> None:
    parts = {"sys_prompt": [1], "passages_ids": [2, 3], "history": [], "user_input": [5]}
    row = {"timestamp": "82", "input_length": 300, "output_length": 20, "hash_ids": parts}
    with pytest.raises(TraceError, match="RAGPulse trace: its hash_ids name the parts"):
        trace_of(tmp_path, [row])
