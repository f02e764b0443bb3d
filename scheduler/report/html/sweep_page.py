"""The report of a sweep: orders by load, memory and seed, and the highest rates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from scheduler.report.guard_trade import GuardTrade, guard_trades
from scheduler.report.html.charts_guards import guard_figure
from scheduler.report.html.charts_hit_rate import HitRate, hit_rate_figure
from scheduler.report.html.charts_sweep import (
    Axis,
    HighestRate,
    Line,
    Spot,
    highest_rate_figure,
    trend_figure,
)
from scheduler.report.html.figure import Column, DataTable, Definition, Figure
from scheduler.report.html.page import Fact, HtmlReport, Section
from scheduler.report.html.text import amount, seconds
from scheduler.report.metrics import METRICS
from scheduler.report.order_words import words_of
from scheduler.report.summary import Summary
from scheduler.report.sweep import Limit, Sweep, SweepCell
from scheduler.report.sweep_table import place_said, sweep_notes, sweep_tables

__all__ = ["sweep_report"]

_MOST_SAID = 3
Item = TypeVar("Item")


_GUARD = (
    "A guard bounds how much work of later arrivals may go before a request: so many tokens + a "
    "share of the backlog it found; inf is no bound."
)


def sweep_report(sweep: Sweep, *, subject: str, notes: Sequence[str] = ()) -> HtmlReport:
    """Return the report of a sweep of which at least one run did not fail."""
    grid = [cell for cell in sweep.cells if cell.meets_target is None]
    named = _labelled(sweep)
    trends = _trends([cell for cell in named.cells if cell.meets_target is None])
    sections = [*trends, *_guards(guard_trades(grid)), *_limits(named)]
    return HtmlReport(
        title="Scheduling orders under load",
        subject=subject,
        summary=[*_findings(named), *_guard_findings(guard_trades(grid)), *_calibration(sweep)],
        command=sweep.command,
        version=sweep.version,
        notes=[*notes, *(" ".join(note.split()) for note in sweep_notes(sweep))],
        sections=[
            *sections,
            Section(
                "numbers",
                "The numbers",
                tables=[_as_table(table.title, table.rows) for table in sweep_tables(sweep)],
                definitions=[Definition(m.header, m.formula, m.doc) for m in METRICS],
            ),
            Section("orders", "What the orders do", facts=_orders(sweep)),
        ],
    )


def _labelled(sweep: Sweep) -> Sweep:
    """Return the sweep with each order under each of several guards as an order of its own."""
    labels = sweep.labels()
    return replace(
        sweep,
        cells=[replace(cell, policy=labels[cell.policy, cell.guard]) for cell in sweep.cells],
        limits=[replace(row, policy=labels[row.policy, row.guard]) for row in sweep.limits],
    )


def _findings(sweep: Sweep) -> list[str]:
    """Say how far each order goes at the target, and what did not run."""
    said = []
    for capacity, limits in _grouped(sweep.limits, lambda limit: limit.capacity_tokens):
        rows = [row for row in _highest(limits) if row.rates]
        if len(rows) > 1 and sweep.target_ttft_p99_s is not None:
            best = max(rows, key=lambda row: fmean(row.rates))
            least = min(rows, key=lambda row: fmean(row.rates))
            said.append(
                f"With {amount(capacity)} tokens of KV memory, {best.name} keeps p99 TTFT at or "
                f"below {seconds(sweep.target_ttft_p99_s)} up to {fmean(best.rates):.3g} "
                f"requests/s, {least.name} up to {fmean(least.rates):.3g}."
            )
    said += _at_the_highest_load(sweep)
    failed = sum(row.error is not None for part in (sweep.cells, sweep.limits) for row in part)
    if failed:
        said.append(f"Runs or searches that failed and are missing here: {failed}.")
    return said


def _at_the_highest_load(sweep: Sweep) -> list[str]:
    """Say who answers soonest at the highest load at which every run is stable."""
    grid = [cell for cell in sweep.cells if cell.meets_target is None]
    for load in sorted({_load(cell) for cell in grid}, reverse=True):
        cells = [cell for cell in grid if _load(cell) == load]
        runs = [cell.summary for cell in cells if cell.summary is not None]
        if len(runs) < len(cells) or any(run.overloaded for run in runs):
            continue
        means = [
            (fmean(values), policy)
            for policy, own in _by_policy(cells)
            if (values := _values(own, "ttft_mean_s"))
        ]
        if len(means) < 2:
            return []
        (least, quick), (most, slow) = min(means), max(means)
        said = (
            f"At {_load_text(cells[0])}, the highest here at which no queue grows without end, "
            f"{quick} has the shortest mean time to first token, {seconds(least)}, {slow} the "
            f"longest, {seconds(most)}."
        )
        return [said]
    return []


def _calibration(sweep: Sweep) -> list[str]:
    runs = [cell.summary for cell in sweep.cells if cell.summary is not None]
    if all(run.calibrated for run in runs):
        return []
    return ["Seconds are simulated and not calibrated: they compare orders, not servers."]


def _by_policy(cells: Sequence[SweepCell]) -> Iterable[tuple[str, list[Summary]]]:
    for policy in dict.fromkeys(cell.policy for cell in cells):
        yield policy, [c.summary for c in cells if c.policy == policy and c.summary is not None]


def _load_text(cell: SweepCell) -> str:
    if cell.load is not None:
        return f"a load of {cell.load:g}"
    return f"{cell.rate:g} requests/s" if cell.rate is not None else f"time scale {_load(cell):g}"


def _orders(sweep: Sweep) -> list[Fact]:
    """Say what each order does, for the built-in ones."""
    labels = dict.fromkeys(
        [cell.policy for cell in sweep.cells] + [limit.policy for limit in sweep.limits]
    )
    return [Fact(label, words) for label in labels if (words := words_of(label)) is not None]


def _grouped(
    items: Iterable[Item], key: Callable[[Item], Hashable]
) -> list[tuple[int, list[Item]]]:
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [(key, found) for key, found in groups.items() if isinstance(key, int)]


def _load(cell: SweepCell) -> float:
    """Return where a cell stands on the load axis."""
    given = (cell.load, cell.rate, cell.time_scale)
    return next((value for value in given if value is not None), 1.0)


def _load_axis(cells: Sequence[SweepCell]) -> Axis:
    if any(cell.load is not None for cell in cells):
        return Axis("load relative to the DFS optimum", lambda v: f"{v:g}")
    if any(cell.rate is not None for cell in cells):
        return Axis("requests/s", lambda v: f"{v:g}")
    return Axis("time scale", lambda v: f"{v:g}")


def _trends(grid: Sequence[SweepCell]) -> list[Section]:
    """Draw along the loads, memory by memory; or along the memory, load by load."""
    cells = [cell for cell in grid if cell.summary is not None]
    if not cells:
        return []
    loads = {_load(cell) for cell in cells}
    capacities = _grouped(cells, lambda cell: cell.capacity_tokens)
    if len(loads) > 1:
        return [
            Section(
                f"load-{i}",
                f"By load, {amount(capacity)} tokens of memory"
                if len(capacities) > 1
                else "By load",
                figures=[_trend(f"by-load-{i}", "By load", own, _load, _load_axis(own))],
            )
            for i, (capacity, own) in enumerate(capacities, start=1)
        ]
    if len(capacities) > 1:
        axis = Axis("tokens of KV memory", amount)
        figure = _trend(
            "by-memory", "By memory", cells, lambda cell: float(cell.capacity_tokens), axis
        )
        return [Section("memory", "By memory", figures=[figure])]
    return [Section("hit-rates", "How much is reused", figures=[_one_place(cells)])]


def _trend(
    name: str,
    title: str,
    cells: Sequence[SweepCell],
    place: Callable[[SweepCell], float],
    axis: Axis,
) -> Figure:
    lines = []
    for policy in dict.fromkeys(cell.policy for cell in cells):
        own = [cell for cell in cells if cell.policy == policy]
        lines.append(
            Line(
                policy,
                [
                    _spot(x, [c.summary for c in own if place(c) == x and c.summary is not None])
                    for x in sorted({place(cell) for cell in own})
                ],
            )
        )
    return trend_figure(name, title, lines, axis, optimum=_mean_of(cells, "optimal_hit_rate_share"))


def _spot(x: float, runs: Sequence[Summary]) -> Spot:
    over = any(run.overloaded for run in runs)
    return Spot(
        x,
        [] if over else _values(runs, "ttft_p99_s"),
        _values(runs, "cold_hit_rate_share"),
        overloaded=over,
    )


def _values(runs: Iterable[Summary], name: str) -> list[float]:
    return [value for run in runs if (value := run.values[name]) is not None]


def _mean_of(cells: Sequence[SweepCell], name: str) -> float | None:
    values = _values((cell.summary for cell in cells if cell.summary is not None), name)
    return fmean(values) if values else None


def _one_place(cells: Sequence[SweepCell]) -> Figure:
    """Draw means over the seeds where neither load nor memory differs."""
    rows = []
    for policy in dict.fromkeys(cell.policy for cell in cells):
        own = [cell for cell in cells if cell.policy == policy]
        names = ("cold_hit_rate_share", "warm_hit_rate_share", "optimal_reached_share")
        rows.append(HitRate(policy, *(_mean_of(own, name) for name in names)))
    exact = all(cell.summary.optimal_exact for cell in cells if cell.summary is not None)
    return hit_rate_figure(
        rows,
        optimum=_mean_of(cells, "optimal_hit_rate_share"),
        ceiling=_mean_of(cells, "ceiling_hit_rate_share"),
        exact=exact,
    )


def _guards(trades: Sequence[GuardTrade]) -> list[Section]:
    """Draw what guards cost and win, a picture for each memory and load."""
    places: dict[str, list[GuardTrade]] = {}
    for trade in trades:
        places.setdefault(place_said(trade.place), []).append(trade)
    figures = [
        guard_figure(f"guards-{i}", own, about=about)
        for i, (about, own) in enumerate(places.items(), start=1)
    ]
    return [Section("guards", "What guards cost and win", figures=figures)] if figures else []


def _guard_findings(trades: Sequence[GuardTrade]) -> list[str]:
    """Say for each order which guard has the shortest p99, and what that costs."""
    said = []
    for trade in trades[:_MOST_SAID]:
        timed = [row for row in trade.rows if not row.overloaded and row.ttft_p99_changes]
        if timed:
            best = min(timed, key=lambda row: fmean(row.ttft_p99_changes))
            said.append(
                f"Of the guards of {trade.place.policy}, {best.guard.label} has the shortest p99 "
                f"TTFT ({place_said(trade.place)}): {100 * fmean(best.ttft_p99_changes):+.1f} % "
                f"against {trade.rows[0].guard.label}, at {fmean(best.hit_points):+.2f} points of "
                "hit rate."
            )
    return [_GUARD, *said] if said else []


def _highest(limits: Sequence[Limit]) -> list[HighestRate]:
    rows = []
    for policy in dict.fromkeys(limit.policy for limit in limits):
        own = [limit for limit in limits if limit.policy == policy]
        rates = [limit.rate for limit in own if limit.rate is not None]
        rows.append(HighestRate(policy, rates, any(limit.at_least for limit in own), len(own)))
    return rows


def _limits(sweep: Sweep) -> list[Section]:
    if not sweep.limits or sweep.target_ttft_p99_s is None:
        return []
    figures = [
        highest_rate_figure(
            f"highest-{i}",
            _highest(limits),
            target_s=sweep.target_ttft_p99_s,
            about=f"{amount(capacity)} tokens of KV memory",
        )
        for i, (capacity, limits) in enumerate(
            _grouped(sweep.limits, lambda limit: limit.capacity_tokens), start=1
        )
    ]
    return [
        Section(
            "highest",
            f"Highest rate with p99 TTFT at most {seconds(sweep.target_ttft_p99_s)}",
            figures=figures,
        )
    ]


def _as_table(title: str, rows: Sequence[Sequence[str]]) -> DataTable:
    """Return a table of text with a header and a row of units."""
    names, units, *body = rows
    columns = [
        Column(name, unit, words=place == 1)
        for place, (name, unit) in enumerate(zip(names, units, strict=True))
    ]
    return DataTable(" · ".join(title.splitlines()), columns, body)
