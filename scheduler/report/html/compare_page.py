"""The report of a comparison: several runs on one trace."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.report.html.charts_hit_rate import HitRate, hit_rate_figure
from scheduler.report.html.charts_latency import (
    Distribution,
    GroupWaits,
    ttft_figure,
    waits_figure,
)
from scheduler.report.html.charts_time import Course, course_figure
from scheduler.report.html.figure import Column, DataTable, Definition
from scheduler.report.html.page import Fact, HtmlReport, Section
from scheduler.report.html.text import percent, seconds
from scheduler.report.metrics import METRICS, Metric, metric
from scheduler.report.order_words import words_of
from scheduler.report.summary import Summary
from scheduler.report.table import UNIT_SHOWN, notes_on_runs, shown_value, shown_verdict

__all__ = ["compare_report"]

_HEADLINE = (
    "cold_hit_rate_share",
    "optimal_reached_share",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p99_s",
    "overtaken_max_tokens",
)
_VERDICT = (
    "STABLE: the queue does not grow for as long as requests arrive; OVERLOADED: it does, and "
    "waiting times say how long the trace is; -: the run is too short to tell."
)


def compare_report(
    summaries: Sequence[Summary],
    *,
    subject: str,
    command: str,
    version: str,
    notes: Sequence[str] = (),
) -> HtmlReport:
    """Return the report of runs on the same requests; ``notes`` are about these."""
    return HtmlReport(
        title="Scheduling orders compared" if len(summaries) > 1 else "One scheduling order",
        subject=subject,
        summary=_findings(summaries),
        command=command,
        version=version,
        notes=[*notes, *notes_on_runs(summaries, _HEADLINE)],
        sections=[
            Section(
                "overview",
                "Overview",
                tables=[_headline(summaries)],
                facts=_orders(summaries),
                definitions=_headline_definitions(summaries),
            ),
            _hit_rates(summaries),
            *_detailed(summaries),
            Section(
                "numbers",
                "Every number",
                tables=[_every_number(summaries)],
                definitions=[Definition(m.header, m.formula, m.doc) for m in METRICS],
            ),
            Section("assumed", "What was assumed", facts=_assumed(summaries)),
        ],
    )


def _findings(summaries: Sequence[Summary]) -> list[str]:
    """Say which run reuses most and which answers soonest, where they differ."""
    said = []
    rated = [(rate, s) for s in summaries if (rate := s.values["cold_hit_rate_share"]) is not None]
    if rated:
        rate, best = max(rated, key=lambda pair: pair[0])
        reached = best.values["optimal_reached_share"]
        optimum = best.values["optimal_hit_rate_share"]
        said.append(
            f"{best.label} reuses most: {percent(rate)} of all prompt tokens"
            + (f", {percent(reached, 1)} of the optimum ({percent(optimum)})" if reached else "")
            + "."
        )
    stable = [s for s in summaries if not s.overloaded]
    timed = [(mean, s) for s in stable if (mean := s.values["ttft_mean_s"]) is not None]
    if timed:
        mean, quick = min(timed, key=lambda pair: pair[0])
        _, calm = min(timed, key=lambda pair: pair[1].values["ttft_p99_s"] or 0.0)
        text = (
            f"{quick.label} has the shortest mean time to first token, {seconds(mean)} "
            f"(99th percentile {seconds(quick.values['ttft_p99_s'])})"
        )
        if calm is not quick:
            text += (
                f"; {calm.label} the shortest 99th percentile, "
                f"{seconds(calm.values['ttft_p99_s'])} (mean {seconds(calm.values['ttft_mean_s'])})"
            )
        said.append(text + ".")
    over = [s for s in summaries if s.overloaded]
    if over:
        said.append(
            f"Overloaded, their queues grow without end: {', '.join(s.label for s in over)}."
        )
    drained = [(rate, s) for s in over if (rate := s.values["drain_requests_per_s"]) is not None]
    if len(drained) > 1:
        rate, most = max(drained, key=lambda pair: pair[0])
        said.append(f"Of these {most.label} gets most done, {rate:.2f} requests/s.")
    if timed and not all(s.calibrated for s in summaries):
        said.append("Seconds are simulated and not calibrated: they compare orders, not servers.")
    return said


def _headline_metrics(summaries: Sequence[Summary]) -> list[Metric]:
    shown = [metric(name) for name in _HEADLINE]
    if any(s.overloaded for s in summaries):
        shown[2:2] = [metric("drain_requests_per_s")]
        shown.remove(metric("ttft_p50_s"))
    return shown


def _headline_definitions(summaries: Sequence[Summary]) -> list[Definition]:
    return [
        Definition("verdict", "", _VERDICT),
        *(Definition(m.header, m.formula, m.doc) for m in _headline_metrics(summaries)),
    ]


def _orders(summaries: Sequence[Summary]) -> list[Fact]:
    """Say what each order does, for the built-in ones."""
    said = {s.label: words for s in summaries if (words := words_of(s.label)) is not None}
    return [Fact(label, words) for label, words in said.items()]


def _headline(summaries: Sequence[Summary]) -> DataTable:
    shown = _headline_metrics(summaries)
    return DataTable(
        "The runs side by side",
        [
            Column("order"),
            Column("verdict", words=True),
            *(Column(m.header, UNIT_SHOWN[m.unit]) for m in shown),
        ],
        [[s.label, shown_verdict(s), *(shown_value(m, s) for m in shown)] for s in summaries],
    )


def _hit_rates(summaries: Sequence[Summary]) -> Section:
    first = summaries[0]
    return Section(
        "hit-rates",
        "How much is reused",
        figures=[
            hit_rate_figure(
                [
                    HitRate(
                        s.label,
                        s.values["cold_hit_rate_share"],
                        s.values["warm_hit_rate_share"],
                        s.values["optimal_reached_share"],
                    )
                    for s in summaries
                ],
                optimum=first.values["optimal_hit_rate_share"],
                ceiling=first.values["ceiling_hit_rate_share"],
                exact=first.optimal_exact,
            )
        ],
    )


def _detailed(summaries: Sequence[Summary]) -> list[Section]:
    """Return the sections that need distributions, for the runs that have them."""
    runs = [(s, s.details) for s in summaries if s.details is not None]
    if not runs:
        return []
    spread = [Distribution(s.label, d.ttft_quantiles, s.overloaded) for s, d in runs]
    groups = [
        GroupWaits(s.label, d.mostly_cached, d.mostly_computed, s.overloaded) for s, d in runs
    ]
    courses = [Course(s.label, d.bin_s, d.waiting, d.hit_rates) for s, d in runs]
    return [
        Section("latency", "Time to first token", figures=[ttft_figure(spread)]),
        Section("waiting", "Who waited", figures=[waits_figure(groups)]),
        Section("time", "The queue over time", figures=[course_figure(courses)]),
    ]


def _every_number(summaries: Sequence[Summary]) -> DataTable:
    return DataTable(
        "Every metric of every run",
        [Column("metric"), Column("unit", words=True), *(Column(s.label) for s in summaries)],
        [[m.header, UNIT_SHOWN[m.unit], *(shown_value(m, s) for s in summaries)] for m in METRICS],
    )


def _assumed(summaries: Sequence[Summary]) -> list[Fact]:
    """Return each assumption once where all runs agree, else by run."""
    facts = []
    for name in sorted({name for s in summaries for name in s.assumptions}):
        values = [s.assumptions.get(name) for s in summaries]
        if all(value == values[0] for value in values):
            facts.append(Fact(name, str(values[0])))
        else:
            each = [
                f"{s.label}: {v}" for s, v in zip(summaries, values, strict=True) if v is not None
            ]
            facts.append(Fact(name, "; ".join(each)))
    seeds = sorted({s.seed for s in summaries if s.seed is not None})
    if seeds:
        facts.append(Fact("seed", ", ".join(map(str, seeds))))
    return facts
