"""The tables of a sweep: one a capacity and load, what guards cost, the highest rates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple, TypeAlias

from scheduler.report.guard_setting import GuardSetting
from scheduler.report.guard_trade import GuardRow, GuardTrade, guard_trades
from scheduler.report.metrics import Metric, metric
from scheduler.report.plain_text import HIDDEN, OVERLOADED_NOTE, UNCALIBRATED_NOTE, lined_up
from scheduler.report.summary import EXTRAPOLATED, Summary
from scheduler.report.sweep import Limit, Sweep, SweepCell
from scheduler.report.table import UNIT_SHOWN

__all__ = ["SweepTable", "place_said", "render_sweep", "sweep_notes", "sweep_tables"]

_COLUMNS = (
    "optimal_reached_share",
    "ttft_mean_s",
    "ttft_p99_s",
    "ttft_max_s",
    "drain_requests_per_s",
    "utilisation_share",
)
_LIMIT_COLUMNS = (
    "optimal_reached_share",
    "ttft_mean_s",
    "ttft_p99_s",
    "ttft_max_s",
    "utilisation_share",
)
_GUARD_COLUMNS = ("cold_hit_rate_share", "ttft_p99_s", "ttft_max_s", "overtaken_max_tokens")
_WIDTH = 88

Labels: TypeAlias = Mapping[tuple[str, GuardSetting], str]


class SweepTable(NamedTuple):
    """One table as text: a title, and rows of equal length, the header and units first."""

    title: str
    rows: Sequence[Sequence[str]]

    def render(self) -> str:
        """Return the table as plain text."""
        return f"{self.title}\n{lined_up(self.rows)}"


def render_sweep(sweep: Sweep) -> str:
    """Return the tables and their notes as plain text."""
    tables = [table.render() for table in sweep_tables(sweep)]
    return "\n".join([*tables, "\n".join(sweep_notes(sweep)) + "\n"])


def sweep_tables(sweep: Sweep) -> list[SweepTable]:
    """Return a table for each capacity and load of the grid, those of guards, and the limits.

    Cells of several seeds are one row: their mean, and ± their sample standard deviation.
    """
    grid = [cell for cell in sweep.cells if cell.meets_target is None]
    labels = sweep.labels()
    tables = [
        _grid_table(cells, labels)
        for cells in _grouped(
            grid, lambda cell: (cell.capacity_tokens, cell.load, cell.rate, cell.time_scale)
        )
    ]
    tables += [_guard_table(trade) for trade in guard_trades(grid)]
    if sweep.limits:
        tables.append(_limit_table(sweep, labels))
    return tables


def sweep_notes(sweep: Sweep) -> list[str]:
    """Say how the numbers are to be read, and what was assumed in every run."""
    summaries = [cell.summary for cell in sweep.cells if cell.summary is not None]
    notes = []
    seeds = len({cell.seed for cell in sweep.cells})
    if seeds > 1:
        notes.append(f"Means over {seeds} seeds, ± the sample standard deviation.")
    grid = [cell.summary for cell in sweep.cells if cell.meets_target is None]
    if any(summary is not None and summary.overloaded for summary in grid):
        notes.append(
            f"{OVERLOADED_NOTE} OVERLOADED 1/3: for one of three seeds. The rows of --output have "
            "all numbers."
        )
    if guard_trades(cell for cell in sweep.cells if cell.meets_target is None):
        notes.append(
            "A guard B0+KAPPA lets later arrivals put B0 tokens + KAPPA of the backlog at arrival "
            "before a request; inf: no bound. Changes are against the loosest guard"
            f"{', seed by seed' if seeds > 1 else ''}; 0+0 is arrival order."
        )
    if sweep.target_ttft_p99_s is not None and sweep.tolerance is not None:
        notes.append(
            f"Highest rate: doubled or halved until one rate passes and one fails, then "
            f"bisected to {100 * sweep.tolerance:g}%; each probe is a full run, which passes "
            f"with p99 TTFT <= {sweep.target_ttft_p99_s:g} s and without OVERLOADED. It need "
            "not be monotone: the rate passes, one at most that much higher does not. "
            "'>=': the runs are too short to find the limit."
        )
    if not all(summary.calibrated for summary in summaries):
        notes.append(UNCALIBRATED_NOTE)
    outside = sum(EXTRAPOLATED in summary.assumptions for summary in summaries)
    if outside:
        notes.append(
            f"Extrapolated: in {outside} of {len(summaries)} runs steps left the fitted range of "
            "the cost model; the rows of --output say how far."
        )
    notes.append(f"Assumed in every run: {_shared(summaries)}.")
    return ["\n".join(wrap(note, _WIDTH, subsequent_indent="  ")) for note in notes]


def _shared(summaries: Sequence[Summary]) -> str:
    """Return the assumptions that all runs agree on."""
    names = sorted({n for summary in summaries for n in summary.assumptions} - {EXTRAPOLATED})
    shared = []
    for name in names:
        values = {summary.assumptions.get(name) for summary in summaries}
        if len(values) == 1:
            shared.append(f"{name} {values.pop()}")
    return "; ".join(shared) or "nothing"


def _grouped(
    cells: Iterable[SweepCell], key: Callable[[SweepCell], Hashable]
) -> list[list[SweepCell]]:
    """Return the cells by key, groups in order of their first."""
    groups: dict[Hashable, list[SweepCell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return list(groups.values())


def _grid_table(cells: Sequence[SweepCell], labels: Labels) -> SweepTable:
    shown = [metric(name) for name in _COLUMNS]
    rows = [*_heads("verdict", "", shown)]
    for group in _grouped(cells, lambda cell: (cell.policy, cell.guard)):
        runs = [cell.summary for cell in group if cell.summary is not None]
        failed = len(group) - len(runs)
        verdict = f"{failed} FAILED" if failed else _verdict(runs)
        label = labels[group[0].policy, group[0].guard]
        rows.append([label, verdict, *(_cell(m, runs) for m in shown)])
    return SweepTable(_title(cells), rows)


def _title(cells: Sequence[SweepCell]) -> str:
    # What is offered, and the optimum, are the same for all runs of a seed.
    by_seed = {cell.seed: cell.summary for cell in cells if cell.summary is not None}
    runs = list(by_seed.values())
    offered = _cell(metric("offered_requests_per_s"), runs)
    optimum = _cell(metric("optimal_hit_rate_share"), runs)
    return f"{place_said(cells[0])}\n{offered} requests/s offered, DFS-optimal hit rate {optimum} %"


def place_said(cell: SweepCell) -> str:
    """Say which memory and load a cell has."""
    if cell.load is not None:
        at = f"load {cell.load:g} of what the DFS optimum could carry"
    elif cell.rate is not None:
        at = f"{cell.rate:g} requests/s"
    else:
        at = f"time scale {1.0 if cell.time_scale is None else cell.time_scale:g}"
    return f"{cell.capacity_tokens:,} tokens of KV memory, {at}"


def _guard_table(trade: GuardTrade) -> SweepTable:
    """Return the guards of an order from the loosest on, each with what it changes."""
    shown = [metric(name) for name in _GUARD_COLUMNS]
    heads = [m.header for m in shown]
    rows = [
        ["guard", heads[0], "change", heads[1], "change", heads[2], "change", heads[3]],
        ["tok + of backlog", "%", "points", "s", "%", "s", "%", "tok"],
        *(_guard_row(row, shown) for row in trade.rows),
    ]
    title = f"{trade.place.policy}: hit lost against p99 won, by guard"
    return SweepTable(f"{title}\n{place_said(trade.place)}", rows)


def _guard_row(row: GuardRow, shown: Sequence[Metric]) -> list[str]:
    hit, p99, largest, overtaken = (_cell(m, row.runs) for m in shown)
    changes = [
        HIDDEN if values and row.overloaded else _change(values, 100, 1)
        for values in (row.ttft_p99_changes, row.ttft_max_changes)
    ]
    points = _change(row.hit_points, 1, 2)
    return [row.guard.label, hit, points, p99, changes[0], largest, changes[1], overtaken]


def _limit_table(sweep: Sweep, labels: Labels) -> SweepTable:
    shown = [metric(name) for name in _LIMIT_COLUMNS]
    rows = [*_heads("KV memory", "tok", shown)]
    rows[0].insert(2, "highest rate")
    rows[1].insert(2, "req/s")
    groups: dict[tuple[int, str, GuardSetting], list[Limit]] = {}
    for limit in sweep.limits:
        groups.setdefault((limit.capacity_tokens, limit.policy, limit.guard), []).append(limit)
    for (capacity, policy, guard), limits in groups.items():
        runs = [
            cell.summary
            for cell in sweep.cells
            if (cell.capacity_tokens, cell.policy, cell.guard) == (capacity, policy, guard)
            and sweep.is_limit(cell)
            and cell.summary is not None
        ]
        cells = [_cell(m, runs) for m in shown]
        rows.append([labels[policy, guard], f"{capacity:,}", _rate(limits), *cells])
    return SweepTable(
        f"Highest rate with p99 TTFT <= {sweep.target_ttft_p99_s:g} s, and the run at it", rows
    )


def _rate(limits: Sequence[Limit]) -> str:
    if any(limit.error is not None for limit in limits):
        return "FAILED"
    rates = [limit.rate for limit in limits if limit.rate is not None]
    if len(rates) < len(limits):
        return f"none for {len(limits) - len(rates)} of {len(limits)}" if rates else "none"
    least = ">=" if any(limit.at_least for limit in limits) else ""
    return least + _spread(rates, 2 if min(rates) >= 1 else 4)


def _heads(second: str, unit: str, shown: Sequence[Metric]) -> tuple[list[str], list[str]]:
    units = [UNIT_SHOWN[m.unit] for m in shown]
    return ["policy", second, *(m.header for m in shown)], ["", unit, *units]


def _verdict(runs: Sequence[Summary]) -> str:
    verdicts = [run.load.verdict.value if run.load.verdict else "-" for run in runs]
    over = sum(run.overloaded for run in runs)
    if 0 < over < len(runs):
        return f"OVERLOADED {over}/{len(runs)}"
    return verdicts[0] if len(set(verdicts)) == 1 else "/".join(sorted(set(verdicts)))


def _cell(shown: Metric, runs: Sequence[Summary]) -> str:
    """Return mean and spread of a metric over the seeds."""
    if shown.stretches and any(run.overloaded for run in runs):
        return HIDDEN
    scale = 100 if shown.unit == "share" else 1
    known = [v * scale for run in runs if (v := run.values[shown.name]) is not None]
    return _spread(known, shown.decimals) if known else "-"


def _change(values: Sequence[float], scale: float, decimals: int) -> str:
    """Return the mean of differences with its sign, and their spread."""
    if not values:
        return "-"
    scaled = [scale * value for value in values]
    return ("+" if statistics.fmean(scaled) > 0 else "") + _spread(scaled, decimals)


def _spread(values: Sequence[float], decimals: int) -> str:
    mean = f"{statistics.fmean(values):,.{decimals}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ±{statistics.stdev(values):,.{decimals}f}"
