"""Hit rates by order, against the optimum and the unbounded cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scheduler.report.html.axes import Frame, x_axis
from scheduler.report.html.figure import NARROW_BELOW, Canvas, Column, DataTable, Figure, defined
from scheduler.report.html.scale import LinearScale
from scheduler.report.html.series import COLOURS, fitted_name, label_width
from scheduler.report.html.svg import element, line, rect, text
from scheduler.report.html.text import bare_percent, percent, text_width

__all__ = ["HitRate", "hit_rate_figure"]


@dataclass(frozen=True, slots=True)
class HitRate:
    """The hit rates of one run."""

    name: str
    cold: float | None
    warm: float | None
    reached: float | None
    """Share of the optimum."""


@dataclass(frozen=True, slots=True)
class _Bound:
    name: str
    rate: float
    kind: str


def hit_rate_figure(
    rows: Sequence[HitRate], *, optimum: float | None, ceiling: float | None, exact: bool = True
) -> Figure:
    """Return bars of the hit rates, with lines at what no run can beat."""
    bounds = [
        _Bound(name, rate, kind)
        for name, rate, kind in (
            ("DFS optimum", optimum, "r"),
            ("unbounded cache, arrival order", ceiling, "r2"),
        )
        if rate is not None
    ]
    table = DataTable(
        "Hit rate by order",
        (
            Column("order"),
            Column("hit cold", "%"),
            Column("hit warm", "%"),
            Column("of optimum", "%"),
        ),
        [
            (row.name, bare_percent(row.cold), bare_percent(row.warm), bare_percent(row.reached, 1))
            for row in rows
        ]
        + [
            (bound.name, bare_percent(bound.rate), bare_percent(None), bare_percent(None))
            for bound in bounds
        ],
    )
    estimated = "" if exact else " The optimum is estimated, within 1.3 points."
    return Figure(
        name="hit-rate",
        title="Hit rate by order against the optimum",
        about=_about(rows, bounds),
        draw=lambda width: _draw(rows, bounds, width),
        caption="Bars: cached share of all prompt tokens, from an empty cache (cold). Rings: the "
        "same over the second half of the requests (warm). No order, eviction policy or capacity "
        f"passes the optimum.{estimated}",
        table=table,
        definitions=defined(
            "cold_hit_rate_share",
            "warm_hit_rate_share",
            "ceiling_hit_rate_share",
            "optimal_hit_rate_share",
            "optimal_reached_share",
        ),
    )


def _about(rows: Sequence[HitRate], bounds: Sequence[_Bound]) -> str:
    said = [f"{row.name} {percent(row.cold)}" for row in rows]
    limits = [f"{bound.name} {percent(bound.rate)}" for bound in bounds]
    return (
        f"Bar chart of cold hit rates: {', '.join(said) or 'no run'}. "
        f"Lines: {', '.join(limits) or 'none'}."
    )


def _draw(rows: Sequence[HitRate], bounds: Sequence[_Bound], width: float) -> Canvas:
    narrow = width < NARROW_BELOW
    row_height = 44.0 if narrow else 32.0
    names = [fitted_name(row.name, 130 if narrow else 200) for row in rows]
    longest = max(map(label_width, names), default=0)
    left = 4.0 if narrow else longest + 16
    top = 20.0 * len(bounds) + (10 if narrow else 14)
    frame = Frame(
        left,
        top,
        width - (8 if narrow else 160),
        top + row_height * len(rows) + 4,
    )
    values = [v for row in rows for v in (row.cold, row.warm)] + [b.rate for b in bounds]
    scale = LinearScale.over(values, frame.left, frame.right)
    drawn = x_axis(frame, scale, lambda v: percent(v, 0), grid=True, edge=width)
    if not narrow:
        drawn += [
            text(width - 78, top - 6, "hit rate", "k", "end"),
            text(width, top - 6, "of optimum", "k", "end"),
        ]
    drawn += _bound_lines(bounds, frame, scale)
    for place, row in enumerate(rows):
        drawn += _row(place, row, names[place], frame, scale, width, row_height)
    return Canvas(drawn, frame.bottom + 26)


def _row(
    place: int,
    row: HitRate,
    name: str,
    frame: Frame,
    scale: LinearScale,
    width: float,
    row_height: float,
) -> list[Markup]:
    narrow = width < NARROW_BELOW
    middle = frame.top + row_height * place + (28 if narrow else row_height / 2)
    drawn = []
    if row.cold is not None:
        start = scale.at(0)
        drawn.append(
            rect(start, middle - 7, scale.at(row.cold) - start, 14, f"b s{place % COLOURS}")
        )
    if row.warm is not None:
        drawn.append(element("circle", cx=scale.at(row.warm), cy=middle, r=4.5, class_="ring"))
    if narrow:
        shown = f"{percent(row.cold)}, {percent(row.reached, 1)} of optimum"
        drawn.append(text(frame.left, middle - 13, name, "n"))
        drawn.append(text(width - 4, middle - 13, shown, "v", "end"))
        return drawn
    return [
        *drawn,
        text(frame.left - 12, middle + 5, name, "n", "end"),
        text(width - 78, middle + 5, percent(row.cold), "v", "end"),
        text(width, middle + 5, percent(row.reached, 1), "v", "end"),
    ]


def _bound_lines(bounds: Sequence[_Bound], frame: Frame, scale: LinearScale) -> list[Markup]:
    """Draw a line for each bound, its label in a row of its own above the bars."""
    drawn = []
    for place, bound in enumerate(bounds):
        x, y = scale.at(bound.rate), 14.0 + 20 * place
        said = f"{bound.name} {percent(bound.rate)}"
        drawn.append(line(x, y + 5, x, frame.bottom, bound.kind))
        fits = x - text_width(said, 12) > 0
        drawn.append(text(x - 6 if fits else 0.0, y, said, "k i", "end" if fits else None))
    return drawn
