"""Gateway CSV and AIBrix workloads; records of a CSV in any layout."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace
from radixcache.errors import TraceError
from scheduler.trace import PieceTokenizer, Trace, open_trace
from scheduler.trace import csv_records as csv_module
from scheduler.trace.chat_template import ChatEncoder, ChatTemplate
from scheduler.trace.csv_records import csv_records, fields_of
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary

ENCODER = ChatEncoder(PieceTokenizer(), ChatTemplate())
HEADER = ("request_json", "response_json", "model_name", "status_code", "timestamp")
HI = {"messages": [{"role": "user", "content": "Hi"}]}
PROMPT = ENCODER.message("user", "Hi") + ENCODER.header("assistant")


def log_of(folder: Path, *records: Any, header: Any = HEADER) -> Trace:
    path = folder / "log.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *records])
    return open_trace(path)


def record(
    body: Any = HI, response: Any = "", status: Any = 200, time: Any = "", model: str = "m"
) -> tuple[Any, ...]:
    texts = [part if isinstance(part, str) else json.dumps(part) for part in (body, response)]
    return (*texts, model, status, time)


def test_record_is_a_request_and_its_answer(tmp_path: Path) -> None:
    answer = {
        "choices": [{"message": {"role": "assistant", "content": 'He said: "Hello"\n, twice'}}],
        "usage": {"completion_tokens": 99},
    }
    trace = log_of(tmp_path, record(HI | {"user": "u"}, answer, time="2026-01-05T10:00:00Z"))
    (request,) = trace
    assert request.key.data == PROMPT
    assert request.key.namespace == Namespace("m")
    text = ENCODER.text('He said: "Hello"\n, twice') + ENCODER.end
    assert request.recorded_output_tokens == len(text) // 4
    assert request.client_id == "u"


def test_model_of_the_request_counts_more_than_the_column(tmp_path: Path) -> None:
    (request,) = log_of(tmp_path, record(HI | {"model": "own"}))
    assert request.key.namespace == Namespace("own")


def test_answer_may_be_unreadable_or_a_length_alone(tmp_path: Path) -> None:
    usage = {"usage": {"completion_tokens": 7}}
    trace = log_of(tmp_path, record(response="data: {"), record(response=usage))
    first, second = trace
    assert (first.recorded_output_tokens, second.recorded_output_tokens) == (None, 7)
    assert trace.summary.repaired == {"response_json cannot be read: the answer is unknown": 1}


@pytest.mark.parametrize(
    "times",
    [
        ("2026-01-05T10:00:00Z", "2026-01-05 11:00:01.5+01:00"),
        ("2026-01-05T10:00:00", "2026-01-05 10:00:01.500000"),
        ("1767607200", "1767607201.5"),
        ("1767607200000", "1767607201500"),
        ("1767607200000000", "1767607201500000"),
        ("1767607200000000000", "1767607201500000000"),
    ],
)
def test_times_may_be_iso_or_numbers_of_any_unit(tmp_path: Path, times: tuple[str, str]) -> None:
    trace = log_of(tmp_path, *(record(time=time) for time in times))
    assert [request.arrival_s for request in trace] == [0.0, 1.5]


def test_columns_may_stand_in_any_order_and_time_may_be_absent(tmp_path: Path) -> None:
    header = ("status_code", "Request_JSON", "extra")
    trace = log_of(
        tmp_path, (200, json.dumps(HI), 'a "b"'), (200, json.dumps(HI), ""), header=header
    )
    assert [request.arrival_s for request in trace] == [0.0, 1.0]
    assert any("rows have no time" in said for said in trace.assumptions)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record(status=429), "call failed: status_code is 400 or more"),
        (record(status="?"), "status_code is no number"),
        (record(body="{"), "not JSON"),
        (record(body={}), "no messages and no prompt in it"),
        (record(body="[]"), "not a JSON object"),
        (("a", "b"), "fields are not as many as columns"),
        (record(time="soon"), "timestamp is neither a number nor ISO 8601"),
        (record(time="-5"), "timestamp is negative"),
        (record(time=""), "timestamp is missing"),
    ],
)
def test_bad_record_is_skipped_with_its_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = log_of(tmp_path, record(time="1767607200"), bad)
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {reason: 1}


def test_file_without_the_columns_is_refused_even_when_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TraceError, match="has no columns request_json and status_code"):
        open_trace(path, format="gateway-csv")


fields = st.text(st.sampled_from('ab",\n\r {}é'), max_size=6)


@given(rows=st.lists(st.lists(fields, min_size=2, max_size=3), max_size=5))
def test_records_are_those_of_the_standard_library(
    rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [[f" {' '.join(field.split())} " for field in row] for row in rows]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(text.getvalue(), newline="")
    summary = TraceSummary()
    found = [fields_of(line, summary) for line in csv_records(Source(path), summary)]
    assert found == rows


def test_quote_that_never_ends_costs_its_own_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_module, "MAX_LINE_BYTES", 40)
    path = tmp_path / "a.csv"
    path.write_text('a,"b\n' + "c,d\n" * 30)
    summary = TraceSummary()
    lines = list(csv_records(Source(path), summary))
    assert [number for number, _, _ in lines] == list(range(1, 32))
    assert lines[0] == (1, b'a,"b', False)


def test_every_prompt_of_a_tick_is_a_request(tmp_path: Path) -> None:
    path = tmp_path / "workload.jsonl"
    rows = [
        {"timestamp": 500, "requests": [
            {"Prompt Length": 1, "Output Length": 5, "prompt": "Hi"},
            {"prompt_length": 1, "output_length": None, "prompt": "Yo", "session_id": 3},
            5,
        ]},
        {"timestamp": 1500, "requests": [{"prompt": HI["messages"], "model": "m"}]},
        {"timestamp": 1500, "requests": []},
        {"timestamp": 1500},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = open_trace(path)
    first, second, third = trace
    assert (first.key.data, second.key.data) == (ENCODER.text("Hi"), ENCODER.text("Yo"))
    assert third.key.data == PROMPT
    assert (first.arrival_s, second.arrival_s, third.arrival_s) == (0.0, 0.0, 1.0)
    assert (first.recorded_output_tokens, second.recorded_output_tokens) == (5, None)
    assert (first.rid, second.rid, second.session_id) == ("line 1.1", "line 1.2", "3")
    assert trace.summary.skipped == {
        "not a JSON object": 1,
        "no messages and no prompt in it": 1,
    }
