"""LMSYS-Chat-1M and WildChat: conversations, whose models, clients and times are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace
from radixcache.errors import TraceError
from scheduler.trace import PieceTokenizer, ReadOptions, Trace, open_trace
from scheduler.trace.chat_datasets import GUESSED, NO_TIME, TIMELESS
from scheduler.trace.chat_template import ChatEncoder, ChatTemplate
from scheduler.trace.sessions import OUTPUT_TOKEN_S

ENCODER = ChatEncoder(PieceTokenizer(), ChatTemplate())


def talk(*texts: str, times: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    """Return messages of a user and an assistant in turns, the first of them with times."""
    said: list[dict[str, Any]] = [
        {"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)
    ]
    for message, time in zip(said, times, strict=False):
        message["timestamp"] = time
    return said


def wild(conversation: list[dict[str, Any]], timestamp: Any = None, **more: Any) -> dict[str, Any]:
    row = {"conversation_hash": "h", "model": "m", "timestamp": timestamp}
    return row | {"conversation": conversation} | more


def lmsys(conversation: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"conversation_id": "c", "model": "m", "conversation": conversation} | more


def written(folder: Path, rows: list[Any], **options: Any) -> Trace:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_trace(path, options=ReadOptions(**options))


def test_lmsys_turns_are_requests_at_nominal_times(tmp_path: Path) -> None:
    rows = [lmsys(talk("Hi", "Hello", "And?", "So.")), lmsys(talk("Hi", "Hello"), model="other")]
    trace = written(tmp_path, rows, think_s=1.0)
    first, second, other = sorted(trace, key=lambda r: r.rid)
    assert trace.format == "lmsys"
    assert [r.rid for r in (first, second, other)] == ["c (line 2)/1", "c/1", "c/2"]
    first, second, other = second, other, first
    assert first.key.data == ENCODER.message("user", "Hi") + ENCODER.header("assistant")
    whole = first.key.tokens() + list(first.recorded_output_ids or ())
    assert second.key.tokens()[: len(whole)] == whole
    assert (first.key.namespace, other.key.namespace) == (Namespace.of("m"), Namespace.of("other"))
    assert first.session_id == second.session_id == "c"
    assert {r.arrival_s for r in trace} == {0.0, 1.0, 2.0}
    assert trace.summary.lines()[0] == "2 conversations: 3 rows = 3 requests + 0 skipped"


def test_wildchat_turns_arrive_when_they_were_asked(tmp_path: Path) -> None:
    times = ("2024-05-01T10:00:00Z", "2024-05-01T10:00:04Z", "2024-05-01T10:01:00.500000+00:00")
    rows = [
        wild(talk("Hi", "Hello", "And?", "So.", times=times), hashed_ip="someone"),
        wild(talk("Hi", "Hello", times=("2024-05-01 09:59:59",)), conversation_hash="g"),
    ]
    trace = written(tmp_path, rows)
    assert trace.format == "wildchat"
    assert [(r.rid, r.arrival_s, r.client_id) for r in trace] == [
        ("g/1", 0.0, None),
        ("h/1", 1.0, "someone"),
        ("h/2", 61.5, "someone"),
    ]
    assert not trace.summary.repaired


def test_where_only_answers_have_times_their_length_is_taken_off(tmp_path: Path) -> None:
    answer = "word" * 100  # 100 tokens of 4 characters
    said = talk("Hi", answer, "And?", answer, times=(None, 100_000, None, 160_000))
    said[0]["hashed_ip"] = "a"
    first, second = written(tmp_path, [wild(said)])
    assert second.arrival_s - first.arrival_s == pytest.approx(60.0)
    lone = wild(talk("Hi", times=(95_000,)), conversation_hash="g")
    requests = list(written(tmp_path, [wild(said), lone]))
    assert [r.rid for r in requests] == ["g/1", "h/1", "h/2"]
    assert requests[1].arrival_s == pytest.approx(100 - 95 - 100 * OUTPUT_TOKEN_S)
    assert requests[1].client_id == "a"


def test_turns_without_times_lie_a_think_time_before_the_next(tmp_path: Path) -> None:
    trace = written(tmp_path, [wild(talk("Hi", "word", "And?", "word"), 50_000)], think_s=7.0)
    first, second = trace
    assert second.arrival_s - first.arrival_s == pytest.approx(7.0 + OUTPUT_TOKEN_S)
    assert trace.summary.repaired == {GUESSED: 1}


def test_times_that_go_back_or_cannot_be_read_are_put_right(tmp_path: Path) -> None:
    said = talk("Hi", "word", "And?", "word", times=(9_000, None, 8_000, None))
    trace = written(tmp_path, [wild(said, "yesterday")])
    assert [r.arrival_s for r in trace] == [0.0, 0.0]
    assert trace.summary.repaired == {NO_TIME: 1}


def test_a_row_without_any_time_is_skipped(tmp_path: Path) -> None:
    trace = written(tmp_path, [wild(talk("Hi", "word")), wild(talk("Hi", "word"), 5)])
    (request,) = trace
    assert (request.rid, request.arrival_s) == ("h/1", 0.0)
    assert trace.summary.skipped == {TIMELESS: 1}
    with pytest.raises(TraceError, match="no timestamp"):
        list(written(tmp_path, [wild(talk("Hi", "word"))], strict=True))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"conversation": "Hi"}, "no list of messages in it"),
        ({"model": 1.5}, "model is neither text nor a whole number"),
        ({"hashed_ip": []}, "hashed_ip is neither text nor a whole number"),
        ({"conversation": []}, "empty conversation"),
        ({"conversation": [{"role": "assistant", "content": "Hi"}]}, "answer without a prompt"),
    ],
)
@pytest.mark.parametrize("form", ["lmsys", "wildchat"])
def test_rows_that_give_no_request_are_counted(
    tmp_path: Path, form: str, bad: dict[str, Any], reason: str
) -> None:
    good = wild(talk("Hi", "word"), 5) if form == "wildchat" else lmsys(talk("Hi", "word"))
    trace = written(tmp_path, [good, good | bad])
    assert len(list(trace)) == 1
    assert trace.format == form
    (found,) = trace.summary.skipped
    assert found.startswith(reason)


starts = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=3), min_size=1, max_size=9)


@given(made=starts)
def test_any_order_of_the_file_gives_arrival_order(
    made: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = []
    expected = []
    for line, gaps in enumerate(made):
        times = [sum(gaps[: i + 1]) * 1000 for i in range(len(gaps))]
        texts = ["word"] * (2 * len(gaps))
        stamps = tuple(time for asked in times for time in (asked, None))
        rows.append(wild(talk(*texts, times=stamps), conversation_hash=f"h{line}"))
        for turn, time in enumerate(times):
            expected.append((time, times[0], line, turn + 1))
    origin = min(expected)[0]
    expected.sort()
    trace = written(tmp_path_factory.getbasetemp(), rows)
    assert [(r.rid, r.arrival_s) for r in trace] == [
        (f"h{line}/{turn}", (time - origin) / 1000) for time, _, line, turn in expected
    ]
