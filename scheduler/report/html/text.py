"""Text of a report: names made harmless, and numbers as a reader expects them."""

from __future__ import annotations

import math
import unicodedata

__all__ = [
    "amount",
    "bare_percent",
    "fixed",
    "percent",
    "points",
    "printable",
    "seconds",
    "shortened",
    "text_width",
]

_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control, format (bidi overrides too), surrogate, private, unassigned, line separators."""
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_NARROW = set("fijlrtI.,:;'!|()[] -\N{NO-BREAK SPACE}")
_WIDE = set("mwMW@%—…<>=+~#&")
_MISSING = "–"
_SPACE = "\N{NO-BREAK SPACE}"


def printable(text: object) -> str:
    """Return text in which every character shows: what has no glyph of its own is escaped.

    A name from a trace can thus neither reorder what stands beside it nor break XML.
    """
    return "".join(
        character if not _is_harmful(character) else _escaped(character) for character in str(text)
    )


def _is_harmful(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in _HARMFUL


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, most: int) -> str:
    """Return text of at most so many characters, an ellipsis in the place of its middle."""
    if len(text) <= most:
        return text
    head = most // 2
    tail = most - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :] if tail else ''}"


def text_width(text: str, size: float) -> float:
    """Estimate how wide a system font sets a text, in the unit of its size, on the safe side."""
    units = sum(
        0.4 if c in _NARROW else 1.0 if c in _WIDE else 0.74 if c.isupper() else 0.66 for c in text
    )
    return units * size


def seconds(value: float | None) -> str:
    """Return seconds with three digits and the unit that fits: 8.2 ms, 12.4 s, 1,332 s."""
    if value is None or not math.isfinite(value):
        return _MISSING
    if 0 < abs(value) < 0.9995:
        return f"{_digits(value * 1e3)}{_SPACE}ms"
    return f"{_digits(value)}{_SPACE}s"


def amount(value: float | None) -> str:
    """Return a count with three digits and a prefix: 512, 65.5 k, 1.05 M."""
    if value is None or not math.isfinite(value):
        return _MISSING
    for factor, prefix in _PREFIXES:
        if abs(value) >= 0.9995 * factor:
            return f"{_digits(value / factor)}{_SPACE}{prefix}"
    return _digits(value)


def percent(share: float | None, decimals: int = 2) -> str:
    """Return a share as a percentage."""
    if share is None or not math.isfinite(share):
        return _MISSING
    return f"{100 * share:.{decimals}f}{_SPACE}%"


def bare_percent(share: float | None, decimals: int = 2) -> str:
    """Return a share as a percentage without its sign, for a column that has it in its head."""
    return fixed(share, decimals, scale=100)


def fixed(value: float | None, decimals: int, *, scale: float = 1) -> str:
    """Return a number times a scale for a table, thousands grouped."""
    if value is None or not math.isfinite(value):
        return _MISSING
    return f"{value * scale:,.{decimals}f}"


def points(share: float | None) -> str:
    """Return a share of the prompt tokens as points of the hit rate."""
    if share is None or not math.isfinite(share):
        return _MISSING
    return f"{100 * share:.2f}{_SPACE}points"


def _digits(value: float) -> str:
    """Return three digits, thousands grouped, without a fraction of zeros."""
    size = abs(value)
    decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
