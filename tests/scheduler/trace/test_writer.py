"""Written traces read back equal, and the same requests give the same bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace, PrefixKey
from radixcache.errors import InvalidInputError, KeyKindError
from scheduler.request import Request
from scheduler.trace import ReadOptions, chat, few_shot, open_trace, trace_lines, write_trace

names = st.text(max_size=4).map(lambda text: text.encode(errors="replace").decode())
namespaces = st.builds(
    Namespace.of, st.none() | names, st.none() | names | st.tuples(names, st.integers(0, 9))
)
tokens = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6)


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    made = []
    time_s = 0.0
    for index in range(draw(st.integers(1, 6))):
        time_s += draw(st.floats(0, 9))
        output = draw(st.none() | tokens.map(tuple))
        key = PrefixKey(draw(tokens), draw(namespaces))
        made.append(
            Request(
                rid=f"r{index}",
                key=key,
                prompt_tokens=len(key),
                max_new_tokens=draw(st.integers(1, 99)),
                arrival_s=time_s,
                priority=draw(st.integers(-3, 3)),
                client_id=draw(st.none() | names),
                session_id=draw(st.none() | st.sampled_from("st")),
                cache_output=draw(st.sampled_from(["all", "none", "visible"])),
                visible_tokens=draw(st.none() | st.integers(0, 9)),
                max_match_tokens=draw(st.none() | st.integers(0, 9)),
                samples=draw(st.integers(1, 3)),
                abort_after_s=draw(st.none() | st.floats(0, 9)),
                abort_after_tokens=draw(st.none() | st.integers(1, 9)),
                recorded_output_tokens=None if output is None else len(output),
                recorded_output_ids=output,
            )
        )
    return made


@given(made=requests())
def test_written_requests_read_back_equal(made: list[Request], tmp_path_factory: object) -> None:
    path = tmp_path_factory.getbasetemp() / "round.jsonl.gz"  # type: ignore[attr-defined]
    assert write_trace(made, path) == len(made)
    assert list(open_trace(path)) == made


def test_wide_and_pair_and_picture_keys_read_back_equal(tmp_path: Path) -> None:
    keys = [
        PrefixKey([2**62, 5], wide=True),
        PrefixKey([1, 0, 0], wide=True, items=[(1, 2, b"picture")]),
        PrefixKey.from_pairs([1, 2, 3]),
    ]
    made = [
        Request(rid=str(i), key=key, prompt_tokens=3 if i == 2 else len(key), max_new_tokens=4)
        for i, key in enumerate(keys)
    ]
    write_trace(made, tmp_path / "wide.jsonl")
    back = list(open_trace(tmp_path / "wide.jsonl"))
    assert [r.key.data for r in back] == [key.data for key in keys]
    assert [r.prompt_tokens for r in back] == [2, 3, 3]


def test_block_ids_read_back_equal(tmp_path: Path) -> None:
    made = [
        Request(
            rid="a",
            key=PrefixKey.from_block_ids([2**63 - 1, 4], 512),
            prompt_tokens=700,
            max_new_tokens=4,
            recorded_output_tokens=3,
        )
    ]
    write_trace(made, tmp_path / "blocks.jsonl")
    options = ReadOptions(partial_block=True)
    assert list(open_trace(tmp_path / "blocks.jsonl", options=options)) == made


def test_packed_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    made = list(chat(3, sessions=5))
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_trace(made, tmp_path / name, notes=["made by hand"])
    data = (tmp_path / "a.jsonl.gz").read_bytes()
    assert data == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress(data) == b"".join(trace_lines(made, notes=["made by hand"]))
    assert open_trace(tmp_path / "a.jsonl.gz").assumptions == ("made by hand",)


def test_turns_are_written_as_what_they_add(tmp_path: Path) -> None:
    made = list(chat(3, sessions=5))
    size_tokens = sum(len(line.split(b",")) for line in trace_lines(made))
    added = sum(r.prompt_tokens + len(r.recorded_output_ids or ()) for r in made)
    assert size_tokens < added


def test_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    made = list(few_shot(1, requests=2))
    mixed = [
        *made,
        Request(rid="w", key=PrefixKey([1], wide=True), prompt_tokens=1, max_new_tokens=1),
    ]
    with pytest.raises(KeyKindError, match="a trace holds one kind"):
        write_trace(mixed, tmp_path / "a.jsonl")
    with pytest.raises(InvalidInputError, match="there is no request to write"):
        write_trace([], tmp_path / "a.jsonl")
    for folder in (tmp_path / "absent", Path("/dev/null")):
        with pytest.raises(InvalidInputError, match="cannot be written"):
            write_trace(made, folder / "a.jsonl")
    for no_file in (tmp_path, ""):
        with pytest.raises(InvalidInputError, match="is no file name"):
            write_trace(made, no_file)
    assert not list(tmp_path.iterdir())
