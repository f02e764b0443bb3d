"""Quoting: text where it is known, ids where not."""

from __future__ import annotations

import pytest

from radixcache import KeyKind, PrefixKey
from scheduler.trace import PieceTokenizer
from scheduler.trace.quoting import Quoter


def packed(text: str, tokenizer: PieceTokenizer | None = None) -> bytes:
    return PrefixKey((tokenizer or PieceTokenizer()).encode(text)).data


@pytest.mark.parametrize("text", ["10:32:07", "2026-11-30T10:32:07Z", "[42] ", "", "#7/12"])
def test_numbers_dates_and_times_are_always_known(text: str) -> None:
    assert Quoter().quote(packed(text)) == f'"{text}"'


def test_words_are_known_to_the_tokenizer_that_read_them() -> None:
    tokenizer = PieceTokenizer()
    data = packed('Say "hi",\nplease.', tokenizer)
    assert Quoter(tokenizer).quote(data) == '"Say \\"hi\\",\\nplease."'
    assert Quoter().quote(data).startswith("token ids ")


def test_a_long_text_is_cut() -> None:
    assert len(Quoter().quote(packed("1234567890" * 20))) < 70
    assert Quoter().quote(PrefixKey(range(9)).data) == "token ids 0, 1, 2, 3, 4, 5, ..."


def test_block_ids_are_no_text() -> None:
    key = PrefixKey.from_block_ids([1, 2], 16)
    assert Quoter().quote(key.data, key.kind) == "block ids 1, 2"
    assert Quoter().quote_end(key.data, key.kind) == ""


def test_the_end_is_quoted_as_far_as_it_is_known() -> None:
    words = packed("Unknown words. ")
    assert Quoter().quote_end(words + packed("2026-11-30 10:")) == '". 2026-11-30 10:"'
    assert Quoter().quote_end(PrefixKey([1, 2]).data) == ""
    assert Quoter().quote_end(b"", KeyKind.TOKENS) == ""
