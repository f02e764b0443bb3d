"""ShareGPT conversations: every shape of the field, turns expanded, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import TraceError
from scheduler.request import Request
from scheduler.trace import ReadOptions, Trace, open_trace, sharegpt_json
from scheduler.trace.chat_template import ChatEncoder, ChatTemplate
from scheduler.trace.tokenizer import PieceTokenizer

ENCODER = ChatEncoder(PieceTokenizer(), ChatTemplate())


def said(*messages: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"from": role, "value": text} for role, text in messages]


def trace_of(folder: Path, rows: Any, **options: Any) -> Trace:
    path = folder / "sharegpt.json"
    path.write_text(json.dumps(rows, indent=2))
    return open_trace(path, format="sharegpt", options=ReadOptions(**options))


def whole(request: Request) -> list[int]:
    return request.key.tokens() + list(request.recorded_output_ids or ())


def prompt_of(*messages: tuple[str, str]) -> bytes:
    return b"".join(ENCODER.message(*m) for m in messages) + ENCODER.header("assistant")


H, G = ("human", "Hi there"), ("gpt", "Hello. What now?")
H2, G2 = ("human", "Tell me more"), ("gpt", "No.")


def test_turn_n_holds_the_whole_history(tmp_path: Path) -> None:
    first, second = trace_of(tmp_path, [{"id": "a", "conversations": said(H, G, H2, G2)}])
    assert first.key.data == prompt_of(("user", H[1]))
    assert second.key.data == prompt_of(("user", H[1]), ("assistant", G[1]), ("user", H2[1]))
    assert second.key.tokens()[: len(whole(first))] == whole(first)
    assert (first.rid, second.rid, first.session_id) == ("a/1", "a/2", "a")
    assert first.recorded_output_tokens == len(ENCODER.text(G[1]) + ENCODER.end) // 4


@pytest.mark.parametrize("keys", [("from", "value"), ("role", "content"), ("role", "text")])
@pytest.mark.parametrize("top", ["conversations", "conversation", "messages", "items"])
@pytest.mark.parametrize("lines", [True, False])
def test_keys_and_layout_may_differ(
    tmp_path: Path, keys: tuple[str, str], top: str, lines: bool
) -> None:
    messages = [dict(zip(keys, m, strict=True)) for m in (H, G, H2, G2)]
    rows = [{"id": "a", top: messages}, {"id": "b", top: messages}]
    path = tmp_path / "x"
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows))
    trace = open_trace(path)
    assert trace.format == "sharegpt"
    assert len(list(trace)) == 4


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        ("human", "gpt"),
        ("user", "assistant"),
        ("User", " chatgpt"),
        ("human", "bing"),
        ("human", "bard"),
        ("human", "function_call"),
    ],
)
def test_roles_are_known_by_name(tmp_path: Path, ask: str, answer: str) -> None:
    (request,) = trace_of(tmp_path, [{"conversations": said((ask, "Q"), (answer, "A"))}])
    assert request.key.data == prompt_of(("user", "Q"))
    assert request.recorded_output_ids


def test_system_tool_and_observation_are_part_of_the_prompt(tmp_path: Path) -> None:
    messages = said(
        ("system", "Be kind."), H, ("function_call", "f(1)"), ("observation", "2"), ("gpt", "Two.")
    )
    first, second = trace_of(tmp_path, [{"conversations": messages}])
    assert first.key.data == prompt_of(("system", "Be kind."), ("user", H[1]))
    assert second.key.data == prompt_of(
        ("system", "Be kind."), ("user", H[1]), ("assistant", "f(1)"), ("tool", "2")
    )


def test_top_level_system_and_tools_open_the_prompt(tmp_path: Path) -> None:
    rows = [
        {"id": "a_5", "system": "S", "tools": "[]", "conversations": said(H, G)},
        {"id": "a_9", "tools": [{"name": "f"}], "conversations": said(H, G)},
    ]
    first, second = trace_of(tmp_path, rows)
    assert first.key.data == prompt_of(("system", "S"), ("user", H[1]))
    assert second.key.data == prompt_of(("system", '{"name": "f"}'), ("user", H[1]))


def test_odd_role_and_odd_message_are_counted(tmp_path: Path) -> None:
    messages = [*said(("narrator", "Once."), H), "what", *said(G)]
    trace = trace_of(tmp_path, [{"conversations": messages}])
    (request,) = trace
    assert request.key.data == prompt_of(("user", "Once."), ("user", H[1]))
    assert trace.summary.repaired == {
        "unknown role: its text is part of the prompt": 1,
        "message is no object: dropped": 1,
    }


@pytest.mark.parametrize(
    ("messages", "requests", "skipped", "repaired"),
    [
        ([], 0, {"empty conversation": 1}, {}),
        (said(H), 1, {}, {}),
        (said(G), 0, {"answer without a prompt before it": 1}, {}),
        (said(G, H, G2), 1, {"answer without a prompt before it": 1}, {}),
        (said(H, ("gpt", " "), H2, G2), 1, {"empty answer": 1}, {}),
        (said(H, ("gpt", None)), 0, {"empty answer": 1}, {}),
        (said(("human", ""), G), 0, {"answer without a prompt before it": 1}, {"empty": 1}),
        (said(("human", ""), ("human", "\n")), 0, {"empty conversation": 1}, {"empty": 2}),
        (said(H, H2, G2), 1, {}, {}),
        (said(H, G, G2), 2, {}, {"second": 1}),
        (said(H, G, H2), 2, {}, {}),
        (said(("system", "S"), G), 1, {}, {}),
    ],
)
def test_every_answer_is_a_request_or_is_skipped(
    tmp_path: Path,
    messages: list[Any],
    requests: int,
    skipped: dict[str, int],
    repaired: dict[str, int],
) -> None:
    names = {
        "empty": "empty message dropped",
        "second": "answer right after an answer: its prompt ends with the first one",
    }
    good = {"id": "good", "conversations": said(H, G)}
    trace = trace_of(tmp_path, [good, {"id": "x", "conversations": messages}])
    assert len(list(trace)) == 1 + requests
    assert trace.summary.skipped == skipped
    assert trace.summary.repaired == {names[key]: count for key, count in repaired.items()}
    assert trace.summary.records == 2


def test_unanswered_question_is_a_request_without_output(tmp_path: Path) -> None:
    _, last = trace_of(tmp_path, [{"conversations": said(H, G, H2)}])
    assert last.recorded_output_ids is None
    assert last.recorded_output_tokens is None


def test_chunks_of_one_conversation_are_joined(tmp_path: Path) -> None:
    rows = [
        {"id": "ID_0", "conversations": said(H, G, H2)},
        {"id": "ID_3", "conversations": said(G2, H)},
        {"id": "ID_5", "conversations": said(G)},
        {"id": "ID_11", "conversations": said(G, H2, G2)},
    ]
    trace = trace_of(tmp_path, rows)
    requests = list(trace)
    assert [r.rid for r in requests] == ["ID_0/1", "ID_11/1", "ID_0/2", "ID_0/3"]
    assert requests[3].key.data == prompt_of(
        ("user", H[1]), ("assistant", G[1]), ("user", H2[1]), ("assistant", G2[1]), ("user", H[1])
    )
    assert trace.summary.repaired == {"continuation chunk joined to the conversation before it": 2}
    assert trace.summary.skipped == {"answer without a prompt before it": 1}
    assert trace.summary.records == 4


def test_ids_that_count_up_are_no_chunks(tmp_path: Path) -> None:
    rows = [{"id": f"x_{i}", "conversations": said(H)} for i in range(3)]
    assert [r.rid for r in trace_of(tmp_path, rows)] == ["x_0/1", "x_1/1", "x_2/1"]


def test_duplicate_and_missing_ids_get_names(tmp_path: Path) -> None:
    rows = [{"id": "a", "conversations": said(H, G)}] * 2 + [{"conversations": said(H, G)}]
    trace = trace_of(tmp_path, rows)
    assert [r.rid for r in trace] == ["a/1", "a (line 2)/1", "record 3/1"]
    assert trace.summary.repaired == {"name is not unique: renamed": 1}


def test_records_of_another_shape_are_skipped(tmp_path: Path) -> None:
    rows = [{"id": "a", "conversations": said(H, G)}, 5, {"id": "b"}, {"conversations": "x"}]
    trace = trace_of(tmp_path, rows)
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {"not a JSON object": 1, "no list of messages in it": 2}
    with pytest.raises(TraceError, match=r"sharegpt\.json:2: not a JSON object"):
        list(trace_of(tmp_path, rows, strict=True))


def test_cut_file_is_salvaged_and_counted(tmp_path: Path) -> None:
    data = b"".join(sharegpt_json(0, conversations=30))
    path = tmp_path / "cut.json"
    path.write_bytes(data[: len(data) * 2 // 3])
    trace = open_trace(path)
    assert len(list(trace)) > 20
    assert trace.summary.skipped["cut: the file ends inside it"] == 1


def test_turns_interleave_at_the_nominal_rate(tmp_path: Path) -> None:
    rows = [{"id": name, "conversations": said(H, G, H2, G2)} for name in "abc"]
    trace = trace_of(tmp_path, rows, rate_per_s=2.0, think_s=1.0)
    arrivals = [(r.rid, r.arrival_s) for r in trace]
    assert arrivals == [
        ("a/1", 0.0),
        ("b/1", 0.5),
        ("a/2", 1.0),
        ("b/2", 1.5),
        ("c/1", 2.0),
        ("c/2", 3.0),
    ]
    assert trace.assumptions[0] == (
        "rows have no time: one arrives every 0.5 s, turns of a conversation at least 1 s apart"
    )


def test_parts_of_content_are_text_and_pictures_differ(tmp_path: Path) -> None:
    def picture(url: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": url}}]
        return {"conversations": [{"role": "user", "content": parts}]}

    trace = trace_of(tmp_path, [picture("a.png"), picture("b.png"), picture("a.png")])
    keys = [r.key for r in trace]
    assert keys[0] == keys[2] != keys[1]
    assert trace.summary.repaired == {"picture or other media: its digest stands for it": 3}


@pytest.mark.parametrize(
    ("name", "records", "requests"),
    [("sharegpt_dummy.json", 500, 1000), ("sharegpt_toolcall.json.gz", 300, 957)],
)
def test_public_files_are_read_without_loss(
    shared_dir: Path, name: str, records: int, requests: int
) -> None:
    trace = open_trace(shared_dir / "traces" / name)
    last: dict[str | None, list[int]] = {}
    for request in trace:
        before = last.get(request.session_id, [])
        assert request.key.tokens()[: len(before)] == before
        last[request.session_id] = whole(request)
    assert (trace.summary.records, trace.summary.requests) == (records, requests)
    assert not trace.summary.skipped
    assert not trace.summary.repaired
