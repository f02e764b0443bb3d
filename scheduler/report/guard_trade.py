"""GuardTrade: what each guard of an order costs in hit rate and wins in waits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from scheduler.report.guard_setting import GuardSetting
from scheduler.report.summary import Summary
from scheduler.report.sweep import SweepCell

__all__ = ["GuardRow", "GuardTrade", "guard_trades"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRow:
    """One guard against the loosest one, which itself has no differences.

    A difference is between runs of one seed.
    """

    guard: GuardSetting
    runs: Sequence[Summary]
    """One a seed, without those that failed."""
    hit_points: Sequence[float]
    """Cold hit rate - that of the loosest guard, in percentage points."""
    ttft_p99_changes: Sequence[float]
    """p99 TTFT / that of the loosest guard - 1."""
    ttft_max_changes: Sequence[float]
    overloaded: bool
    """In some run of this guard, or of the loosest, the queue grew without end: changes of
    seconds would measure the trace's length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardTrade:
    """The guards of one order at one capacity and load, from the loosest to the tightest."""

    place: SweepCell
    """One of its cells: order, capacity and load are those of all."""
    rows: Sequence[GuardRow]


def guard_trades(cells: Iterable[SweepCell]) -> list[GuardTrade]:
    """Return the trade of each order that ran under several guards, at each capacity and load.

    ``cells`` are runs of a grid. The loosest guard has the largest base, and of those the
    largest kappa.
    """
    groups: dict[Hashable, list[SweepCell]] = {}
    for cell in cells:
        at = (cell.capacity_tokens, cell.load, cell.rate, cell.time_scale, cell.policy)
        groups.setdefault(at, []).append(cell)
    trades = []
    for group in groups.values():
        guards = sorted({cell.guard for cell in group}, reverse=True)
        if len(guards) > 1:
            loosest = _by_seed(group, guards[0])
            rows = [_row(guard, _by_seed(group, guard), loosest) for guard in guards]
            rows[0] = replace(rows[0], hit_points=(), ttft_p99_changes=(), ttft_max_changes=())
            trades.append(GuardTrade(place=group[0], rows=rows))
    return trades


def _by_seed(cells: Sequence[SweepCell], guard: GuardSetting) -> dict[int, Summary]:
    return {
        cell.seed: cell.summary
        for cell in cells
        if cell.guard == guard and cell.summary is not None
    }


def _row(guard: GuardSetting, runs: dict[int, Summary], loosest: dict[int, Summary]) -> GuardRow:
    pairs = [(run, loosest[seed]) for seed, run in runs.items() if seed in loosest]
    return GuardRow(
        guard=guard,
        runs=list(runs.values()),
        hit_points=_compared(pairs, "cold_hit_rate_share", lambda own, least: 100 * (own - least)),
        ttft_p99_changes=_compared(pairs, "ttft_p99_s", _change),
        ttft_max_changes=_compared(pairs, "ttft_max_s", _change),
        overloaded=any(run.overloaded for pair in (runs, loosest) for run in pair.values()),
    )


def _compared(
    pairs: Sequence[tuple[Summary, Summary]],
    name: str,
    compare: Callable[[float, float], float | None],
) -> list[float]:
    found = []
    for run, loosest in pairs:
        own, other = run.values[name], loosest.values[name]
        if own is not None and other is not None and (value := compare(own, other)) is not None:
            found.append(value)
    return found


def _change(own: float, loosest: float) -> float | None:
    return own / loosest - 1 if loosest else None
