"""Summary: one run in numbers, ready for a table, JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.report.details import RunDetails, details_of
from scheduler.report.document import csv_text, json_text
from scheduler.report.metrics import METRICS, Run
from scheduler.report.recorder import Recorder
from scheduler.report.stability import LoadJudgement, Verdict

__all__ = [
    "EXTRAPOLATED",
    "SCHEMA_VERSION",
    "Assumption",
    "Summary",
    "metrics_as_dict",
    "summarize",
    "summary_as_dict",
    "to_csv",
    "to_json",
]

SCHEMA_VERSION = 1
"""Raised when a field of the JSON changes its name or meaning."""

EXTRAPOLATED = "extrapolated"
"""Name of the assumption that a run left the range its cost model was fitted to."""

Assumption = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The metrics of one run by name, its verdict, and what was assumed."""

    label: str
    """The row's name, as a rule the policy."""
    values: Mapping[str, float | int | None]
    load: LoadJudgement
    calibrated: bool
    """False: the cost model was not measured on a server; seconds only order policies."""
    seed: int | None = None
    assumptions: Mapping[str, Assumption] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    """Requests by finish reason."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Refused requests by reason."""
    optimal_exact: bool = True
    details: RunDetails | None = None
    """Distributions for charts, where they were asked for; no part of JSON and CSV."""

    @property
    def overloaded(self) -> bool:
        """Tell whether the queue grew without end."""
        return self.load.verdict is Verdict.OVERLOADED


def summarize(
    recorder: Recorder,
    *,
    label: str,
    page_size: int,
    optimal_hit_rate: float | None = None,
    optimal_exact: bool = True,
    ceiling_hit_rate: float | None = None,
    calibrated: bool = False,
    seed: int | None = None,
    assumptions: Mapping[str, Assumption] | None = None,
    details: bool = False,
    unsent_requests: int = 0,
) -> Summary:
    """Compute every metric of a run that has ended.

    ``optimal_hit_rate`` and ``ceiling_hit_rate`` belong to the same requests, page size and
    rule for cached outputs, or the percentage reached means nothing. ``unsent_requests`` of them
    were never sent. ``details`` keeps what charts are drawn from.

    Cost: O(requests log requests + steps).
    """
    run = Run(recorder, page_size, optimal_hit_rate, ceiling_hit_rate, unsent_requests)
    said = dict(assumptions or {})
    if run.never_admitted:
        said["never_admitted"] = f"{run.never_admitted} requests: in the bounds, in no hit rate"
    return Summary(
        label=label,
        values={m.name: m.compute(run) for m in METRICS},
        load=run.load,
        calibrated=calibrated,
        seed=seed,
        assumptions=said,
        ended=dict(sorted(recorder.ended.items())),
        rejected=dict(sorted(recorder.rejected.items())),
        optimal_exact=optimal_exact,
        details=details_of(run) if details else None,
    )


def to_json(summaries: Sequence[Summary], **more: object) -> str:
    """Return the runs as JSON, and what more there is to say: the same bytes for the same runs."""
    return json_text(
        {
            "schema_version": SCHEMA_VERSION,
            "metrics": metrics_as_dict(),
            "runs": [summary_as_dict(summary) for summary in summaries],
            **more,
        }
    )


def to_csv(summaries: Sequence[Summary]) -> str:
    """Return the runs as CSV: one row a run, one column a metric, its unit last in the name.

    An assumption becomes a column ``assumed_<name>``; an empty cell is a missing value.
    """
    assumed = sorted({name for summary in summaries for name in summary.assumptions})
    names = ["label", "verdict", "seed", "calibrated", "optimal_exact"]
    names += [m.name for m in METRICS] + [f"assumed_{name}" for name in assumed]
    rows = []
    for summary in summaries:
        verdict = summary.load.verdict
        row: list[Assumption] = [summary.label, verdict.value if verdict else None, summary.seed]
        row += [summary.calibrated, summary.optimal_exact]
        row += [summary.values[m.name] for m in METRICS]
        row += [summary.assumptions.get(name) for name in assumed]
        rows.append(row)
    return csv_text(names, rows)


def metrics_as_dict() -> dict[str, dict[str, str]]:
    """Return unit, formula and meaning of every metric, for JSON."""
    return {m.name: {"unit": m.unit, "formula": m.formula, "description": m.doc} for m in METRICS}


def summary_as_dict(summary: Summary) -> dict[str, object]:
    """Return one run for JSON."""
    verdict = summary.load.verdict
    return {
        "label": summary.label,
        "verdict": verdict.value if verdict else None,
        "load": {
            "backlog_growth_tokens": summary.load.growth_tokens,
            "backlog_lowest_tokens": summary.load.lowest_tokens,
            "step_tokens": summary.load.step_tokens,
        },
        "values": dict(summary.values),
        "calibrated": summary.calibrated,
        "seed": summary.seed,
        "assumptions": dict(summary.assumptions),
        "ended": dict(summary.ended),
        "rejected": dict(summary.rejected),
        "optimal_exact": summary.optimal_exact,
    }
