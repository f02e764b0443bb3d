"""Figure: a picture in two widths, its data as a table, its text alternative and caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from scheduler.report.html.svg import picture
from scheduler.report.metrics import Metric, metric

__all__ = ["NARROW_BELOW", "Canvas", "Column", "DataTable", "Definition", "Figure", "defined"]

WIDE = 736.0
NARROW = 328.0
"""Widths in pixels that pictures are drawn for: text keeps its size in both."""
NARROW_BELOW = 560.0
"""Below this width a drawing has no room for words beside its marks."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers, or of words."""

    name: str
    unit: str = ""
    words: bool = False
    """Set to the left, as text is."""


@dataclass(frozen=True, slots=True)
class DataTable:
    """Cells as they are shown; the first of a row names it."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.caption


@dataclass(frozen=True, slots=True)
class Definition:
    """What a word or a number means."""

    name: str
    formula: str
    doc: str


def defined(*names: str) -> tuple[Definition, ...]:
    """Return the definitions of metrics by name."""
    found: list[Metric] = [metric(name) for name in names]
    return tuple(Definition(m.header, m.formula, m.doc) for m in found)


@dataclass(frozen=True, slots=True)
class Canvas:
    """What one drawing of a figure comes to."""

    children: Sequence[Markup]
    height: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture and everything that says the same in words."""

    name: str
    """Its anchor; letters, digits and hyphens."""
    title: str
    about: str
    """The text alternative: what the picture shows, with its main numbers."""
    draw: Callable[[float], Canvas]
    """Draws it for a width in pixels."""
    caption: str
    """How it is to be read."""
    table: DataTable
    definitions: Sequence[Definition] = field(default_factory=tuple)

    @property
    def wide(self) -> Markup:
        """The picture for a window with room."""
        return self._picture("wide", WIDE)

    @property
    def narrow(self) -> Markup:
        """The picture for a telephone."""
        return self._picture("narrow", NARROW)

    def _picture(self, kind: str, width: float) -> Markup:
        drawn = self.draw(width)
        return picture(
            drawn.children,
            width=width,
            height=drawn.height,
            name=f"{self.name}-{kind}",
            title=self.title,
            about=self.about,
        )
