"""The course of a run: how many waited and what was hit, by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scheduler.report.html.axes import Frame, x_axis
from scheduler.report.html.figure import NARROW_BELOW, Canvas, Column, DataTable, Definition, Figure
from scheduler.report.html.scale import LinearScale, finite
from scheduler.report.html.series import COLOURS, fitted_name, label
from scheduler.report.html.svg import Point, line, polyline, text
from scheduler.report.html.text import amount, bare_percent, fixed, percent, seconds

__all__ = ["Course", "course_figure"]

_PANEL = 64.0
_ROW = 104.0
_BETWEEN = 76.0

_DEFINITIONS = (
    Definition(
        "waiting",
        "sum of waiting * time / bin",
        "Requests in the queue, averaged over the time of a bin. Bins differ in length where runs "
        "do: each is a 60th of its run.",
    ),
    Definition(
        "hit rate",
        "sum of hit / sum of n",
        "Cached over prompt tokens of the requests that arrived in a bin; a gap: none arrived.",
    ),
)


@dataclass(frozen=True, slots=True)
class Course:
    """One run in bins of time."""

    name: str
    bin_s: float
    waiting: Sequence[float]
    hit_rates: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class _Panel:
    """One quantity of all runs, on axes that they share."""

    title: str
    values: Callable[[Course], Sequence[float | None]]
    shown: Callable[[float], str]
    peak: bool = False
    """Whether the highest value is written."""


_PANELS = (
    _Panel("waiting requests", lambda course: course.waiting, amount, peak=True),
    _Panel("hit rate of arrivals", lambda course: course.hit_rates, lambda v: percent(v, 0)),
)


def course_figure(runs: Sequence[Course]) -> Figure:
    """Return two small panels a run: the queue and the hit rate over time."""
    said = [
        f"{run.name}: at most {max(run.waiting, default=0.0):,.1f} waiting in a bin" for run in runs
    ]
    return Figure(
        name="course",
        title="Queue and hit rate over time",
        about=f"Two small line charts an order, with common axes. {'; '.join(said) or 'No run'}.",
        draw=lambda width: _draw(runs, width),
        caption="All orders on the same axes, from the first arrival to the end of the last step; "
        "each point is the mean of a 60th of the run. The highest point of a queue stands above "
        "it; for a moment more may have waited.",
        table=_table(runs),
        definitions=_DEFINITIONS,
    )


def _table(runs: Sequence[Course]) -> DataTable:
    columns = [Column("bin")]
    for run in runs:
        columns += [
            Column(f"{run.name} from", "s"),
            Column(f"{run.name} waiting"),
            Column(f"{run.name} hit", "%"),
        ]
    rows = []
    for place in range(max((len(run.waiting) for run in runs), default=0)):
        row = [str(place + 1)]
        for run in runs:
            if place < len(run.waiting):
                hit = run.hit_rates[place]
                row += [
                    f"{place * run.bin_s:,.1f}",
                    f"{run.waiting[place]:,.1f}",
                    bare_percent(hit),
                ]
            else:
                row += [fixed(None, 1)] * 3
        rows.append(row)
    return DataTable("Queue and hit rate in bins of time", columns, rows)


def _draw(runs: Sequence[Course], width: float) -> Canvas:
    narrow = width < NARROW_BELOW
    across = 1 if narrow else 2
    gap = 56.0
    panel = (width - gap * across) / across
    top = 26.0
    drawn: list[Markup] = []
    latest = max((run.bin_s * len(run.waiting) for run in runs), default=0.0)
    for j, kind in enumerate(_PANELS):
        left = gap + (panel + gap) * (j % across)
        start = top + (0 if across == 2 else j * (_ROW * len(runs) + _BETWEEN))
        drawn.append(text(left, start - 8, kind.title, "h3"))
        values = [v for run in runs for v in kind.values(run)]
        for i, run in enumerate(runs):
            y = start + _ROW * i
            frame = Frame(left, y + 22, left + panel, y + 22 + _PANEL)
            drawn += _panel(i, run, kind, values, frame, latest, named=j == 0 or narrow)
        frame = Frame(left, start, left + panel, start + _ROW * len(runs) - 18)
        x = LinearScale(0.0, latest or 1.0, frame.left, frame.right)
        drawn += x_axis(frame, x, seconds, title="since the first arrival", room=76, edge=width)
    bottom = top + (_ROW * len(runs) + _BETWEEN) * (2 if narrow else 1) - _BETWEEN
    return Canvas(drawn, bottom + 26)


def _panel(
    place: int,
    run: Course,
    kind: _Panel,
    all_values: Sequence[float | None],
    frame: Frame,
    latest: float,
    *,
    named: bool,
) -> list[Markup]:
    x = LinearScale(0.0, latest or 1.0, frame.left, frame.right)
    y = LinearScale.over(all_values, frame.bottom, frame.top)
    drawn = [line(frame.left, frame.bottom, frame.right, frame.bottom, "a")]
    drawn += [
        text(frame.left - 8, y.at(value) + 4, kind.shown(value), "k", "end")
        for value in (0.0, y.high)
    ]
    drawn.append(line(frame.left, frame.top, frame.right, frame.top, "g"))
    values = kind.values(run)
    drawn.append(polyline(_runs_of_points(values, run.bin_s, x, y), f"l thin s{place % COLOURS}"))
    if named:
        drawn.append(
            label(place, frame.left, frame.top - 6, fitted_name(run.name, frame.width - 90))
        )
    if kind.peak and values:
        said = f"up to {kind.shown(max(finite(values), default=0.0))}"
        drawn.append(text(frame.right, frame.top - 6, said, "k", "end"))
    return drawn


def _runs_of_points(
    values: Sequence[float | None], bin_s: float, x: LinearScale, y: LinearScale
) -> Iterator[list[Point]]:
    """Yield the stretches without a gap, each value at the middle of its bin."""
    points: list[Point] = []
    for place, value in enumerate(values):
        if value is None:
            if points:
                yield points
            points = []
        else:
            points.append((x.at((place + 0.5) * bin_s), y.at(value)))
    if points:
        yield points
