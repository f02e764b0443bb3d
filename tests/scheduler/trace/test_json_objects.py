"""The splitter of JSON arrays: any chunks, any damage, bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.trace import json_objects
from scheduler.trace.json_objects import closed_early, is_object_stream, split_objects

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('{}[]",\\:x é')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text(st.sampled_from('a"{\\'), max_size=3), values, max_size=3)


def in_chunks(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def split(data: bytes, size: int = 7) -> list[tuple[int, bytes, bool]]:
    return list(split_objects(in_chunks(data, size)))


@given(
    made=st.lists(objects, max_size=4),
    indent=st.none() | st.just(2),
    size=st.integers(1, 40),
    array=st.booleans(),
)
def test_objects_come_out_whole(
    made: list[Any], indent: int | None, size: int, array: bool
) -> None:
    if array:
        data = json.dumps(made, indent=indent, ensure_ascii=False).encode()
    else:
        data = "\n".join(json.dumps(one, indent=indent) for one in made).encode()
    found = split(data, size)
    assert [json.loads(part) for _, part, _ in found] == made
    assert [number for number, _, _ in found] == list(range(1, len(made) + 1))
    assert all(whole for _, _, whole in found)


@given(data=st.binary(max_size=60) | st.text(st.sampled_from('[]{}",\\ a1')).map(str.encode))
def test_any_bytes_end(data: bytes) -> None:
    numbers = [number for number, part, _ in split(data, 5) if part]
    assert numbers == list(range(1, len(numbers) + 1))


def test_what_is_no_object_is_given_too() -> None:
    found = split(b'[1, "a,b", {"x":1}, [2, {"y":3}], null ,]')
    assert [part for _, part, _ in found] == [
        b"1",
        b'"a,b"',
        b'{"x":1}',
        b'[2, {"y":3}]',
        b"null",
    ]


def test_arrays_may_follow_each_other() -> None:
    assert [part for _, part, _ in split(b'[{"a":1}]\n[{"a":2}]')] == [b'{"a":1}', b'{"a":2}']


def test_cut_object_is_given_as_not_whole() -> None:
    assert split(b'[{"id":1},{"id":2,"x":[{"y')[-1] == (2, b'{"id":2,"x":[{"y', False)


def test_reading_goes_on_after_a_damaged_object() -> None:
    data = b'[{"id":1,"m":[{"a":1}]},{"id":2,"m":"lost quote},{"id" : 3},{"id":4}]'
    found = [(part, whole) for _, part, whole in split(data)]
    assert found[0] == (b'{"id":1,"m":[{"a":1}]}', True)
    assert found[1][1] is False
    assert found[2:] == [(b'{"id" : 3}', True), (b'{"id":4}', True)]


def test_too_large_object_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_objects, "MAX_LINE_BYTES", 100)
    data = b'[{"id":1},{"id":2,"x":"' + b"y" * 1000 + b'"},{"id":3}]'
    found = split(data)
    assert [whole for _, _, whole in found] == [True, False, True]
    assert len(found[1][1]) < 300


def test_memory_is_that_of_one_object() -> None:
    one = json.dumps({"id": 1, "m": [{"from": "human", "value": 'say "{" ' * 50}]}).encode()
    splitter = json_objects._Splitter(in_chunks(b"[" + one + (b"," + one) * 2000 + b"]", 4096))
    largest = 0
    for _, part, _ in splitter.elements():
        assert part == one
        largest = max(largest, len(splitter.buffer))
    assert largest < 4096 + 2 * len(one)


def test_bytes_scanned_grow_linearly_with_a_long_string() -> None:
    read: list[int] = []

    def chunks() -> Iterator[bytes]:
        for chunk in in_chunks(b'[{"x":"' + b"y" * 200_000 + b'"}]', 100):
            read.append(len(chunk))
            yield chunk

    splitter = json_objects._Splitter(chunks())
    rounds = 0
    more = splitter._more

    def counted() -> bool:
        nonlocal rounds
        rounds += 1
        return more()

    splitter_more = pytest.MonkeyPatch()
    splitter_more.setattr(json_objects._Splitter, "_more", lambda self: counted())
    try:
        assert len(list(splitter.elements())) == 1
    finally:
        splitter_more.undo()
    assert rounds < 30 < len(read)


def test_array_and_loose_objects_are_told_from_lines() -> None:
    assert is_object_stream(b" \n[{")
    assert is_object_stream(b'{\n  "a": 1\n}')
    assert not is_object_stream(b'{"a":1}\r\n{"a":2}')
    assert not is_object_stream(b"a,b\n1,2")


@given(value=objects, indent=st.none() | st.just(1), cut=st.integers(0, 400))
def test_cut_object_is_closed_to_json_that_begins_it(
    value: dict[str, Any], indent: int | None, cut: int
) -> None:
    data = json.dumps(value, indent=indent).encode()
    found = closed_early(data[:cut])
    if found is not None:
        made = json.loads(found)
        assert list(made) == list(value)[: len(made)]
