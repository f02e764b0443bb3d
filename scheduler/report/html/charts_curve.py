"""The capacity curve: hit rate by KV memory, the optimum beside it, and the knee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from scheduler.report.html.axes import Frame, x_axis, y_axis
from scheduler.report.html.figure import NARROW_BELOW, Canvas, Column, DataTable, Definition, Figure
from scheduler.report.html.scale import LinearScale, LogScale
from scheduler.report.html.series import (
    COLOURS,
    fitted_name,
    label,
    label_width,
    series_class,
    spread,
)
from scheduler.report.html.svg import Point, element, line, polyline, text
from scheduler.report.html.text import amount, bare_percent, percent, text_width

__all__ = ["CapacityLine", "CapacityMark", "curve_figure"]

_HEIGHT = 330.0


@dataclass(frozen=True, slots=True)
class CapacityLine:
    """One hit rate by capacity."""

    name: str
    doc: str
    points: Sequence[tuple[int, float]]
    """(capacity in tokens, hit rate), capacities rising and above 0."""
    spread: Sequence[float] = field(default_factory=tuple)
    """Standard error of each point, where the curve is an estimate."""


@dataclass(frozen=True, slots=True)
class CapacityMark:
    """A capacity worth a line of its own."""

    name: str
    doc: str
    capacity_tokens: int
    hit_rate: float | None = None
    """Where it meets the first curve."""


def curve_figure(
    lines: Sequence[CapacityLine],
    marks: Sequence[CapacityMark] = (),
    *,
    bound: tuple[str, float] | None = None,
    memory: Callable[[int], str] | None = None,
) -> Figure:
    """Return the curves over a logarithmic axis of tokens.

    ``bound`` is a hit rate that no capacity passes; ``memory`` writes tokens as memory, for the
    table and a second row of ticks.
    """
    capacities = sorted({capacity for item in lines for capacity, _ in item.points})
    by_line = [dict(item.points) for item in lines]
    columns = [Column("KV memory", "tokens")]
    if memory is not None:
        columns.append(Column("KV memory"))
    columns += [Column(item.name, "%") for item in lines]
    rows = []
    for capacity in capacities:
        row = [f"{capacity:,}"] + ([memory(capacity)] if memory is not None else [])
        rates = [values.get(capacity) for values in by_line]
        rows.append(row + [bare_percent(rate) for rate in rates])
    said = [
        f"{mark.name} at {amount(mark.capacity_tokens)} tokens"
        + (f" with {percent(mark.hit_rate)}" if mark.hit_rate is not None else "")
        for mark in marks
    ]
    ends = [f"{item.name} reaches {percent(item.points[-1][1])}" for item in lines if item.points]
    return Figure(
        name="capacity",
        title="Hit rate by KV memory",
        about=f"Line chart over memory, logarithmic. {'; '.join([*ends, *said]) or 'No point'}.",
        draw=lambda width: _draw(lines, marks, bound, memory, width),
        caption="Every capacity from one pass over the requests in arrival order. The memory axis "
        "is logarithmic: equal steps double the memory."
        + (" The band is two standard errors wide to each side." if _estimated(lines) else ""),
        table=DataTable("Hit rate by KV memory", columns, rows),
        definitions=[
            *(Definition(item.name, "", item.doc) for item in lines),
            *(Definition(mark.name, "", mark.doc) for mark in marks),
        ],
    )


def _estimated(lines: Sequence[CapacityLine]) -> bool:
    return any(item.spread for item in lines)


def _draw(
    lines: Sequence[CapacityLine],
    marks: Sequence[CapacityMark],
    bound: tuple[str, float] | None,
    memory: Callable[[int], str] | None,
    width: float,
) -> Canvas:
    narrow = width < NARROW_BELOW
    names = [fitted_name(item.name, 160) for item in lines]
    right = 10.0 if narrow else max(map(label_width, names), default=0) + 12
    top = 24.0 + 18 * len(marks)
    frame = Frame(46.0, top, width - right, top + _HEIGHT)
    capacities = [float(capacity) for item in lines for capacity, _ in item.points]
    x = LogScale.between(capacities, frame.left, frame.right)
    rates = [rate for item in lines for _, rate in item.points]
    y = LinearScale.over([*rates, bound[1] if bound else None], frame.bottom, frame.top)
    drawn = y_axis(frame, y, lambda v: percent(v, 0), most=5)
    drawn += x_axis(frame, x, amount, room=44, edge=width)
    drawn.append(
        text(frame.right, frame.bottom + (56 if memory else 36), "tokens of KV memory", "k", "end")
    )
    if memory is not None:
        drawn += _memory_ticks(frame, x, memory, width)
    if bound is not None:
        at = y.at(bound[1])
        drawn.append(line(frame.left, at, frame.right, at, "r"))
        drawn.append(text(frame.left + 4, at - 6, f"{bound[0]} {percent(bound[1])}", "k i"))
    drawn += _marks(marks, frame, x, y)
    ends = []
    for i, item in enumerate(lines):
        points = [(x.at(capacity), y.at(rate)) for capacity, rate in item.points]
        drawn += _band(item, i, x, y)
        drawn.append(polyline([points] if points else [], f"l {series_class(i)}"))
        ends.append(points[-1][1] if points else frame.top)
    places = spread(ends, 15, frame.top, frame.bottom)
    for i in range(len(lines)):
        if narrow:
            at = frame.bottom - 12 - 18 * i
            start = frame.right - label_width(names[i]) - 34
            drawn.append(line(start, at - 4, start + 26, at - 4, f"l {series_class(i)}"))
            drawn.append(label(i, frame.right - 4, at, names[i], "end"))
        else:
            drawn.append(label(i, frame.right + 6, places[i] + 4, names[i]))
    return Canvas(drawn, frame.bottom + (62 if memory is not None else 42))


def _memory_ticks(
    frame: Frame, x: LogScale, memory: Callable[[int], str], width: float
) -> list[Markup]:
    """Write the same ticks as memory, below those in tokens."""
    drawn, last = [], -100.0
    for value in x.ticks(max(2, int(frame.width // 44))):
        said = memory(round(value))
        at = min(x.at(value), width - text_width(said, 12) / 2)
        if at - last >= text_width(said, 12) + 10:
            drawn.append(text(at, frame.bottom + 36, said, "k", "middle"))
            last = at
    return drawn


def _marks(
    marks: Sequence[CapacityMark], frame: Frame, x: LogScale, y: LinearScale
) -> list[Markup]:
    """Draw a line for each marked capacity, its name in a row of its own above the plot."""
    drawn = []
    for i, mark in enumerate(marks):
        at, row = x.at(mark.capacity_tokens), 14.0 + 18 * i
        said = f"{mark.name} {amount(mark.capacity_tokens)}"
        if mark.hit_rate is not None:
            said += f", {percent(mark.hit_rate)}"
        fits = at + 6 + text_width(said, 12) < frame.right
        drawn.append(line(at, row - 8, at, frame.bottom, "r2"))
        drawn.append(text(at + 6 if fits else at - 6, row, said, "k i", None if fits else "end"))
        if mark.hit_rate is not None:
            drawn.append(element("circle", cx=at, cy=y.at(mark.hit_rate), r=4.5, class_="mh s0"))
    return drawn


def _band(item: CapacityLine, place: int, x: LogScale, y: LinearScale) -> list[Markup]:
    """Draw two standard errors to each side of an estimate."""
    if not item.spread:
        return []
    upper: list[Point] = []
    lower: list[Point] = []
    for (capacity, rate), error in zip(item.points, item.spread, strict=True):
        upper.append((x.at(capacity), y.at(rate + 2 * error)))
        lower.append((x.at(capacity), y.at(rate - 2 * error)))
    ring = " ".join(f"{a:.1f},{b:.1f}" for a, b in [*upper, *reversed(lower)])
    return [element("polygon", points=ring, class_=f"band s{place % COLOURS}")]
