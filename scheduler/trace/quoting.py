"""Quoter: token ids back to text, for people who look for a place in their prompts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from radixcache import KeyKind, PrefixKey
from scheduler.trace.tokenizer import PieceTokenizer, Tokenizer

__all__ = ["Quoter"]

_MOST_IDS = 6
_MOST_CONTEXT_IDS = 12
_MOST_CHARACTERS = 60
_MARKS = "-:./,+T Z[]()\"'#_|="


class Quoter:
    """Writes packed tokens as text where the tokenizer still knows their pieces, else as ids.

    Numbers, dates and times are known even where only ids were recorded, if the built-in
    tokenizer made them: it gives equal pieces equal ids everywhere. Cost: O(remembered pieces)
    at the first quote, then O(tokens).
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self._numbers: PieceTokenizer | None = None

    def quote(self, data: bytes, kind: KeyKind = KeyKind.TOKENS) -> str:
        """Return the text in double quotes, or the ids.

        >>> Quoter().quote(PrefixKey(PieceTokenizer().encode("10:32:07")).data)
        '"10:32:07"'
        """
        ids = _ids_of(data, kind)
        text = self._text(ids) if kind is KeyKind.TOKENS else None
        if text is not None:
            return _quoted(text)
        what = "block" if kind is KeyKind.BLOCKS else "token"
        shown = ", ".join(map(str, ids[:_MOST_IDS]))
        return f"{what} ids {shown}{', ...' if len(ids) > _MOST_IDS else ''}"

    def quote_end(self, data: bytes, kind: KeyKind = KeyKind.TOKENS) -> str:
        """Return the text of as many of the last 12 tokens as is known, or nothing."""
        if kind is not KeyKind.TOKENS:
            return ""
        ids = _ids_of(data[-_MOST_CONTEXT_IDS * kind.unit_bytes :], kind)
        for start in range(len(ids)):
            text = self._text(ids[start:])
            if text is not None:
                return _quoted(text)
        return ""

    def _text(self, ids: Sequence[int]) -> str | None:
        decode = getattr(self._tokenizer, "decode", None)
        text: str | None = None if decode is None else decode(ids)
        if text is not None:
            return text
        if self._numbers is None:
            self._numbers = PieceTokenizer()
            for digits in range(1, 4):
                for number in product("0123456789", repeat=digits):
                    self._numbers.encode("".join(number))
            for first, second in product(_MARKS, repeat=2):
                self._numbers.encode(first)
                self._numbers.encode(first + second)
        return self._numbers.decode(ids)


def _ids_of(data: bytes, kind: KeyKind) -> list[int]:
    return PrefixKey.from_packed(data, kind, page_size=1).tokens()


def _quoted(text: str) -> str:
    """Return a text in double quotes, on one line, cut where it is long."""
    visible = text.encode("unicode_escape").decode().replace('"', '\\"')
    if len(visible) > _MOST_CHARACTERS:
        visible = visible[:_MOST_CHARACTERS] + "..."
    return f'"{visible}"'
