"""Reading one row: JSON text into a dict, and its fields checked one by one.

Every fault is a RowError with a reason that is the same words for the same fault, so that
a summary can count it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

from scheduler.trace.source import Line
from scheduler.trace.summary import RowError, TraceSummary

__all__ = [
    "Number",
    "count_of",
    "ids_of",
    "name_of",
    "row_of",
    "samples_of",
    "text_of",
    "time_of",
]

MAX_SAMPLES = 1024
Number = int | float
NUMERAL = re.compile(r"[+-]?\d{1,30}(\.\d{0,30})?")
NON_UTF8 = "bytes that are not UTF-8 were replaced"
_decode = msgspec.json.Decoder().decode


def row_of(line: Line, summary: TraceSummary) -> dict[str, Any]:
    """Decode a line into a JSON object.

    Bytes that are not UTF-8 are replaced and counted; NaN and Infinity are read, so that
    the field that holds them can be named. Raises: RowError when it is no object.
    """
    number, data, ended = line
    try:
        row = _decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        row = _lenient(data, number, ended, summary)
    if not isinstance(row, dict):
        raise RowError("not a JSON object", row)
    return row


def _lenient(data: bytes, number: int, ended: bool, summary: TraceSummary) -> object:
    """Decode what msgspec refuses: NaN, lone surrogates, bytes that are not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        row = _loads(text, ended)
        summary.repair(NON_UTF8, number)
        return row
    return _loads(text, ended)


def _loads(text: str, ended: bool) -> object:
    """Decode with the standard library; say whether the file may be cut here."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        reason = "not JSON" if ended else "cut: the file ends inside it"
        raise RowError(reason, text[:40]) from None


def time_of(row: dict[str, Any], field: str, repairs: list[str] | None = None) -> Number:
    """Return a timestamp: a finite number, not negative; text that is a number is taken."""
    value = row.get(field)
    if value is None:
        raise RowError(f"{field} is missing")
    if isinstance(value, str) and NUMERAL.fullmatch(value.strip()):
        text = value.strip()
        value = float(text) if "." in text else int(text)
        if repairs is not None:
            repairs.append(f"{field} is text")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(f"{field} is no number", value)
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise RowError(f"{field} is out of range", value)
    if not math.isfinite(value):
        raise RowError(f"{field} is not finite", value)
    if value < 0:
        raise RowError(f"{field} is negative", value)
    return value


def count_of(row: dict[str, Any], field: str, *, least: int, default: int | None = None) -> int:
    """Return a count: an int of at least ``least``; a float without a fraction is taken."""
    value = row.get(field)
    if value is None:
        if default is None:
            raise RowError(f"{field} is missing")
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RowError(f"{field} is no whole number", value)
    if value < least:
        raise RowError(f"{field} is below {least}", value)
    if value >= 1 << 31:
        raise RowError(f"{field} is out of range", value)
    return value


def samples_of(row: dict[str, Any], field: str) -> int:
    """Return how many answers are wanted, 1 if it is not said: each becomes a request."""
    samples = count_of(row, field, least=1, default=1)
    if samples > MAX_SAMPLES:
        raise RowError(f"{field} is out of range", samples)
    return samples


def ids_of(row: dict[str, Any], field: str, *, bits: int) -> list[int]:
    """Return a list of ids from 0 to below 2**bits."""
    value = row.get(field)
    if value is None:
        raise RowError(f"{field} is missing")
    if not isinstance(value, list):
        raise RowError(f"{field} is no list", value)
    if not set(map(type, value)) <= {int}:
        raise RowError(f"{field} holds something that is no whole number")
    if value and (min(value) < 0 or max(value) >= 1 << bits):
        raise RowError(f"{field} holds an id that is negative or not below 2**{bits}")
    return value


def name_of(row: dict[str, Any], field: str) -> str | None:
    """Return an id given as text or a whole number, as text that can be printed."""
    value = row.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(f"{field} is neither text nor a whole number", value)
    if isinstance(value, int) and abs(value) >= 1 << 64:
        raise RowError(f"{field} is out of range")
    return str(value).encode(errors="replace").decode()


def text_of(row: dict[str, Any], field: str) -> str:
    """Return a text field."""
    value = row.get(field)
    if value is None:
        raise RowError(f"{field} is missing")
    if not isinstance(value, str):
        raise RowError(f"{field} is no text", value)
    return value
