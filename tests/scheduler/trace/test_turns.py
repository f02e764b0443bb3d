"""Sessions of turns: AIPerf multi-turn, MT-bench, AIBrix's prompts with completions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.trace import PieceTokenizer, ReadOptions, Trace, open_trace
from scheduler.trace.chat_template import ChatEncoder, ChatTemplate

ENCODER = ChatEncoder(PieceTokenizer(), ChatTemplate())


def trace_of(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "turns.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_trace(path, options=ReadOptions(**options))


def prompt(text: str) -> bytes:
    return ENCODER.message("user", text) + ENCODER.header("assistant")


def test_next_prompt_goes_on_after_an_answer_that_nobody_else_has(tmp_path: Path) -> None:
    turns = [{"text": "Q1", "output_length": 5}, {"text": "Q2"}]
    rows = [{"session_id": name, "turns": turns} for name in "st"]
    first, second, other, _ = sorted(trace_of(tmp_path, rows), key=lambda request: request.rid)
    assert first.key.data == other.key.data == prompt("Q1")
    assert first.recorded_output_tokens == 5
    whole = first.key.tokens() + list(first.recorded_output_ids or ())
    assert second.key.tokens()[: len(whole)] == whole
    assert second.key.data.endswith(prompt("Q2"))
    assert not set(first.recorded_output_ids or ()) & set(other.recorded_output_ids or ())


def test_answer_without_a_length_is_left_out(tmp_path: Path) -> None:
    first, second = trace_of(tmp_path, [{"question_id": 81, "turns": ["Q1", "Q2"]}])
    assert first.recorded_output_ids is None
    assert second.key.data == prompt("Q1") + ENCODER.between + prompt("Q2")
    assert (first.session_id, second.rid, second.arrival_s) == ("81", "81/2", 30.0)


def test_recorded_completions_are_the_answers(tmp_path: Path) -> None:
    row = {"session_id": 0, "prompts": ["Q1", "Q2"], "completions": ["A1", "A2"]}
    first, second = trace_of(tmp_path, [row])
    answer = ENCODER.text("A1") + ENCODER.end
    assert second.key.data == prompt("Q1") + answer + ENCODER.between + prompt("Q2")
    assert first.recorded_output_tokens == len(answer) // 4


def test_leading_system_turn_opens_every_prompt(tmp_path: Path) -> None:
    turns = [{"role": "system", "text": "Be brief."}, {"text": "Q1"}, {"text": "Q2"}]
    found = list(trace_of(tmp_path, [{"session_id": "s", "turns": turns}]))
    opening = ENCODER.message("system", "Be brief.")
    assert [request.key.data.startswith(opening) for request in found] == [True, True]
    assert len(found) == 2


def test_turns_come_when_they_are_stamped_or_delayed(tmp_path: Path) -> None:
    rows = [
        {"session_id": "s", "turns": [
            {"timestamp": 1000, "text": "a", "output_length": 10},
            {"delay": 500, "text": "b"},
            {"timestamp": 9000, "text": "c"},
            {"timestamp": 2000, "text": "d"},
        ]},
        {"session_id": "t", "turns": [{"timestamp": 1500, "text": "a"}, {"text": "b"}]},
    ]  # fmt: skip
    trace = trace_of(tmp_path, rows, think_s=2.0)
    assert [(r.rid, r.arrival_s) for r in trace] == [
        ("s/1", 0.0),
        ("t/1", 0.5),
        ("s/2", 0.8),
        ("t/2", 2.5),
        ("s/3", 8.0),
        ("s/4", 8.0),
    ]
    (reason,) = trace.summary.repaired
    assert reason.startswith("turn goes back in time")


def test_sessions_without_times_start_at_the_nominal_rate(tmp_path: Path) -> None:
    rows = [{"turns": ["a", "b"]}, {"turns": ["c"]}, {"turns": ["d"]}]
    trace = trace_of(tmp_path, rows, rate_per_s=2.0, think_s=0.75)
    assert [(r.rid, r.arrival_s) for r in trace] == [
        ("line 1/1", 0.0),
        ("line 1/2", 0.75),
        ("line 2/1", 1.0),
        ("line 3/1", 1.5),
    ]


def test_media_stand_for_themselves_by_their_digest(tmp_path: Path) -> None:
    turns = [{"texts": ["Look", {"name": "x", "contents": ["at"]}], "images": [name]}
             for name in ("a.png", "b.png", "a.png")]  # fmt: skip
    trace = trace_of(tmp_path, [{"turns": [turn]} for turn in turns])
    first, second, third = trace
    assert first.key != second.key
    assert first.key == third.key
    assert trace.summary.repaired == {"picture or other media: its digest stands for it": 3}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"turns": []}, "session without turns"),
        ({"turns": 5}, "turns is no list"),
        ({"turns": [" "]}, "empty turn"),
        ({"turns": [{"text": "x", "output_length": -1}]}, "output_length is below 0"),
        ({"turns": [{"text": "x", "output_length": 1 << 30}]}, "output_length is out of range"),
        ({"turns": ["x"], "session_id": []}, "session_id is neither text nor a whole number"),
    ],
)
def test_bad_session_or_turn_is_skipped_with_its_reason(
    tmp_path: Path, bad: Any, reason: str
) -> None:
    trace = trace_of(tmp_path, [{"turns": ["a"]}, bad])
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {reason: 1}
