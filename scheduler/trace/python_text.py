"""Python values as a log prints them, read without evaluating anything.

``Name(key=value, ...)`` and ``{'key': value, ...}`` are cut into the text of their fields by
counting brackets outside of quotes. Only what is asked for becomes a value: lists of whole
numbers by their digits, the rest through ``ast.literal_eval`` up to a bounded length. Text
that a logger shortened (``[1, 2] ... [8, 9]``) is told from text that is whole.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from scheduler.trace.summary import RowError

__all__ = ["SHORTENED", "fields_of", "value_of"]

SHORTENED = object()
"""In place of a value that the logger cut in its middle."""

MAX_LITERAL_CHARS = 1 << 16
_MAX_DEPTH = 200
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[()\[\]{},=:'"]""", re.DOTALL)
_NAME = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]{0,80})\s*\Z")
_NUMBERS = re.compile(r"\[(\s*\d{1,18}\s*(?:,\s*\d{1,18}\s*)*)?\]")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def fields_of(text: str, start: int) -> tuple[dict[str, str], int]:
    """Return the text of each field of the value that begins at ``start``, and where it ends.

    Raises: RowError where brackets or quotes do not close, as in a line that was cut.
    Cost: O(length).
    """
    fields: dict[str, str] = {}
    stack: list[str] = []
    key: str | None = None
    begin = start
    for found in _TOKEN.finditer(text, start):
        token, at = found[0], found.start()
        if len(token) > 1:  # a whole string: only a key or a value
            continue
        if token in "'\"":
            raise RowError("a quoted text does not end: the line is cut or mixed with another")
        if token in _CLOSERS:
            stack.append(_CLOSERS[token])
            if len(stack) > _MAX_DEPTH:
                raise RowError("brackets are nested too deeply")
            if len(stack) == 1:
                begin = found.end()
        elif token in ")]}":
            if not stack or stack.pop() != token:
                raise RowError("brackets do not match: the line is cut or mixed with another")
            if not stack:
                _keep(fields, key, text[begin:at])
                return fields, found.end()
        elif len(stack) == 1 and token == ",":
            _keep(fields, key, text[begin:at])
            key, begin = None, found.end()
        elif len(stack) == 1 and key is None and token in "=:":
            key = _key(text[begin:at])
            begin = found.end()
    raise RowError("brackets do not close: the line is cut")


def _keep(fields: dict[str, str], key: str | None, text: str) -> None:
    if key:
        fields.setdefault(key, text.strip())


def _key(text: str) -> str:
    """Return a field's name: bare, or quoted; empty where it is neither."""
    text = text.strip()
    if text[:1] in {"'", '"'} and text[-1:] == text[:1]:
        return text[1:-1]
    named = _NAME.match(text)
    return named[1] if named else ""


def value_of(text: str) -> Any:
    """Return the value of a field's text, ``SHORTENED`` where the logger left out its middle.

    Raises: RowError where it is no plain value, or one too long.
    """
    if _NUMBERS.fullmatch(text):
        inner = text[1:-1].strip()
        return [int(number) for number in inner.split(",")] if inner else []
    if "..." in _STRING.sub("''", text):
        return SHORTENED
    if len(text) > MAX_LITERAL_CHARS:
        raise RowError("a value is too long to be read", text[:20])
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise RowError("a value is no plain Python value", text[:40]) from None
