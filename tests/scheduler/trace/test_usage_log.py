"""A client's requests with the usage that came back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.trace import ReadOptions
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary
from scheduler.trace.usage_log import UsageRow, usage_rows


def usage(prompt: int, cached: int | None) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": 2, "prompt_tokens_details": details}


def read(tmp_path: Path, *rows: object) -> tuple[list[UsageRow], TraceSummary]:
    path = tmp_path / "client.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = TraceSummary()
    return list(usage_rows(Source(path), ReadOptions(), summary)), summary


def test_token_ids_are_the_servers_own(tmp_path: Path) -> None:
    (row,), _ = read(
        tmp_path, {"request": {"prompt": [1, 2, 3]}, "response": {"usage": usage(3, 2)}}
    )
    assert list(row.request.key.tokens()) == [1, 2, 3]
    assert (row.prompt_tokens, row.cached_tokens, row.is_exact) == (3, 2, True)


def test_a_chat_extends_what_was_answered(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    answer = {"role": "assistant", "content": "It is Paris."}
    more = [*chat, answer, {"role": "user", "content": "And of Spain?"}]
    rows, _ = read(
        tmp_path,
        {
            "request": {"messages": chat},
            "response": {"choices": [{"message": answer}], "usage": usage(9, 0)},
        },
        {"body": {"messages": more}, "response": {"body": {"usage": usage(19, 12)}}},
    )
    first, second = (row.request for row in rows)
    assert first.recorded_output_ids
    whole = [*first.key.tokens(), *first.recorded_output_ids]
    assert list(second.key.tokens())[: len(whole)] == whole
    assert not rows[0].is_exact


def test_the_row_itself_may_be_the_request(tmp_path: Path) -> None:
    (row,), _ = read(tmp_path, {"prompt": "Hello there", "usage": usage(3, 0), "custom_id": "x"})
    assert row.request.rid == "x"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "x"}, "no usage"),
        ({"prompt": "x", "usage": usage(3, None)}, "--enable-prompt-tokens-details"),
        ({"prompt": "x", "usage": usage(3, 4)}, "more than the prompt"),
        ({"prompt": "x", "usage": usage(0, 0)}, "below 1"),
        ({"prompt": "x", "usage": usage(3, -1)}, "below 0"),
        ({"prompt": "", "usage": usage(3, 1)}, "prompt is empty"),
        ({"prompt": [], "usage": usage(3, 1)}, "prompt is empty"),
        ({"prompt": [-1], "usage": usage(3, 1)}, "negative"),
        ({"messages": [], "usage": usage(3, 1)}, "messages is empty"),
        ({"usage": usage(3, 1)}, "no messages and no prompt"),
        ([1], "not a JSON object"),
    ],
)
def test_a_row_that_says_nothing_is_skipped(tmp_path: Path, row: object, reason: str) -> None:
    rows, summary = read(tmp_path, row, {"prompt": "x", "usage": usage(3, 1)})
    assert len(rows) == 1
    (told,) = summary.skipped
    assert reason in told


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 50) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["usage", "prompt", "messages", "role", "content", "choices", "message", "body",
                 "prompt_tokens", "prompt_tokens_details", "cached_tokens", "completion_tokens"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)  # fmt: skip


@given(
    st.lists(
        st.fixed_dictionaries(
            {"request": values, "response": values},
            optional={
                "usage": values | st.just(usage(3, 1)),
                "prompt": values,
                "custom_id": values,
            },
        ),
        max_size=3,
    )
)
def test_no_row_makes_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = TraceSummary()
    read = list(usage_rows(Source(path), ReadOptions(), summary))
    assert summary.rows == len(rows) == len(read) + summary.skipped_rows
