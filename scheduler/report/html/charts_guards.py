"""Guards in a picture: how much hit rate each costs, and how much p99 of the waits it wins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from markupsafe import Markup

from scheduler.report.guard_trade import GuardRow, GuardTrade
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
from scheduler.report.html.scale import LinearScale
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
from scheduler.report.html.text import fixed, percent
from scheduler.report.plain_text import HIDDEN

__all__ = ["guard_figure"]

_TOP, _GAP = 44.0, 15.0
_ABOVE, _BELOW = 11.0, 8.0
"""How far from its mark a label stands: of a line's end, and of what it leads through."""
_TERMS = (
    Definition(
        "guard",
        "B0 + KAPPA x backlog",
        "Tokens of later arrivals that may go before a request, from what waits uncached when it "
        "arrives; 0+0 is arrival order, inf no bound.",
    ),
    Definition(
        "hit lost",
        "hit cold of the loosest guard - hit cold",
        "Percentage points of the cold hit rate; below 0 it is won.",
    ),
    Definition(
        "p99 won",
        "1 - TTFT p99 / TTFT p99 of the loosest guard",
        "How much shorter the 99th percentile of the waits is.",
    ),
)


@dataclass(frozen=True, slots=True)
class _Spot:
    """One guard: what stands beside it, what it costs in points, and its share of p99 won."""

    said: str
    lost: float
    won: float


_Mark: TypeAlias = tuple[int, _Spot]
"""A spot and the place of its order."""


def guard_figure(name: str, trades: Sequence[GuardTrade], *, about: str) -> Figure:
    """Return hit lost against p99 won, a line through the guards of each order at one place."""
    over = any(row.overloaded for trade in trades for row in trade.rows)
    said = [_told(trade) for trade in trades]
    return Figure(
        name=name,
        title=f"Hit rate lost against p99 won, {about}",
        about=f"Scatter plot, {about}: points of hit rate lost and share of the 99th percentile of "
        "the time to first token won, against the loosest guard of each order. "
        f"{'. '.join(said) or 'No order'}.",
        draw=lambda width: _draw(trades, width),
        caption="Means over the seeds. Each mark is a guard, joined from the loosest (hollow, "
        "where both axes are 0) to the tightest, which has the order's name. Further up the "
        "longest waits are shorter, further right less is reused."
        + (
            " Guards under which the queue grows without end (OVERLOADED) have no mark, nor any "
            "against such a loosest one: seconds would measure the trace's length."
            if over
            else ""
        ),
        table=_table(trades, about),
        definitions=(*_TERMS, *defined("ttft_p99_s", "cold_hit_rate_share")),
    )


def _spots(trade: GuardTrade) -> list[_Spot]:
    """Return what can be drawn, the loosest guard first; nothing without it."""
    if trade.rows[0].overloaded or not trade.rows[0].runs:
        return []
    spots = [_Spot(trade.rows[0].guard.label, 0.0, 0.0)]
    for row in trade.rows[1:]:
        if not row.overloaded and row.hit_points and row.ttft_p99_changes:
            # Rounded, so that nothing lost is no -0.00.
            lost, won = (
                0.0 - round(fmean(values), 6) for values in (row.hit_points, row.ttft_p99_changes)
            )
            spots.append(_Spot(row.guard.label, lost, won))
    return spots


def _told(trade: GuardTrade) -> str:
    spots = _spots(trade)[1:]
    said = [f"{s.said} loses {s.lost:.2f} points and wins {percent(s.won, 1)}" for s in spots]
    return f"{trade.place.policy}: {', '.join(said) or 'no guard can be compared'}"


def _table(trades: Sequence[GuardTrade], about: str) -> DataTable:
    return DataTable(
        f"Guards against the loosest of each order, {about}",
        (
            Column("order"),
            Column("guard", words=True),
            Column("hit cold", "%"),
            Column("hit lost", "points"),
            Column("TTFT p99", "s"),
            Column("TTFT max", "s"),
            Column("p99 won", "%"),
            Column("overtaken max", "tok"),
        ),
        [
            (trade.place.policy, row.guard.label, *_cells(row))
            for trade in trades
            for row in trade.rows
        ],
    )


def _cells(row: GuardRow) -> list[str]:
    over = any(run.overloaded for run in row.runs)
    return [
        _mean([100 * v for v in _values(row, "cold_hit_rate_share")], 2),
        _mean([-v for v in row.hit_points], 2),
        *(HIDDEN if over else _mean(_values(row, n), 3) for n in ("ttft_p99_s", "ttft_max_s")),
        HIDDEN if row.overloaded else _mean([-100 * v for v in row.ttft_p99_changes], 1),
        _mean(_values(row, "overtaken_max_tokens"), 0),
    ]


def _values(row: GuardRow, name: str) -> list[float]:
    return [value for run in row.runs if (value := run.values[name]) is not None]


def _mean(values: Sequence[float], decimals: int) -> str:
    # 0.0 is added so that nothing lost is no -0.
    return fixed(round(fmean(values), decimals) + 0.0 if values else None, decimals)


def _draw(trades: Sequence[GuardTrade], width: float) -> Canvas:
    room = 130.0 if width < NARROW_BELOW else 220.0
    drawable = [(i, trade, spots) for i, trade in enumerate(trades) if (spots := _spots(trade))]
    marks = [(i, spot) for i, _, spots in drawable for spot in spots[1:]]
    names = {
        (i, spots[-1]): fitted_name(f"{trade.place.policy} {spots[-1].said}", room)
        for i, trade, spots in drawable
    }
    labels = [names.get(mark, mark[1].said) for mark in marks]
    right = max(map(label_width, labels), default=0.0) + 14
    frame = Frame(54.0, _TOP, width - right, _TOP + max(260.0, _GAP * len(marks) + 45))
    x = LinearScale.around([0.0, *(s.lost for _, s in marks)], frame.left, frame.right)
    y = LinearScale.around([0.0, *(s.won for _, s in marks)], frame.bottom, frame.top)
    drawn = [text(0, 14, "p99 time to first token won", "h3")]
    drawn += y_axis(frame, y, lambda v: percent(v, 0 if y.high - y.low >= 0.04 else 1))
    drawn += x_axis(frame, x, lambda v: f"{v:g}", title="points of hit rate lost", edge=width)
    drawn.append(line(x.at(0), frame.top, x.at(0), frame.bottom, "a"))
    drawn.append(line(frame.left, y.at(0), frame.right, y.at(0), "a"))
    for i, _, spots in drawable:
        drawn.append(
            polyline([[(x.at(s.lost), y.at(s.won)) for s in spots]], f"l {series_class(i)}")
        )
    loosest = drawable[0][2][0].said if drawable else ""
    drawn += _named(marks, labels, set(names), loosest, x, y, frame)
    drawn += [marker(i, x.at(0), y.at(0), hollow=True) for i, _, _ in drawable]
    return Canvas(drawn, frame.bottom + 42)


def _named(
    marks: Sequence[_Mark],
    labels: Sequence[str],
    ends: Collection[_Mark],
    loosest: str,
    x: LinearScale,
    y: LinearScale,
    frame: Frame,
) -> list[Markup]:
    """Draw the marks, each with its label beside it, or joined to it where others are near."""
    drawn: list[Markup] = []
    wanted = [y.at(mark[1].won) - (_ABOVE if mark in ends else -_BELOW) for mark in marks]
    wanted.append(y.at(0) - _ABOVE)
    *places, origin = spread(wanted, _GAP, frame.top - _ABOVE, frame.bottom)
    aside = x.at(0) - 8 > frame.left + label_width(loosest)  # else where the axis has its numbers
    at = x.at(0) + (-8 if aside else 9)
    drawn.append(text(at, origin + 4, loosest, "k", "end" if aside else "start"))
    for (i, spot), said, place, own in zip(marks, labels, places, wanted, strict=False):
        at, high = x.at(spot.lost), y.at(spot.won)
        if abs(place - own) > _GAP / 3:
            drawn.append(line(at, high, at + 9, place, f"l thin s{i % COLOURS}"))
        drawn.append(marker(i, at, high))
        drawn.append(label(i, at + 10, place + 4, said))
    return drawn
