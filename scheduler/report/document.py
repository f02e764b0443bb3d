"""JSON and CSV of a result: one way to write them, so that equal numbers give equal bytes."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["csv_text", "json_text"]

_NUMBERS = re.compile(r"\[\n[\s\d,.eE+-]+\]")
"""A list of numbers, one a line; a JSON string has no line break."""


def json_text(document: Mapping[str, object]) -> str:
    """Return JSON with sorted keys and lists of numbers in a row.

    Raises: ValueError for NaN and infinity, which JSON has not.
    """
    text = json.dumps(document, sort_keys=True, indent=2, allow_nan=False)
    return _NUMBERS.sub(lambda found: " ".join(found.group().split()), text) + "\n"


def csv_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV with the names as its first line; a missing value is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
