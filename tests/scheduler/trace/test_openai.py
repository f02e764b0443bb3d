"""Request logs: OpenAI chat, OpenAI batch, AIPerf text rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixcache import Namespace
from scheduler.analysis.capacity_curve import capacity_curve
from scheduler.analysis.trace_statistics import trace_statistics
from scheduler.lookup import lookup_replay
from scheduler.optimal import optimal_prefill
from scheduler.trace import ReadOptions, Trace, open_trace
from scheduler.trace.chat_template import ChatEncoder, ChatTemplate
from scheduler.trace.tokenizer import PieceTokenizer

ENCODER = ChatEncoder(PieceTokenizer(), ChatTemplate())
HI = {"role": "user", "content": "Hi"}
PROMPT = ENCODER.message("user", "Hi") + ENCODER.header("assistant")


def trace_of(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "openai.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return open_trace(path, options=ReadOptions(**options))


def test_chat_row_is_one_request(tmp_path: Path) -> None:
    row = {
        "model": "m",
        "messages": [{"role": "system", "content": "You help."}, HI],
        "max_tokens": 64,
        "cache_salt": "t1",
        "user": "u",
    }
    trace = trace_of(tmp_path, [row, row])
    first, second = trace
    assert trace.format == "openai"
    assert first.key.data == ENCODER.message("system", "You help.") + PROMPT
    assert first.key.namespace == Namespace("m", None, "t1")
    assert (first.max_new_tokens, first.client_id) == (64, "u")
    assert (first.recorded_output_ids, first.recorded_output_tokens) == (None, None)
    assert (first.arrival_s, second.arrival_s) == (0.0, 1.0)


def test_last_answer_is_the_output(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "Hello"}
    (request,) = trace_of(tmp_path, [{"model": "m", "messages": [HI, answer]}])
    assert request.key.data == PROMPT
    assert request.recorded_output_tokens == len(ENCODER.text("Hello") + ENCODER.end) // 4


def test_next_turn_extends_prompt_and_answer(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "Hello"}
    rows = [
        {"model": "m", "messages": [HI, answer]},
        {"model": "m", "messages": [HI, answer, {"role": "user", "content": "More"}]},
    ]
    first, second = trace_of(tmp_path, rows)
    whole = first.key.tokens() + list(first.recorded_output_ids or ())
    assert second.key.tokens()[: len(whole)] == whole


def test_batch_row_is_read_from_its_body(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [HI], "tools": [{"name": "f"}]}
    row = {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": body}
    trace = trace_of(tmp_path, [row, row])
    first, second = trace
    assert (first.rid, second.rid) == ("r-1", "r-1 (line 2)")
    assert first.key.data == ENCODER.message("system", '{"name": "f"}') + PROMPT


def test_several_answers_to_one_prompt_are_samples_of_one_request(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [{"model": "m", "messages": [HI], "n": 3}])
    (request,) = trace
    assert (request.rid, request.samples) == ("line 1", 3)
    assert trace.summary.rows == trace.summary.requests == 1


def test_every_sample_is_counted_by_lookup_optimum_and_statistics(tmp_path: Path) -> None:
    alone = {"model": "m", "messages": [HI]}
    many = list(trace_of(tmp_path, [alone | {"n": 3}, alone]))
    apart = list(trace_of(tmp_path, [alone] * 4))
    assert lookup_replay(many, 1) == lookup_replay(apart, 1)
    assert lookup_replay(many, 1, policy="optimal") == lookup_replay(apart, 1, policy="optimal")
    assert optimal_prefill(many, 1) == optimal_prefill(apart, 1)
    assert capacity_curve(many, 1).as_dict() == capacity_curve(apart, 1).as_dict()
    timeless = {"span_s": 0, "burstiness": None}
    statistics = [replace(trace_statistics(rows, 1), **timeless) for rows in (many, apart)]
    assert statistics[0] == statistics[1]
    assert statistics[0].requests == 4


def test_prompt_log_probabilities_use_no_cached_prefix(tmp_path: Path) -> None:
    (request,) = trace_of(tmp_path, [{"model": "m", "messages": [HI], "prompt_logprobs": 0}])
    assert request.max_match_tokens == 0


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hi", "output_tokens": 64},
        {"text_input": "Hi", "output_length": 64},
        {"payload": {"prompt": "Hi"}, "output_length": 64},
    ],
)
def test_text_alone_has_no_template(tmp_path: Path, row: Any) -> None:
    (request,) = trace_of(tmp_path, [row])
    assert request.key.data == ENCODER.text("Hi")
    assert request.recorded_output_tokens == 64


def test_prompt_may_be_token_ids(tmp_path: Path) -> None:
    first, second = trace_of(tmp_path, [{"prompt": "Hi"}, {"prompt": [5, 6]}])
    assert (len(first.key), second.key.tokens()) == (1, [5, 6])


def test_timestamps_are_milliseconds_unless_said(tmp_path: Path) -> None:
    rows = [{"timestamp": t, "messages": [HI], "session_id": "s"} for t in (3000, 1000)]
    trace = trace_of(tmp_path, rows)
    assert [r.arrival_s for r in trace] == [0.0, 2.0]
    assert "timestamps are in ms (the format's own)" in trace.assumptions
    assert [r.arrival_s for r in trace_of(tmp_path, rows, time_unit="s")] == [0.0, 2000.0]


def test_text_inputs_of_a_session_are_its_turns(tmp_path: Path) -> None:
    rows = [
        {"text_input": "Hi", "session_id": "s", "output_length": 3, "timestamp": 0},
        {"text_input": "Hi", "session_id": "t", "output_length": 3, "timestamp": 1},
        {"text_input": "You", "session_id": "s", "timestamp": 2},
        {"text_input": "More", "session_id": "s", "timestamp": 3},
        {"text_input": "Hi", "output_length": 1 << 30, "session_id": "u", "timestamp": 3},
    ]
    trace = trace_of(tmp_path, rows)
    first, other, second, third = trace
    assert first.key == other.key
    assert not set(first.recorded_output_ids or ()) & set(other.recorded_output_ids or ())
    history = first.key.tokens() + list(first.recorded_output_ids or ())
    assert len(history) == len(first.key) + 3
    assert second.key.tokens() == history + PieceTokenizer().encode("You")
    assert third.key.tokens() == second.key.tokens() + PieceTokenizer().encode("More")
    assert trace.summary.skipped == {"output_length is out of range": 1}


def test_delay_counts_from_the_answer_before_in_the_session(tmp_path: Path) -> None:
    rows = [
        {"text_input": "Hi", "session_id": "s", "output_length": 50},
        {"text_input": "Hi", "session_id": "s", "delay": 250},
        {"text_input": "Hi", "session_id": "t", "delay": 250},
    ]
    trace = trace_of(tmp_path, rows)
    assert [(r.rid, r.arrival_s) for r in trace] == [
        ("line 1", 0.0),
        ("line 2", 1.75),
        ("line 3", 2.0),
    ]
    assert any("a row with a delay" in said for said in trace.assumptions)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"model": "m"}, "no messages and no prompt in it"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the prompt is empty"),
        ({"messages": [HI], "max_tokens": 0}, "max_tokens is below 1"),
        ({"messages": [HI], "n": 5000}, "n is out of range"),
        ({"messages": [HI], "model": [1]}, "model is neither text nor a whole number"),
        ({"prompt": [["x"]]}, "prompt holds something that is no whole number"),
    ],
)
def test_bad_row_is_skipped_with_its_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = trace_of(tmp_path, [{"model": "m", "messages": [HI]}, bad])
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {reason: 1}
