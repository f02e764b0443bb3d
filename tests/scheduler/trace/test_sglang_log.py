"""SGLang's Finish lines: ids and measured hits, and every way a log can be spoilt."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import TraceError
from scheduler.trace import ReadOptions, open_trace
from scheduler.trace.python_text import SHORTENED, fields_of, value_of
from scheduler.trace.sglang_log import FinishedRequest, finished_requests
from scheduler.trace.source import Source
from scheduler.trace.summary import RowError, TraceSummary
from tests.models.server_logs import colourful, finish_line

STARTUP = "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', page_size=1)"


def write(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "server.log"
    path.write_text("".join(line + end for line in (STARTUP, *lines)), newline="")
    return path


def finished(path: Path) -> tuple[list[FinishedRequest], TraceSummary]:
    summary = TraceSummary()
    return list(finished_requests(Source(path), ReadOptions(), summary)), summary


def test_a_finish_line_has_ids_and_measured_hits(tmp_path: Path) -> None:
    path = write(tmp_path, finish_line("a", [1, 2, 3], cached=2, out_ids=(8, 9), second=5))
    (row,), summary = finished(path)
    assert row.request.rid == "a"
    assert list(row.request.key.tokens()) == [1, 2, 3]
    assert row.request.recorded_output_ids == (8, 9)
    assert row.request.max_new_tokens == 16
    assert (row.cached_tokens, row.prompt_tokens, row.e2e_s) == (2, 3, 0.25)
    assert (summary.rows, summary.requests) == (1, 1)


def test_it_is_a_trace_like_any_other(tmp_path: Path) -> None:
    path = write(tmp_path, *(finish_line(f"r{i}", [1, 2, i], second=i) for i in range(5)))
    trace = open_trace(path)
    assert trace.format == "sglang-log"
    assert [request.rid for request in trace] == ["r0", "r1", "r2", "r3", "r4"]
    assert [request.arrival_s for request in trace] == [0, 1, 2, 3, 4]


def test_arrival_is_the_time_of_receipt(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        finish_line("late", [1], received=1009.5, second=1),
        finish_line("early", [1], received=1001.0, second=2),
        finish_line("unknown", [1], second=3),
    )
    rows, _ = finished(path)
    assert [(row.request.rid, row.request.arrival_s) for row in rows] == [
        ("early", 0.0),
        ("unknown", 0.0),
        ("late", 8.5),
    ]


def test_without_it_arrival_is_the_line_less_the_latency(tmp_path: Path) -> None:
    path = write(
        tmp_path, finish_line("a", [1], second=9, e2e=8.0), finish_line("b", [1], second=5, e2e=1.0)
    )
    rows, _ = finished(path)
    assert [(row.request.rid, row.request.arrival_s) for row in rows] == [("a", 0.0), ("b", 3.0)]


def test_colours_line_ends_and_gzip_change_nothing(tmp_path: Path) -> None:
    lines = [finish_line(f"r{i}", [1, 2, i], second=i) for i in range(4)]
    plain, _ = finished(write(tmp_path, *lines))
    assert finished(write(tmp_path, *lines, end="\r\n"))[0] == plain
    assert finished(write(tmp_path, *colourful(lines)))[0] == plain
    path = write(tmp_path, *lines)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert finished(path)[0] == plain


def test_the_json_form_gives_the_same(tmp_path: Path) -> None:
    (plain,), _ = finished(write(tmp_path, finish_line("a", [1, 2, 3], cached=2, received=5.0)))
    meta = {"id": "a", "prompt_tokens": 3, "completion_tokens": 1, "cached_tokens": 2}
    meta |= {"e2e_latency": 0.25, "request_received_ts": 5.0}
    row = {
        "timestamp": "2026-01-01T00:00:00",
        "event": "request.finished",
        "rid": "a",
        "obj": {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 16}},
        "out": {"text": "x", "output_ids": [7], "meta_info": meta},
    }
    (read,), _ = finished(write(tmp_path, json.dumps(row)))
    assert read == plain
    path = tmp_path / "log.json"
    path.write_text(json.dumps(row) + "\n")
    assert open_trace(path).format == "sglang-log"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (finish_line("a", [1, 2]).replace("input_ids=[1, 2], ", ""), "no token ids"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "[1, 2] ... [8, 9]"), "cut in the middle"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "None"), "no token ids"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "[[1], [2]]"), "several prompts"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "[]"), "prompt is empty"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "[1, -2]"), "negative"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "[1, 99999999999]"), "negative or not below"),
        (finish_line("a", [1, 2]).replace("[1, 2]", "[f(1)]"), "no plain Python value"),
        (finish_line("HEALTH_CHECK_1", [0]), "health check"),
        (finish_line("a", [1, 2])[:150], "line is cut"),
        (finish_line("a", [1, 2])[:-30], "line is cut"),
        (finish_line("a", [1, 2]).split(", out={'text'")[0], "out= is missing"),
        (finish_line("a", [1, 2]).replace("'cached_tokens': 0", "'cached_tokens': -1"), "below 0"),
    ],
)
def test_a_line_that_is_spoilt_is_skipped_with_its_reason(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = write(tmp_path, line, finish_line("good", [3]))
    rows, summary = finished(path)
    assert [row.request.rid for row in rows] == ["good"]
    (told,) = summary.skipped
    assert reason in told
    with pytest.raises(TraceError, match=r"server\.log:2: "):
        list(open_trace(path, options=ReadOptions(strict=True)))


def test_two_records_in_one_line_are_two_requests(tmp_path: Path) -> None:
    rows, summary = finished(write(tmp_path, finish_line("a", [1]) + finish_line("b", [2])))
    assert [row.request.rid for row in rows] == ["a", "b"]
    assert summary.rows == 2


def test_a_talk_about_logs_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    talk = {"messages": [{"role": "user", "content": f"What is this?\n{STARTUP}"}], "model": "m"}
    path.write_text(json.dumps(talk) + "\n")
    assert open_trace(path).format == "openai"


def test_a_line_of_broken_records_is_read_in_bounded_time(tmp_path: Path) -> None:
    _, summary = finished(write(tmp_path, "Finish: obj=(" * 5000))
    assert summary.skipped.total() == 100


def test_names_used_twice_are_told_apart(tmp_path: Path) -> None:
    rows, summary = finished(write(tmp_path, finish_line("a", [1]), finish_line("a", [2])))
    assert [row.request.rid for row in rows] == ["a", "a (line 3)"]
    assert summary.repaired.total() == 1


def test_a_log_without_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no request in it, read as sglang-log"):
        list(open_trace(write(tmp_path, "[2026-01-01 00:00:00] hello")))


def test_keys_of_other_tenants_share_nothing(tmp_path: Path) -> None:
    salted = finish_line("a", [1]).replace("stream=True", "stream=True, cache_salt='x'")
    rows, _ = finished(write(tmp_path, salted, finish_line("b", [1])))
    assert {row.request.key.namespace.cache_salt for row in rows} == {"x", None}


def test_logprobs_of_the_prompt_limit_the_match(tmp_path: Path) -> None:
    asked = "return_logprob=True, logprob_start_len=1, stream=True"
    line = finish_line("a", [1, 2, 3]).replace("stream=True", asked)
    (row,), _ = finished(write(tmp_path, line))
    assert row.request.max_match_tokens == 1


def test_fields_are_cut_outside_of_quotes() -> None:
    text = "F(a='x, b=(', b=[1, {'k': (2,)}], c=d(e=1)) tail"
    fields, end = fields_of(text, 0)
    assert fields == {"a": "'x, b=('", "b": "[1, {'k': (2,)}]", "c": "d(e=1)"}
    assert text[end:] == " tail"
    assert fields_of("{'a': 1, \"b\": 2}", 0)[0] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", [1, 2]),
        ("[]", []),
        ("{'a': None}", {"a": None}),
        ("'...'", "..."),
        ("'a' ... 'b'", SHORTENED),
        ("[1] ... [2]", SHORTENED),
    ],
)
def test_plain_values_are_read(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize("text", ["f()", "1 + ", "__import__('os')", "(" * 5000, "x" * 100_000])
def test_nothing_is_evaluated(text: str) -> None:
    with pytest.raises(RowError):
        value_of(text)


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.binary(max_size=5), st.integers(0, 400)), max_size=4
    ),
    st.booleans(),
)
def test_no_bytes_make_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, bytes, int]], head: bool
) -> None:
    line = finish_line("a", [1, 2, 3], cached=1, received=5.0, ttft=0.1).encode()
    data = b"".join(line[:cut] + text + line[start:] + b"\n" for cut, text, start in cuts)
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes((STARTUP.encode() + b"\n" if head else b"") + data)
    try:
        trace = open_trace(path, format="sglang-log")
        for request in trace:
            assert request.prompt_tokens >= 1
            request.rid.encode()
    except TraceError:
        return
    assert trace.summary.rows == trace.summary.requests + trace.summary.skipped_rows
