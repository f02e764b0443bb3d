"""PrefixKey: packing, namespaces, slices, growth, items, pairs, block ids."""

from __future__ import annotations

from array import array
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import (
    DEFAULT_NAMESPACE,
    InvalidInputError,
    KeyKind,
    KeyKindError,
    Namespace,
    PrefixKey,
    TokenError,
)

TOKENS = [1, 2, 0, 2**31 - 1, 7]
INT_DTYPES = ["i4", "u4", "i8", "u8", ">i4", ">u8"]


class FakeTensor:
    """Looks like torch: no buffer, but ``cpu()`` and ``numpy()``."""

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def cpu(self) -> FakeTensor:
        return self

    def numpy(self) -> object:
        return np.array(self.values, dtype=np.int64)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        iter,
        lambda t: array("q", t),
        lambda t: array("I", t),
        lambda t: [np.int64(x) for x in t],
        FakeTensor,
        *[lambda t, d=d: np.array(t, dtype=d) for d in INT_DTYPES],
        lambda t: np.repeat(np.array(t, dtype="i8"), 2)[::2],
        lambda t: np.repeat(np.array(t, dtype="i4"), 3)[::3],
        lambda t: np.array(t[::-1], dtype="u8")[::-1],
    ],
)
def test_every_source_packs_to_the_same_bytes(make: object, wide: bool) -> None:
    key = PrefixKey(make(TOKENS), wide=wide)
    assert key.data == b"".join(t.to_bytes(8 if wide else 4, "little") for t in TOKENS)
    assert key.tokens() == TOKENS
    assert list(key) == TOKENS
    assert len(key) == 5


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", ">i2"])
def test_small_dtypes_pack(dtype: str) -> None:
    assert PrefixKey(np.array([1, 2, 127], dtype=dtype)).tokens() == [1, 2, 127]


@pytest.mark.parametrize("make", [list, lambda t: array("q", t), lambda t: np.array(t, dtype="i4")])
def test_no_tokens_make_an_empty_key(make: object) -> None:
    assert len(PrefixKey(make([]))) == 0


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([1, True], "token 1 is True"),
        ([1, 2.0], "token 1 is 2.0"),
        ([0, "a"], "token 1 is 'a'"),
        ([5, -1], "token 1 is -1"),
        ([5, 2**32], "token 1 is 4294967296"),
        ([5, None], "token 1 is None"),
        (array("q", [1, -2]), "token 1 is -2"),
        (array("i", [1, -2]), "token 1 is -2"),
        (np.array([1, 2**32]), "token 1 is 4294967296"),
        (np.array([3, -1], dtype="i2"), "token 1 is -1"),
        (np.array([3, -1], dtype=">i8"), "token 1 is -1"),
        (np.array([1.0, 2.0]), "format 'd'"),
        (np.array([True]), r"format '\?'"),
        (np.array([[1]]), "2-dimensional"),
        (np.array([1, 2], dtype=object), "format 'O'"),
        (b"abcd", "a bytes"),
        (bytearray(b"a"), "a bytearray"),
        ("text", "a str"),
        (None, "a NoneType"),
        (7, "a int"),
    ],
)
def test_what_is_no_token_id_is_named(tokens: object, words: str) -> None:
    with pytest.raises(TokenError, match=words):
        PrefixKey(tokens)


@pytest.mark.parametrize("make", [list, lambda t: np.array(t, dtype="u8")])
def test_wide_ids_end_at_two_to_the_63(make: object) -> None:
    assert PrefixKey(make([2**63 - 1]), wide=True).tokens() == [2**63 - 1]
    with pytest.raises(TokenError, match=f"token 1 is {2**63}"):
        PrefixKey(make([0, 2**63]), wide=True)
    with pytest.raises(TokenError, match="wide=True"):
        PrefixKey(make([2**32]))


def test_a_list_of_large_and_negative_wide_ids_is_refused() -> None:
    for bad in (-1, 2**64):
        with pytest.raises(TokenError, match=f"token 0 is {bad}"):
            PrefixKey([bad], wide=True)


def test_extend_keeps_the_prefix_and_refuses_whole() -> None:
    key = PrefixKey([1, 2])
    before = key.data
    key.extend(np.array([3, 4]))
    assert key.tokens() == [1, 2, 3, 4]
    assert key.data.startswith(before)
    with pytest.raises(TokenError):
        key.extend([5, -1])
    assert key.tokens() == [1, 2, 3, 4]


def test_slices_keep_namespace_and_follow_sequence_rules() -> None:
    space = Namespace.of("x", cache_salt="s")
    key = PrefixKey(range(10), space)
    assert key[3].tokens() == [3]
    assert key[-1].tokens() == [9]
    assert key[2:5].tokens() == [2, 3, 4]
    assert key[5:2].tokens() == []
    assert key[4:].tokens() == [4, 5, 6, 7, 8, 9]
    assert key[2:5].namespace == space
    for bad in (10, -11):
        with pytest.raises(IndexError):
            key[bad]
    with pytest.raises(ValueError, match="step 2"):
        key[::2]


def test_repr_shows_the_start() -> None:
    assert repr(PrefixKey(range(8))) == "PrefixKey(tokens, 8 tokens: [0, 1, 2, 3, 4, 5, ...])"
    assert "Namespace" in repr(PrefixKey([1], Namespace.of("a")))


def test_equality_is_by_value_and_keys_are_not_hashable() -> None:
    assert PrefixKey([1, 2]) == PrefixKey((1, 2))
    assert PrefixKey([1]) != PrefixKey([1], wide=True)
    assert PrefixKey([1]) != PrefixKey([1], Namespace.of(""))
    assert PrefixKey([1]) != [1]
    with pytest.raises(TypeError):
        hash(PrefixKey([1]))


def test_namespaces_are_injective_and_an_empty_salt_is_none() -> None:
    assert PrefixKey([1], Namespace(cache_salt="")).namespace == DEFAULT_NAMESPACE
    assert Namespace.of(cache_salt="") == DEFAULT_NAMESPACE
    assert (
        len({Namespace.of(), Namespace.of(""), Namespace.of(None, ""), Namespace.of("", "")}) == 4
    )
    assert Namespace.of("c", None, "ab") != Namespace.of("bc", None, "a")
    assert Namespace.of("L1") != Namespace.of(None, "L1")
    assert Namespace.of(None, ("t", 1)) != Namespace.of(None, ("t", 2))
    assert Namespace.of(None, "t") != Namespace.of(None, ("t",))


@pytest.mark.parametrize(
    "space",
    [
        Namespace(1),
        Namespace(lora=1),
        Namespace(lora=("t", True)),
        Namespace(lora=("t", 1.0)),
        Namespace(lora=["t"]),
        Namespace(cache_salt=b"x"),
        ("a", None, None),
        None,
    ],
)
def test_a_namespace_of_other_types_is_refused(space: object) -> None:
    with pytest.raises(InvalidInputError):
        PrefixKey([1], space)


def test_items_share_by_digest_only() -> None:
    def units(digest: bytes, wide: bool = True) -> list[int]:
        return PrefixKey([1, 0, 0, 0, 2], wide=wide, items=[(1, 3, digest)]).tokens()

    assert units(b"cat") == units(b"cat")
    assert units(b"cat")[0] == 1
    assert units(b"cat")[4] == 2
    assert not set(units(b"cat")[1:4]) & set(units(b"dog")[1:4])
    assert all(unit >= 2**63 for unit in units(b"cat")[1:4])
    assert units(b"cat", wide=False)[1:4] != units(b"dog", wide=False)[1:4]


def test_a_shorter_item_is_a_prefix_of_a_longer_one() -> None:
    short = PrefixKey([0] * 4, wide=True, items=[(0, 4, b"d")])
    long = PrefixKey([0] * 9, wide=True, items=[(0, 9, b"d")])
    assert short.common_prefix_tokens(long) == 4


@pytest.mark.parametrize(
    "items",
    [
        [(-1, 2, b"d")],
        [(0, 0, b"d")],
        [(3, 3, b"d")],
        [(0, 3, b"a"), (2, 1, b"b")],
        [(2, 1, b"a"), (0, 3, b"b")],
        [(0, 1, b"")],
        [(0, 1, "text")],
        [(0, 1)],
        [(0.0, 1, b"d")],
        [(0, True, b"d")],
        ["abc"],
    ],
)
def test_wrong_items_are_refused(items: list[tuple[int, int, bytes]]) -> None:
    with pytest.raises(TokenError):
        PrefixKey([0] * 5, items=items)


@given(st.lists(st.integers(0, 2**31 - 1), max_size=12), st.integers(0, 12))
def test_pairs_are_neighbours_however_they_were_extended(tokens: list[int], cut: int) -> None:
    key = PrefixKey.from_pairs(tokens[:cut])
    key.extend(tokens[cut:])
    assert key.tokens() == [a + (b << 32) for a, b in pairwise(tokens)]
    assert key == PrefixKey.from_pairs(tokens)
    assert key.kind is KeyKind.WIDE
    for stop in range(len(key) + 1):
        part = key[:stop]
        part.extend(tokens[stop + 1 :])
        assert part == key


def test_pair_tokens_end_at_two_to_the_31() -> None:
    with pytest.raises(TokenError, match=f"token 1 is {2**31}"):
        PrefixKey.from_pairs([0, 2**31])
    with pytest.raises(TokenError, match="token 1"):
        PrefixKey.from_pairs([0, -1])


def test_block_ids_count_a_page_each() -> None:
    key = PrefixKey.from_block_ids([5, 6, 2**63 - 1], 512)
    assert len(key) == 1536
    assert key.tokens() == [5, 6, 2**63 - 1]
    assert key[512:1024].tokens() == [6]
    with pytest.raises(InvalidInputError, match="multiples of its page size"):
        key[1:512]
    with pytest.raises(InvalidInputError):
        key[0]
    other = PrefixKey.from_block_ids([5, 7], 512)
    assert key.common_prefix_tokens(other) == 512
    with pytest.raises(KeyKindError):
        key.common_prefix_tokens(PrefixKey.from_block_ids([5], 256))
    for bad in (0, -1, 1.0, True):
        with pytest.raises(InvalidInputError):
            PrefixKey.from_block_ids([1], bad)


def test_packed_bytes_make_the_same_key() -> None:
    space = Namespace.of("a")
    for key in (PrefixKey([1, 2], space), PrefixKey([1], space, wide=True)):
        assert PrefixKey.from_packed(key.data, key.kind, key.namespace) == key
    blocks = PrefixKey.from_block_ids([1, 2], 16)
    assert PrefixKey.from_packed(blocks.data, KeyKind.BLOCKS, page_size=16) == blocks
    with pytest.raises(InvalidInputError, match="page_size"):
        PrefixKey.from_packed(blocks.data, KeyKind.BLOCKS)
    with pytest.raises(InvalidInputError, match="whole 4-byte units"):
        PrefixKey.from_packed(b"abcde", KeyKind.TOKENS)
    for wrong in (bytearray(8), None):
        with pytest.raises(InvalidInputError, match=type(wrong).__name__):
            PrefixKey.from_packed(wrong, KeyKind.TOKENS)
    with pytest.raises(InvalidInputError, match="KeyKind"):
        PrefixKey.from_packed(b"", "tokens")
    with pytest.raises(InvalidInputError, match="page_size"):
        PrefixKey.from_block_ids([1], 2**31)


@pytest.mark.parametrize("page_size", [1, 4, 64])
@pytest.mark.parametrize("at", [0, 1, 2, 63, 64, 65, 127, 128, 511, 512, 513, 1234, 1999, 2000])
def test_common_prefix_equals_the_naive_loop(at: int, page_size: int) -> None:
    one = list(range(2000))
    two = [*one[:at], *(9_999 for _ in one[at:])]
    naive = next((i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b), 2000)
    found = PrefixKey(one).common_prefix_tokens(PrefixKey(two), page_size)
    assert found == naive // page_size * page_size


def test_common_prefix_of_prefixes_and_of_nothing() -> None:
    key = PrefixKey([1, 2, 3, 4, 5, 6])
    assert key.common_prefix_tokens(PrefixKey([1, 2, 3])) == 3
    assert PrefixKey([1, 2, 3]).common_prefix_tokens(key) == 3
    assert key.common_prefix_tokens(key) == 6
    assert key.common_prefix_tokens(key, 4) == 4
    assert key.common_prefix_tokens(PrefixKey([])) == 0
    assert PrefixKey([9]).common_prefix_tokens(key) == 0


def test_keys_of_two_namespaces_or_kinds_are_not_compared() -> None:
    key = PrefixKey([1])
    with pytest.raises(ValueError, match="never share"):
        key.common_prefix_tokens(PrefixKey([1], Namespace.of("a")))
    with pytest.raises(KeyKindError):
        key.common_prefix_tokens(PrefixKey([1], wide=True))
