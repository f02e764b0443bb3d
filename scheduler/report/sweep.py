"""Sweep: many runs that differ in order, load, memory and seed, as tidy rows and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.report.document import csv_text, json_text
from scheduler.report.guard_setting import UNBOUNDED, GuardSetting
from scheduler.report.metrics import METRICS
from scheduler.report.summary import Assumption, Summary, metrics_as_dict, summary_as_dict

__all__ = ["Limit", "Sweep", "SweepCell", "sweep_to_csv", "sweep_to_json"]

SWEEP_SCHEMA_VERSION = 1
"""Raised when a field of the JSON or a column changes its name or meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCell:
    """One run of a sweep and where it stands; of the loads at most one was asked for."""

    policy: str
    capacity_tokens: int
    seed: int
    guard: GuardSetting = UNBOUNDED
    load: float | None = None
    """Load relative to the DFS optimum."""
    rate: float | None = None
    """Requests a second."""
    time_scale: float | None = None
    summary: Summary | None = None
    """None: the run failed."""
    error: str | None = None
    meets_target: bool | None = None
    """Whether a probe of a search passed; None for a run of the grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The highest rate at which p99 TTFT stays at or below the target, for one seed."""

    policy: str
    capacity_tokens: int
    seed: int
    rate: float | None
    """None: no rate that was tried."""
    guard: GuardSetting = UNBOUNDED
    at_least: bool = False
    """No rate failed: the runs are too short to find the limit."""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All that a sweep found, and how to make it again."""

    cells: Sequence[SweepCell]
    command: str
    version: str
    target_ttft_p99_s: float | None = None
    tolerance: float | None = None
    limits: Sequence[Limit] = field(default_factory=tuple)

    def is_limit(self, cell: SweepCell) -> bool:
        """Tell whether a cell is the probe that a limit rests on."""
        return bool(cell.meets_target) and any(
            limit.rate == cell.rate
            and (limit.policy, limit.guard, limit.capacity_tokens, limit.seed)
            == (cell.policy, cell.guard, cell.capacity_tokens, cell.seed)
            for limit in self.limits
        )

    def labels(self) -> Mapping[tuple[str, GuardSetting], str]:
        """Return what to call each order under each guard, in order.

        The guard stands behind the order's name where it ran under several.
        """
        pairs = dict.fromkeys(
            (row.policy, row.guard) for part in (self.cells, self.limits) for row in part
        )
        guards = Counter(policy for policy, _ in pairs)
        return {
            (policy, guard): f"{policy} {guard.label}" if guards[policy] > 1 else policy
            for policy, guard in pairs
        }


def sweep_to_csv(sweep: Sweep) -> str:
    """Return one row a run; an empty cell is a missing value, and there is no NaN.

    The first columns say which run it is, then come the metrics, the assumptions as
    ``assumed_<name>``, the command without what does not change a byte, and the version.
    """
    assumed = sorted(
        {name for cell in sweep.cells if cell.summary for name in cell.summary.assumptions}
    )
    head = list(_place(sweep, sweep.cells[0])) if sweep.cells else []
    named = [m.name for m in METRICS] + [f"assumed_{name}" for name in assumed]
    rows = []
    for cell in sweep.cells:
        row = list(_place(sweep, cell).values())
        values = cell.summary.values if cell.summary else {}
        row += [values.get(m.name) for m in METRICS]
        assumptions = cell.summary.assumptions if cell.summary else {}
        row += [assumptions.get(name) for name in assumed]
        row += [sweep.command, sweep.version]
        rows.append(row)
    return csv_text([*head, *named, "command", "version"], rows)


def sweep_to_json(sweep: Sweep) -> str:
    """Return the sweep as JSON: sorted keys, the same bytes for the same runs, no NaN."""
    document = {
        "schema_version": SWEEP_SCHEMA_VERSION,
        "command": sweep.command,
        "version": sweep.version,
        "metrics": metrics_as_dict(),
        "target": None
        if sweep.target_ttft_p99_s is None
        else {"ttft_p99_s": sweep.target_ttft_p99_s, "tolerance": sweep.tolerance},
        "limits": [
            {
                "policy": limit.policy,
                "capacity_tokens": limit.capacity_tokens,
                **_bound(limit.guard),
                "seed": limit.seed,
                "rate_requests_per_s": limit.rate,
                "at_least": limit.at_least,
                "error": limit.error,
            }
            for limit in sweep.limits
        ],
        "cells": [
            _place(sweep, cell)
            | {"run": None if cell.summary is None else summary_as_dict(cell.summary)}
            for cell in sweep.cells
        ],
    }
    return json_text(document)


def _place(sweep: Sweep, cell: SweepCell) -> dict[str, Assumption]:
    """Return which run a cell is, and whether it counts."""
    summary = cell.summary
    verdict = summary.load.verdict if summary else None
    search = cell.meets_target is not None
    return {
        "policy": cell.policy,
        "capacity_tokens": cell.capacity_tokens,
        **_bound(cell.guard),
        "load": cell.load,
        "rate_requests_per_s": cell.rate,
        "time_scale": cell.time_scale,
        "seed": cell.seed,
        "part": "search" if search else "grid",
        "target_ttft_p99_s": sweep.target_ttft_p99_s if search else None,
        "meets_target": cell.meets_target,
        "is_limit": sweep.is_limit(cell) if search else None,
        "verdict": verdict.value if verdict else None,
        "error": cell.error,
        "calibrated": summary.calibrated if summary else None,
        "optimal_exact": summary.optimal_exact if summary else None,
    }


def _bound(guard: GuardSetting) -> dict[str, Assumption]:
    """Return the columns of a guard: nothing in them where it bounds nothing."""
    return {
        "guard_base_tokens": int(guard.base_tokens) if guard.bounded else None,
        "guard_kappa": guard.kappa if guard.bounded else None,
    }
