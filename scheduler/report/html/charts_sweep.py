"""A sweep in pictures: latency and hit rate by load or memory, and the highest rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from scheduler.report.html.axes import Frame, x_axis, y_axis
from scheduler.report.html.figure import NARROW_BELOW, Canvas, Column, DataTable, Figure, defined
from scheduler.report.html.scale import LinearScale, LogScale, Scale, finite
from scheduler.report.html.series import (
    COLOURS,
    fitted_name,
    label,
    label_width,
    marker,
    series_class,
    spread,
)
from scheduler.report.html.svg import line, polyline, text
from scheduler.report.html.text import fixed, percent, seconds

__all__ = ["Axis", "HighestRate", "Line", "Spot", "highest_rate_figure", "trend_figure"]

_PANEL = 210.0
_ASIDE = 9.0


@dataclass(frozen=True, slots=True)
class Spot:
    """The runs of one order at one place, one value a seed."""

    x: float
    ttft_p99_s: Sequence[float]
    """None of them where a run was overloaded: seconds would measure the trace's length."""
    hit_rates: Sequence[float]
    overloaded: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One order along the axis."""

    name: str
    spots: Sequence[Spot]


@dataclass(frozen=True, slots=True)
class Axis:
    """What differs from left to right."""

    title: str
    shown: Callable[[float], str]


@dataclass(frozen=True, slots=True)
class HighestRate:
    """The highest rates at a target, one a seed; fewer where none was found."""

    name: str
    rates: Sequence[float]
    at_least: bool
    seeds: int


def trend_figure(
    name: str, title: str, lines: Sequence[Line], axis: Axis, *, optimum: float | None
) -> Figure:
    """Return p99 of the time to first token above the hit rate, both along one axis."""
    over = any(spot.overloaded for item in lines for spot in item.spots)
    return Figure(
        name=name,
        title=title,
        about=f"Two line charts along {axis.title}: 99th percentile of the time to first token, "
        f"logarithmic, and cold hit rate. {'. '.join(_said(item, axis) for item in lines)}.",
        draw=lambda width: _draw_trend(lines, axis, optimum, width),
        caption="Marks: means over the seeds; strokes through them: smallest to largest seed."
        + (
            " Hollow marks at the upper edge, and arrows: OVERLOADED, the queue grows without end, "
            "and seconds would measure the trace's length."
            if over
            else ""
        ),
        table=_trend_table(lines, axis),
        definitions=defined("ttft_p99_s", "cold_hit_rate_share", "optimal_hit_rate_share"),
    )


def _said(item: Line, axis: Axis) -> str:
    ends = item.spots[:1] if len(item.spots) == 1 else (item.spots[0], item.spots[-1])
    said = []
    for spot in ends:
        wait = "overloaded" if spot.overloaded else seconds(_mean(spot.ttft_p99_s))
        said.append(f"at {axis.shown(spot.x)} {wait}, {percent(_mean(spot.hit_rates))}")
    return f"{item.name} {'; '.join(said)}"


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _trend_table(lines: Sequence[Line], axis: Axis) -> DataTable:
    return DataTable(
        "99th percentile of the time to first token and cold hit rate",
        (
            Column("order"),
            Column(axis.title),
            Column("load", words=True),
            *(Column(f"TTFT p99 {what}", "s") for what in ("mean", "least", "most")),
            *(Column(f"hit cold {what}", "%") for what in ("mean", "least", "most")),
        ),
        [
            (
                item.name,
                axis.shown(spot.x),
                "OVERLOADED" if spot.overloaded else "",
                *_three(spot.ttft_p99_s, 1, 3),
                *_three(spot.hit_rates, 100, 2),
            )
            for item in lines
            for spot in item.spots
        ],
    )


def _three(values: Sequence[float], scale: float, decimals: int) -> list[str]:
    three = (fmean(values), min(values), max(values)) if values else (None, None, None)
    return [fixed(value, decimals, scale=scale) for value in three]


def _draw_trend(lines: Sequence[Line], axis: Axis, optimum: float | None, width: float) -> Canvas:
    names = [fitted_name(item.name, 96 if width < NARROW_BELOW else 180) for item in lines]
    right = max((label_width(f"{name} ↑") for name in names), default=0) + 14
    places = sorted({spot.x for item in lines for spot in item.spots})
    upper = Frame(54.0, 44.0, width - right, 44.0 + _PANEL)
    lower = Frame(54.0, upper.bottom + 66, upper.right, upper.bottom + 66 + _PANEL)
    x = _along(places, upper)
    waits = [value for item in lines for spot in item.spots for value in spot.ttft_p99_s]
    rates = [value for item in lines for spot in item.spots for value in spot.hit_rates]
    y = LogScale.over(waits, upper.bottom, upper.top)
    z = LinearScale.around([*rates, optimum], lower.bottom, lower.top)
    drawn = [text(0, 14, "p99 time to first token", "h3")]
    drawn += y_axis(upper, y, seconds)
    drawn += x_axis(upper, x, axis.shown, values=places, edge=width)
    drawn += _curves(lines, names, x, y, upper, lambda spot: spot.ttft_p99_s)
    drawn += _overloads(lines, x, upper)
    drawn.append(text(0, lower.top - 22, "cold hit rate", "h3"))
    drawn += y_axis(lower, z, lambda v: percent(v, 0 if z.high - z.low >= 0.04 else 1))
    drawn += x_axis(lower, x, axis.shown, values=places, title=axis.title, edge=width)
    if optimum is not None:
        at = z.at(optimum)
        drawn.append(line(lower.left, at, lower.right, at, "r"))
        said = f"DFS optimum {percent(optimum)}"
        drawn.append(text(lower.left + 4, at - 6, said, "k i"))
    drawn += _curves(lines, names, x, z, lower, lambda spot: spot.hit_rates)
    return Canvas(drawn, lower.bottom + 42)


def _along(places: Sequence[float], frame: Frame) -> Scale:
    """Return a scale whose ends are the outermost places, logarithmic where they lie far apart."""
    low, high = (places[0], places[-1]) if places else (0.0, 1.0)
    start, stop = frame.left + 14, frame.right - 14
    if low == high:
        return LinearScale(low - 1, high + 1, start, stop)
    if low > 0 and high / low >= 4:
        return LogScale(low, high, start, stop)
    return LinearScale(low, high, start, stop)


def _curves(
    lines: Sequence[Line],
    names: Sequence[str],
    x: Scale,
    y: Scale,
    frame: Frame,
    values: Callable[[Spot], Sequence[float]],
) -> list[Markup]:
    """Draw a line and its marks for each order, and its name at the end.

    Where there are several seeds the orders stand a little aside, so that their strokes show.
    """
    drawn: list[Markup] = []
    several = any(len(values(spot)) > 1 for item in lines for spot in item.spots)
    ends: list[tuple[int, float, str]] = []
    for i, item in enumerate(lines):
        known = [(spot, _mean(values(spot))) for spot in item.spots]
        aside = _ASIDE / 2 * (i - (len(lines) - 1) / 2) if several else 0.0
        points = [(x.at(spot.x) + aside, y.at(mean)) for spot, mean in known if mean is not None]
        drawn.append(polyline([points] if points else [], f"l {series_class(i)}"))
        for spot, mean in known:
            if mean is not None:
                at, found = x.at(spot.x) + aside, finite(list(values(spot)))
                low, high = y.at(min(found)), y.at(max(found))
                if abs(low - high) > 1:
                    drawn.append(line(at, low, at, high, f"l thin s{i % COLOURS}"))
                drawn.append(marker(i, at, y.at(mean)))
        if known and known[-1][1] is None and item.spots[-1].overloaded:
            ends.append((i, frame.top - 10, f"{names[i]} ↑"))
        elif points:
            ends.append((i, points[-1][1], names[i]))
    wanted = spread([end for _, end, _ in ends], 15, frame.top - 10, frame.bottom)
    for (i, _, said), at in zip(ends, wanted, strict=True):
        drawn.append(label(i, frame.right + 4, at + 4, said))
    return drawn


def _overloads(lines: Sequence[Line], x: Scale, frame: Frame) -> list[Markup]:
    """Draw a hollow mark at the upper edge for each overloaded spot, side by side."""
    drawn = []
    places = sorted({spot.x for item in lines for spot in item.spots})
    for place in places:
        here = [
            i
            for i, item in enumerate(lines)
            if any(spot.x == place and spot.overloaded for spot in item.spots)
        ]
        for j, i in enumerate(here):
            at = x.at(place) + _ASIDE * (j - (len(here) - 1) / 2)
            drawn.append(marker(i, at, frame.top - 10, hollow=True, size=3.5))
    return drawn


def highest_rate_figure(
    name: str, rows: Sequence[HighestRate], *, target_s: float, about: str
) -> Figure:
    """Return the highest rate of each order that keeps its p99 at or below the target."""
    said = [f"{row.name} {_rate_said(row)}" for row in rows]
    return Figure(
        name=name,
        title=f"Highest rate with p99 TTFT at most {seconds(target_s)}",
        about=f"Dot plot of requests a second, {about}. {'; '.join(said) or 'No order'}.",
        draw=lambda width: _draw_highest(rows, width),
        caption="A mark a seed, the mean beside them. Each rate was a full run; '≥': the runs are "
        "too short to find the limit.",
        table=DataTable(
            f"Highest rate, {about}",
            (
                Column("order"),
                *(Column(what, "req/s") for what in ("mean", "least", "most")),
                Column("seeds"),
                Column("at least", words=True),
            ),
            [
                (
                    row.name,
                    *_three(row.rates, 1, 3),
                    f"{len(row.rates)} of {row.seeds}",
                    "yes" if row.at_least else "no",
                )
                for row in rows
            ],
        ),
        definitions=defined("ttft_p99_s"),
    )


def _rate_said(row: HighestRate) -> str:
    if not row.rates:
        return "none"
    return f"{'≥ ' if row.at_least else ''}{fmean(row.rates):.3g} req/s"


def _draw_highest(rows: Sequence[HighestRate], width: float) -> Canvas:
    names = [fitted_name(row.name, 100 if width < NARROW_BELOW else 200) for row in rows]
    left = max(map(label_width, names), default=0) + 16
    frame = Frame(left, 8.0, width - 96, 8.0 + 34 * len(rows))
    values = [rate for row in rows for rate in row.rates]
    x = LinearScale.over(values, frame.left, frame.right)
    drawn = x_axis(frame, x, lambda v: f"{v:g}", title="requests/s", grid=True, edge=width)
    for i, row in enumerate(rows):
        y = frame.top + 34 * i + 17
        drawn.append(text(frame.left - 12, y + 4, names[i], "n", "end"))
        if row.rates:
            drawn.append(line(frame.left, y, x.at(max(row.rates)), y, "h"))
        drawn += [marker(i, x.at(rate), y) for rate in row.rates]
        at = x.at(max(row.rates)) if row.rates else frame.left
        drawn.append(label(i, at + 10, y + 4, _rate_said(row)))
    return Canvas(drawn, frame.bottom + 42)
