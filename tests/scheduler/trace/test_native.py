"""The project's own JSONL: every field, text, sessions, faults of rows and header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radixcache import KeyKind, Namespace
from radixcache.errors import TraceError
from scheduler.trace import PieceTokenizer, ReadOptions, Trace, open_trace

NO_NAMESPACE = "namespace is no object of extra_key, lora, cache_salt"
NO_LORA = "lora is neither text nor a list of text and whole numbers"
NO_ROW_BEFORE = "after does not name the session's row before"
HEADER = {"radixcache_trace": 1, "kind": "tokens"}


def written(folder: Path, rows: list[Any], header: Any = HEADER, **options: Any) -> Trace:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [header, *rows]))
    return open_trace(path, options=ReadOptions(**options))


def test_every_field_is_read(tmp_path: Path) -> None:
    row = {
        "rid": "r",
        "t": 1.5,
        "tokens": [5, 6],
        "max_new": 7,
        "output_ids": [8, 9],
        "namespace": {"extra_key": "", "lora": ["a", 1], "cache_salt": ""},
        "session": "s",
        "client": "c",
        "priority": -2,
        "cache_output": "visible",
        "visible_tokens": 1,
        "max_match_tokens": 0,
        "samples": 3,
        "abort_after_s": 2.5,
        "abort_after_tokens": 4,
    }
    (request,) = written(tmp_path, [row])
    assert (request.rid, request.arrival_s, request.max_new_tokens) == ("r", 1.5, 7)
    assert request.key.tokens() == [5, 6]
    assert request.key.namespace == Namespace("", ("a", 1), None)
    assert (request.session_id, request.client_id, request.priority) == ("s", "c", -2)
    assert (request.cache_output, request.visible_tokens) == ("visible", 1)
    assert request.max_match_tokens == 0
    assert (request.samples, request.abort_after_s) == (3, 2.5)
    assert request.abort_after_tokens == 4
    assert request.recorded_output_ids == (8, 9)
    assert request.recorded_output_tokens == 2


def test_text_goes_through_the_tokenizer(tmp_path: Path) -> None:
    trace = written(tmp_path, [{"t": 0, "text": "Who are you?", "output_text": "A cache."}])
    (request,) = trace
    encode = PieceTokenizer().encode
    assert request.key.tokens() == encode("Who are you?")
    assert request.recorded_output_ids == tuple(encode("A cache."))
    assert trace.assumptions == ("text is cut into tokens by the tokenizer 'pieces'",)


def test_rows_without_time_arrive_at_the_nominal_rate(tmp_path: Path) -> None:
    trace = written(tmp_path, [{"tokens": [1]}, {"tokens": [2], "t": 99}], rate_per_s=4.0)
    assert [r.arrival_s for r in trace] == [0.0, 0.25]
    assert trace.assumptions == ("rows have no time: one arrives every 0.25 s",)


def test_arrivals_count_from_the_start_not_from_the_first_row(tmp_path: Path) -> None:
    assert [r.arrival_s for r in written(tmp_path, [{"t": 2.5, "tokens": [1]}])] == [2.5]


def test_turn_goes_on_from_the_row_before(tmp_path: Path) -> None:
    rows = [
        {"rid": "a", "t": 0, "tokens": [1, 2], "output_ids": [3], "session": "s"},
        {"rid": "x", "t": 0, "tokens": [7], "session": "other"},
        {"rid": "b", "t": 1, "after": "a", "keep": 3, "tokens": [4], "session": "s"},
        {"rid": "c", "t": 2, "after": "b", "tokens": [5], "session": "s"},
        {"rid": "d", "t": 3, "after": "c", "keep": 2, "tokens": [9], "session": "s"},
    ]
    keys = {r.rid: r.key.tokens() for r in written(tmp_path, rows)}
    assert keys["b"] == [1, 2, 3, 4]
    assert keys["c"] == [1, 2, 3, 4, 5]
    assert keys["d"] == [1, 2, 9]


def test_turn_after_a_skipped_row_is_skipped_too(tmp_path: Path) -> None:
    rows = [
        {"rid": "a", "t": 0, "tokens": [1], "session": "s"},
        {"rid": "b", "t": -1, "after": "a", "tokens": [2], "session": "s"},
        {"rid": "c", "t": 2, "after": "b", "tokens": [3], "session": "s"},
    ]
    trace = written(tmp_path, rows)
    assert [r.rid for r in trace] == ["a"]
    assert trace.summary.skipped == {
        "t is negative": 1,
        "after does not name the session's row before": 1,
    }


def test_name_that_is_not_unique_is_renamed(tmp_path: Path) -> None:
    trace = written(tmp_path, [{"rid": "a", "t": 0, "tokens": [1]}] * 2)
    assert [r.rid for r in trace] == ["a", "a (line 3)"]
    assert trace.summary.repaired == {"name is not unique: renamed": 1}


def test_block_ids_know_their_page_size(tmp_path: Path) -> None:
    header = {"radixcache_trace": 1, "kind": "blocks", "page_size": 16}
    rows = [{"t": 0, "block_ids": [1, 2], "n": 20}, {"t": 1, "block_ids": [1], "n": 20}]
    trace = written(tmp_path, rows, header)
    assert (trace.kind, trace.page_size) == (KeyKind.BLOCKS, 16)
    assert [(r.key.tokens(), r.prompt_tokens) for r in trace] == [([1], 20), ([1], 20)]
    first, _ = written(tmp_path, rows, header, partial_block=True)
    assert first.key.tokens() == [1, 2]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({}, "tokens is missing"),
        ({"tokens": []}, "the prompt is empty"),
        ({"text": ""}, "the prompt is empty"),
        ({"text": 5}, "text is no text"),
        ({"tokens": [1 << 32]}, "tokens holds an id that is negative or not below 2**32"),
        ({"tokens": [1], "n": 2}, "n is not the number of tokens"),
        ({"tokens": [1], "max_new": 0}, "max_new is below 1"),
        ({"tokens": [1], "samples": 0}, "samples is below 1"),
        ({"tokens": [1], "samples": 1025}, "samples is out of range"),
        ({"tokens": [1], "abort_after_s": -1}, "abort_after_s is negative"),
        ({"tokens": [1], "abort_after_tokens": 0}, "abort_after_tokens is below 1"),
        ({"tokens": [1], "priority": 1.5}, "priority is no whole number"),
        ({"tokens": [1], "cache_output": "some"}, "cache_output is not all, none or visible"),
        ({"tokens": [1], "namespace": "x"}, NO_NAMESPACE),
        ({"tokens": [1], "namespace": {"lora": [None]}}, NO_LORA),
        ({"tokens": [1], "session": True}, "session is neither text nor a whole number"),
        ({"tokens": [1], "after": "zz", "session": "s"}, NO_ROW_BEFORE),
    ],
)
def test_bad_row_is_skipped_with_its_reason(tmp_path: Path, bad: Any, reason: str) -> None:
    trace = written(tmp_path, [{"t": 0, "tokens": [1]}, {"t": 0, **bad}])
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {reason: 1}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"radixcache_trace": 2}, "is version 2 of the format, this reads 1"),
        ({"radixcache_trace": 1, "kind": "words"}, "kind 'words' is none of tokens, wide, blocks"),
        ({"radixcache_trace": 1, "kind": []}, "kind \\[\\] is none of"),
        ({"radixcache_trace": 1, "kind": "blocks"}, "page_size None of block ids"),
    ],
)
def test_header_that_says_something_unknown_is_refused(
    tmp_path: Path, header: Any, message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        written(tmp_path, [{"t": 0, "tokens": [1]}], header)
