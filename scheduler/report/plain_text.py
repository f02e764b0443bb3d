"""Plain text of a result: percentages, and columns that line up."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["columns", "labelled", "percent"]

_GAP = "  "


def percent(share: float | None, unit: str = "") -> str:
    """Return a share as a percentage with two decimals, and a unit behind it; "-" for none."""
    return "-" if share is None else f"{100 * share:.2f}{unit}"


def columns(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Return rows of equal length as lines; cells stand at the right of their column.

    Those of the columns in ``left`` stand at the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        _GAP.join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def labelled(rows: Sequence[tuple[str, str]]) -> str:
    """Return a line a row: a name, and what there is to say of it."""
    return columns(rows, left=(0, 1))
