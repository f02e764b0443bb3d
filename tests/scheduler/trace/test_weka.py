"""kv-cache-tester sessions: local ids, sub-agents, starts, large files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radixcache import DEFAULT_NAMESPACE, Namespace
from scheduler.trace import ReadOptions, Trace, open_trace
from scheduler.trace import formats as formats_module


def call(time: float, ids: list[int], **more: Any) -> dict[str, Any]:
    return {"t": time, "type": "n", "in": 64 * len(ids), "out": 4, "hash_ids": ids} | more


def session(name: str, *requests: Any, **more: Any) -> dict[str, Any]:
    return {"id": name, "models": ["m"], "block_size": 64, "requests": list(requests)} | more


def trace_of(folder: Path, *sessions: Any, indent: int | None = None, **options: Any) -> Trace:
    path = folder / "trace.json"
    path.write_text("\n".join(json.dumps(one, indent=indent) for one in sessions))
    return open_trace(path, options=ReadOptions(**options))


def test_ids_are_local_to_their_session_unless_it_says_global(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        session("a", call(0, [1, 2])),
        session("b", call(0, [1, 2])),
        session("c", call(0, [1, 2]), hash_id_scope="global"),
        session("d", call(0, [1, 2]), hash_id_scope="global"),
    )
    spaces = [request.key.namespace for request in trace]
    assert spaces == [Namespace("a"), Namespace("b"), DEFAULT_NAMESPACE, DEFAULT_NAMESPACE]


def test_sessions_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, session("a", call(0, [1])), session("a", call(0, [1])))
    first, second = trace
    assert first.key.namespace != second.key.namespace
    assert trace.summary.repaired == {"name is not unique: renamed": 1}


def test_starts_give_the_nominal_rate_and_times_inside_are_as_recorded(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        session("a", call(0, [1]), call(0.5, [1, 2]), call(90, [1, 2, 3])),
        session("b", call(0, [1]), call(7.25, [1, 2])),
        rate_per_s=2.0,
    )
    assert [(r.rid, r.arrival_s) for r in trace] == [
        ("a/1", 0.0),
        ("a/2", 0.5),
        ("b/1", 1.5),
        ("b/2", 8.75),
        ("a/3", 90.0),
    ]
    assert trace.summary.records == 2


@pytest.mark.parametrize("base", [0.0, 30.0])
def test_requests_of_sub_agents_come_where_they_were_made(tmp_path: Path, base: float) -> None:
    inner = [call(base + 1, [7]), call(base + 2, [7, 8])]
    agent = {"t": 30.0, "type": "subagent", "agent_id": "x", "requests": inner}
    trace = trace_of(tmp_path, session("a", call(0, [1]), agent, call(31.5, [1, 2])))
    assert [(r.session_id, r.arrival_s) for r in trace] == [
        ("a", 0.0),
        ("a/x", 31.0),
        ("a", 31.5),
        ("a/x", 32.0),
    ]
    assert {request.key.namespace for request in trace} == {Namespace("a")}
    assert not trace.summary.repaired


def test_agents_inside_agents_are_read_at_any_depth(tmp_path: Path) -> None:
    nested: Any = call(0, [1])
    for _ in range(200):
        nested = {"t": 0, "type": "subagent", "requests": [nested]}
    assert len(list(trace_of(tmp_path, session("a", nested)))) == 1


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (call(0, [1, 2, 3]) | {"in": 100}, "hash_ids are more than blocks of 64 tokens"),
        (call(0, [1]) | {"t": None}, "t is missing"),
        (call(0, [1]) | {"in": 0}, "in is below 1"),
        (call(0, []) | {"in": 3, "hash_ids": None}, "hash_ids is missing"),
        (5, "a request is no object"),
        (None, "a request is no object"),
    ],
)
def test_bad_request_is_skipped_alone(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = trace_of(tmp_path, session("a", call(0, [1]), bad, call(1, [1])))
    assert len(list(trace)) == 2
    assert trace.summary.skipped == {reason: 1}
    assert trace.summary.rows == 3


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (session("b"), "session without requests"),
        (session("b", call(0, [1]), block_size=16), "block_size is not 64 as in the first session"),
        (session("b", call(0, [1]), id=[1]), "id is neither text nor a whole number"),
        ({"id": "b", "block_size": 64}, "requests is no list"),
    ],
)
def test_bad_session_is_skipped_with_its_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = trace_of(tmp_path, session("a", call(0, [1])), bad, session("c", call(0, [1])))
    assert [request.rid for request in trace] == ["a/1", "c/1"]
    assert trace.summary.skipped == {reason: 1}


def test_rounded_lengths_and_missing_ids_are_read(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, session("a", call(0, [1, 2], **{"in": 127}), call(1, [1], **{"in": 300}))
    )
    assert [len(request.key) for request in trace] == [64, 64]
    reason = "fewer block ids than full blocks: the rest of the prompt is shared with nobody"
    assert trace.summary.repaired == {reason: 1}


def test_requests_out_of_order_inside_a_session_are_sorted(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, session("a", call(9, [1, 2]), call(0, [1])))
    assert [request.key.tokens() for request in trace] == [[1], [1, 2]]
    assert trace.summary.repaired == {"request goes back in time inside its session: sorted": 1}


@pytest.mark.parametrize("indent", [None, 2])
def test_session_larger_than_the_head_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None
) -> None:
    monkeypatch.setattr(formats_module, "HEAD_ROWS", 2)
    monkeypatch.setattr("scheduler.trace.source.MAX_HEAD_BYTES", 400)
    monkeypatch.setattr("scheduler.trace.source.CHUNK_BYTES", 150)
    calls = [call(float(i), list(range(i + 1))) for i in range(30)]
    trace = trace_of(tmp_path, session("a", *calls), session("b", *calls), indent=indent)
    assert trace.format == "weka"
    assert len(list(trace)) == 60


def test_cut_file_in_a_folder_loses_its_own_session_only(tmp_path: Path) -> None:
    for name in "abc":
        text = json.dumps(session(name, call(0, [1]), call(1, [1, 2])))
        (tmp_path / f"{name}.json").write_text(text if name != "b" else text[:-30])
    trace = open_trace(tmp_path)
    assert [request.rid for request in trace] == ["a/1", "a/2", "c/1", "c/2"]
    assert trace.summary.skipped_rows == 1
