"""Plain text of a result: percentages, columns that line up, and what all tables say alike."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "HIDDEN",
    "OVERLOADED_NOTE",
    "UNCALIBRATED_NOTE",
    "labelled",
    "lined_up",
    "percent",
]

HIDDEN = "(over)"
"""Stands for what an overload stretches."""
OVERLOADED_NOTE = (
    f"{HIDDEN} = OVERLOADED: the queue grows without end and seconds would measure the trace's "
    "length; drain is the rate it could sustain."
)
UNCALIBRATED_NOTE = "Uncalibrated cost model: seconds order policies, they predict no server."

_GAP = "  "


def percent(share: float | None, unit: str = "") -> str:
    """Return a share as a percentage with two decimals, and a unit behind it; "-" for none."""
    return "-" if share is None else f"{100 * share:.2f}{unit}"


def lined_up(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
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
    return lined_up(rows, left=(0, 1))
