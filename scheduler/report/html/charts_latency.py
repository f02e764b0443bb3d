"""Times to first token: their distribution by order, and who waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scheduler.report.cached_share import CACHED_FROM_SHARE
from scheduler.report.details import NAMED_QUANTILES, Waits
from scheduler.report.html.axes import Frame, x_axis, y_axis
from scheduler.report.html.figure import (
    NARROW_BELOW,
    Canvas,
    Column,
    DataTable,
    Definition,
    Figure,
    defined,
)
from scheduler.report.html.scale import LogScale, QuantileScale
from scheduler.report.html.series import (
    COLOURS,
    fitted_name,
    label,
    label_width,
    marker,
    series_class,
    spread,
)
from scheduler.report.html.svg import element, line, polyline, text
from scheduler.report.html.text import fixed, percent, seconds
from scheduler.report.plain_text import HIDDEN

__all__ = ["Distribution", "GroupWaits", "ttft_figure", "waits_figure"]

_MARKED = (0.5, 0.9, 0.99)
_OVER = (
    "OVERLOADED, the queue grows without end, and seconds would be more had the trace been longer."
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Quantiles of one run's times to first token."""

    name: str
    quantiles: Sequence[tuple[float, float]]
    """(share, seconds), ascending."""
    overloaded: bool = False

    def quantile(self, share: float) -> float | None:
        """Return a named quantile, None where there is no request."""
        return dict(self.quantiles).get(share)


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """The waits of one run's requests, by what the cache held of them."""

    name: str
    mostly_cached: Waits
    mostly_computed: Waits
    overloaded: bool = False


def ttft_figure(runs: Sequence[Distribution]) -> Figure:
    """Return the quantiles of the times to first token, a line a run."""
    named = (*NAMED_QUANTILES, 1.0)
    table = DataTable(
        "Time to first token by order, in seconds",
        (Column("order"), *(Column(_quantile_name(q), "s") for q in named)),
        [(_with_verdict(run), *_plain_cells(run, named)) for run in runs],
    )
    said = [
        f"{run.name}: median {seconds(run.quantile(0.5))}, "
        f"99th percentile {seconds(run.quantile(0.99))}"
        for run in runs
    ]
    over = f" Hollow marks: {_OVER}" if any(run.overloaded for run in runs) else ""
    return Figure(
        name="ttft",
        title="Distribution of the time to first token",
        about=f"Quantile plot, seconds on a logarithmic axis. {'; '.join(said) or 'No run'}.",
        draw=lambda width: _draw_quantiles(runs, width),
        caption="Read upwards from a percentile: that share of the requests had its first token "
        "within so many seconds. Percentiles stand as far apart as those of a normal "
        f"distribution, so that both tails show; the seconds are logarithmic.{over}",
        table=table,
        definitions=defined("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"),
    )


def _with_verdict(run: Distribution | GroupWaits) -> str:
    return f"{run.name} {HIDDEN}" if run.overloaded else run.name


def _quantile_name(share: float) -> str:
    return "max" if share == 1 else f"p{100 * share:g}"


def _plain_cells(run: Distribution, shares: Sequence[float]) -> list[str]:
    return [fixed(run.quantile(share), 3) for share in shares]


def _draw_quantiles(runs: Sequence[Distribution], width: float) -> Canvas:
    narrow = width < NARROW_BELOW
    names = [fitted_name(run.name, 96 if narrow else 180) for run in runs]
    right = max(map(label_width, names), default=0) + 12
    height = max(300.0, 15.0 * len(runs) + 30)
    frame = Frame(54.0, 12.0, width - right, 12 + height)
    inside = [[(share, s) for share, s in run.quantiles if share < 1] for run in runs]
    shares = [share for points in inside for share, _ in points]
    low, high = min(shares, default=0.01), max(shares, default=0.99)
    x = QuantileScale(min(low, 0.01), max(high, 0.99), frame.left, frame.right)
    y = LogScale.over([s for points in inside for _, s in points], frame.bottom, frame.top)
    drawn = y_axis(frame, y, seconds, most=9)
    drawn += x_axis(frame, x, _quantile_name, title="percentile of requests", room=40, edge=width)
    ends = [y.at(points[-1][1]) if points else frame.top for points in inside]
    places = spread(ends, 15.0, frame.top, frame.bottom)
    for i, points in enumerate(inside):
        places_of = [(x.at(share), y.at(value)) for share, value in points]
        drawn.append(polyline([places_of], f"l {series_class(i)}"))
        drawn += [
            marker(i, x.at(share), y.at(value), size=3.2, hollow=runs[i].overloaded)
            for share, value in points
            if share in _MARKED
        ]
    for i, points in enumerate(inside):
        if points:
            drawn.append(label(i, frame.right + 8, places[i] + 4, names[i]))
    return Canvas(drawn, frame.bottom + 42)


_HALF = percent(CACHED_FROM_SHARE, 0)
_GROUPS = (
    Definition(
        "mostly computed",
        f"hit < {_HALF} of n",
        "Requests of which the cache held less than that at their first admission: the "
        "cache-cold ones, which an order that prefers long matches lets wait.",
    ),
    Definition(
        "mostly cached",
        f"hit >= {_HALF} of n",
        "Requests of which the cache held at least that. What is cached depends on the order, so "
        "the two groups hold other requests under another order.",
    ),
)


def waits_figure(runs: Sequence[GroupWaits]) -> Figure:
    """Return median, 90th and 99th percentile of the waits of two groups, for each run."""
    rows = []
    for run in runs:
        for group, waits in _groups(run):
            rows.append(
                (
                    f"{_with_verdict(run)}, {group}",
                    f"{waits.requests:,}",
                    *(
                        fixed(value, 3)
                        for value in (waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s)
                    ),
                )
            )
    said = [
        f"{run.name}: mostly computed {seconds(run.mostly_computed.p99_s)}, "
        f"mostly cached {seconds(run.mostly_cached.p99_s)}"
        for run in runs
    ]
    return Figure(
        name="waits",
        title="Who waited: requests by what the cache held of them",
        about="Range plot of times to first token on a logarithmic axis, two rows an order. "
        f"99th percentiles: {'; '.join(said) or 'no run'}.",
        draw=lambda width: _draw_waits(runs, width),
        caption="Time to first token on a logarithmic axis, from the median (full mark) over the "
        "90th (stroke) to the 99th percentile (hollow mark, with its value)."
        + (f" {HIDDEN}: {_OVER}" if any(run.overloaded for run in runs) else ""),
        table=DataTable(
            "Time to first token by what was cached, in seconds",
            (
                Column("order, group"),
                Column("requests"),
                *(Column(name, "s") for name in ("p50", "p90", "p99", "max")),
            ),
            rows,
        ),
        definitions=_GROUPS,
    )


def _groups(run: GroupWaits) -> tuple[tuple[str, Waits], tuple[str, Waits]]:
    return ("mostly computed", run.mostly_computed), ("mostly cached", run.mostly_cached)


def _draw_waits(runs: Sequence[GroupWaits], width: float) -> Canvas:
    narrow = width < NARROW_BELOW
    names = [fitted_name(_with_verdict(run), 200) for run in runs]
    longest = max(map(label_width, names), default=0)
    left = 8.0 if narrow else longest + 190
    block, top = (96.0 if narrow else 56.0), 8.0
    frame = Frame(left, top, width - 66, top + block * len(runs))
    values = [
        value
        for run in runs
        for _, waits in _groups(run)
        for value in (waits.p50_s, waits.p90_s, waits.p99_s)
    ]
    scale = LogScale.over(values, frame.left, frame.right)
    drawn = x_axis(
        frame, scale, seconds, title="time to first token", grid=True, room=60, edge=width
    )
    for i, run in enumerate(runs):
        start = top + block * i
        if i:
            drawn.append(line(0, start, width, start, "h"))
        if narrow:
            drawn.append(text(0, start + 18, names[i], "n"))
        else:
            drawn.append(text(0, start + block / 2 + 4, names[i], "n"))
        for j, (group, waits) in enumerate(_groups(run)):
            y = start + (52 + 32 * j if narrow else 20 + 22 * j)
            said = f"{group} ({waits.requests:,})"
            if narrow:
                drawn.append(text(0, y - 11, said, "k"))
            else:
                drawn.append(text(left - 14, y + 4, said, "k", "end"))
            drawn += _range(i, waits, y, scale, dashed=j == 1)
    return Canvas(drawn, frame.bottom + 42)


def _range(colour: int, waits: Waits, y: float, scale: LogScale, *, dashed: bool) -> list[Markup]:
    """Draw from the median to the 99th percentile."""
    if waits.p50_s is None or waits.p90_s is None or waits.p99_s is None:
        return []
    low, middle, high = (scale.at(v) for v in (waits.p50_s, waits.p90_s, waits.p99_s))
    dash = "d1" if dashed else "d0"
    return [
        element("line", x1=low, y1=y, x2=high, y2=y, class_=f"l s{colour % COLOURS} {dash}"),
        element("line", x1=middle, y1=y - 5, x2=middle, y2=y + 5, class_=f"l s{colour % COLOURS}"),
        marker(colour, low, y),
        marker(colour, high, y, hollow=True),
        label(colour, high + 9, y + 4, seconds(waits.p99_s)),
    ]
