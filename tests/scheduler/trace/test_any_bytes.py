"""No bytes make a traceback: a file is read, or TraceError says why not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import ConfigError, TraceError
from scheduler.trace import FORMATS, ReadOptions, open_trace
from tests.scheduler.trace.samples import SAMPLES

FIELDS = [
    "timestamp", "input_length", "output_length", "hash_ids", "chat_id", "radixcache_trace",
    "kind", "page_size", "notes", "rid", "t", "tokens", "text", "block_ids", "after", "keep", "n",
    "max_new", "output_ids", "output_text", "output_tokens", "namespace", "session", "client",
    "priority", "cache_output", "visible_tokens", "max_match_tokens", "samples", "abort_after_s",
    "abort_after_tokens",
    "conversations", "conversation", "messages", "items", "id", "system", "tools", "model",
    "max_tokens", "body", "payload", "text_input", "custom_id", "cache_salt", "prompt_logprobs",
    "conversation_id", "conversation_hash", "hashed_ip",
    "input", "output", "session_id", "user", "output_length", "prompt", "delay", "block_size",
    "block_tokens", "keys", "query_type", "type", "input_len", "output_len", "instance_id",
    "timestamp_us", "timestamp_ns", "token_ids", "ts_str", "tenant", "request_id", "input_toks",
    "input_tok_ids", "output_tok_ids", "arrival_time_ns", "sub_requests", "tool_duration_ns",
    "turns", "prompts", "completions", "role", "texts", "images", "requests", "hash_id_scope",
    "in", "out", "agent_id", "Output Length",
]  # fmt: skip
scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 600)
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["all", "tokens", "blocks", "wide", 10**400, "\ud800", "1e400"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["lora", "extra_key", "cache_salt"]), inner, max_size=2)
    ),
    max_leaves=5,
)
messages = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "from": st.sampled_from(["human", "gpt", "system"]) | scalars,
            "role": st.sampled_from(["user", "assistant", "tool"]) | scalars,
            "value": values,
            "content": values | st.lists(st.fixed_dictionaries({"type": scalars, "text": values})),
            "tool_calls": values,
            "timestamp": scalars | st.sampled_from(["2024-05-01T10:00:00Z", 1.7e12]),
        },
    )
    | scalars,
    max_size=4,
)
talk = st.dictionaries(
    st.sampled_from(["conversations", "conversation", "messages", "items", "body"]),
    messages | st.fixed_dictionaries({"messages": messages, "n": scalars}),
    min_size=1,
    max_size=2,
).flatmap(lambda row: rows.map(lambda more: more | row))
rows = st.dictionaries(st.sampled_from(FIELDS), values, max_size=12)
likely = st.fixed_dictionaries(
    {"timestamp": scalars, "input_length": scalars, "output_length": scalars, "hash_ids": values}
) | st.fixed_dictionaries(
    {"t": scalars},
    optional={name: values for name in FIELDS if name != "t"},
)
nested = st.fixed_dictionaries(
    {"id": scalars, "block_size": st.just(64) | scalars},
    optional={"timestamp": scalars, "arrival_time_ns": scalars, "hash_id_scope": scalars},
).flatmap(
    lambda row: st.sampled_from(["requests", "sub_requests", "turns", "prompts"]).flatmap(
        lambda name: st.lists(
            st.fixed_dictionaries(
                {"t": scalars, "in": scalars, "hash_ids": st.lists(scalars, max_size=3)},
                optional={"out": scalars, "requests": values, "text": values, "delay": scalars},
            )
            | rows
            | scalars,
            max_size=3,
        ).map(lambda inner: row | {name: inner})
    )
)
starts = st.sampled_from(
    [
        b"",
        b'{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1]}\n',
        b'{"radixcache_trace":1}\n',
        b'{"radixcache_trace":1,"kind":"wide"}\n{"t":0,"tokens":[1],"session":"s"}\n',
        b'{"radixcache_trace":1,"kind":"blocks","page_size":16}\n',
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08\x00",
        b'[{"id":"a_0","conversations":[{"from":"human","value":"Hi"}]},',
        b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}\n',
        b'{"timestamp":1,"input":"Hi","output":"x","session_id":"s"}\n',
        b'{"conversation_id":"c","model":"m","conversation":[{"role":"user","content":"Hi"}]}\n',
        b"PAR1",
        b"request_json,response_json,model_name,status_code,timestamp\n",
        b'request_json,status_code,timestamp\n"{""prompt"":""Hi""}",200,5\n"',
        *(b"\n".join(sample.lines()) + b"\n" for sample in SAMPLES),
    ]
)


def read(path: Path, data: bytes, format: str | None, strict: bool) -> None:
    path.write_bytes(data)
    refused = ""
    try:
        trace = open_trace(path, format=format, options=ReadOptions(strict=strict))
        last_s = 0.0
        for request in trace:
            assert request.arrival_s >= last_s
            last_s = request.arrival_s
            assert request.prompt_tokens >= 1
            request.rid.encode()
        assert trace.summary.rows == trace.summary.requests + trace.summary.skipped_rows
    except (ConfigError, TraceError) as error:
        refused = str(error)
    assert "\n" not in refused


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "trace"


def test_number_of_5000_digits_is_refused(path: Path) -> None:
    for field in (b"timestamp", b"input_length", b"t", b"session", b"n"):
        row = b'{"timestamp":0,"input_length":1,"hash_ids":[1],"tokens":[1],"' + field + b'":%s}'
        for start in (b"", b'{"radixcache_trace":1}\n'):
            read(path, start + row % (b"9" * 5000), None, False)


formats = st.none() | st.sampled_from([form.name for form in FORMATS])


@given(start=starts, data=st.binary(max_size=200), format=formats, strict=st.booleans())
def test_any_bytes_are_read_or_refused(
    path: Path, start: bytes, data: bytes, format: str | None, strict: bool
) -> None:
    read(path, start + data, format, strict)


@given(
    start=starts,
    made=st.lists(rows | likely | talk | nested | values, max_size=6),
    array=st.booleans(),
    format=formats,
    packed=st.booleans(),
    cut=st.integers(0, 40),
)
def test_any_rows_are_read_or_refused(
    path: Path,
    start: bytes,
    made: list[Any],
    array: bool,
    format: str | None,
    packed: bool,
    cut: int,
) -> None:
    lines = [json.dumps(row).encode() for row in made]
    data = b"[" + b",".join(lines) + b"]" if array else start + b"\n".join(lines)
    data = gzip.compress(data) if packed else data
    read(path, data[: max(0, len(data) - cut)], format, False)


@given(
    sample=st.sampled_from(SAMPLES),
    format=formats,
    strict=st.booleans(),
    flips=st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3)), max_size=6),
)
def test_damaged_samples_are_read_or_refused(
    path: Path, sample: Any, format: str | None, strict: bool, flips: list[tuple[int, bytes]]
) -> None:
    data = bytearray(b"\n".join(sample.lines()))
    for place, new in flips:
        start = place % len(data)
        data[start : start + len(new)] = new
    read(path, bytes(data), format, strict)
