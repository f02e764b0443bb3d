"""The capacity curve as an HTML report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from scheduler.analysis.capacity_curve import CapacityCurve
from scheduler.analysis.curve_report import CurveReport
from scheduler.analysis.curve_table import DEFINITIONS
from scheduler.report.html.charts_curve import CapacityLine, CapacityMark, curve_figure
from scheduler.report.html.figure import Column, DataTable, Definition
from scheduler.report.html.page import Fact, HtmlReport, Section
from scheduler.report.html.text import amount, bare_percent, fixed, percent

__all__ = ["curve_page"]

_GIB = 2**30
_POINTS = 80


def curve_page(
    report: CurveReport, *, subject: str, command: str, version: str, notes: Sequence[str] = ()
) -> HtmlReport:
    """Return the report: the curves with the knee, the rows of the table, what was counted."""
    curve = report.curve
    bound = report.dfs_optimum
    best = None if bound is None or bound.hit_rate is None else ("DFS optimum", bound.hit_rate)
    figure = curve_figure(
        _lines(report), _marks(report), bound=best, memory=_memory(report.kv_bytes_per_token)
    )
    return HtmlReport(
        title="How much KV memory a trace needs",
        subject=subject,
        summary=_findings(report),
        command=command,
        version=version,
        notes=notes,
        sections=[
            Section("curve", "Hit rate by memory", figures=[figure]),
            Section(
                "numbers",
                "The numbers",
                tables=[_table(report)],
                definitions=[Definition(name, "", doc) for name, doc in DEFINITIONS.items()],
            ),
            Section("counted", "What was counted", facts=_facts(curve)),
        ],
    )


def _memory(kv_bytes_per_token: float | None) -> Callable[[int], str] | None:
    if kv_bytes_per_token is None:
        return None
    each = kv_bytes_per_token

    def shown(tokens: int) -> str:
        gib = tokens * each / _GIB
        return (
            f"{gib:,.3g}\N{NO-BREAK SPACE}GiB"
            if gib < 1_000
            else f"{gib:,.0f}\N{NO-BREAK SPACE}GiB"
        )

    return shown


def _lines(report: CurveReport) -> list[CapacityLine]:
    """Return LRU at capacities evenly apart on the axis, and the optimum where it was replayed."""
    curve, optimum = report.curve, report.optimum
    pages = _spread_out(report)
    lru = [(p * curve.page_size, rate) for p in pages if (rate := curve.hit_rate(p)) is not None]
    sample = curve.sample
    errors = () if sample is None else tuple(sample.standard_error(p) for p in pages)
    lines = [CapacityLine("LRU", f"cold: {DEFINITIONS['LRU']}", lru, errors if lru else ())]
    if optimum is not None and lru:
        points = [
            (point.capacity_pages * curve.page_size, point.hit_rate)
            for point in optimum.points
            if point.hit_rate is not None
        ]
        ceiling, last = curve.ceiling_hit_rate, lru[-1][0]
        if points and ceiling is not None and points[-1][0] < last:
            points.append((last, ceiling))
        lines.append(CapacityLine("optimal eviction", DEFINITIONS["optimum"], points))
    return lines


def _spread_out(report: CurveReport) -> list[int]:
    """Return capacities in pages from the longest request to the end of the curve."""
    curve = report.curve
    ends = [*report.capacities, curve.saturated_pages or 1, max(curve.longest_pages, 1)]
    low, high = max(1, min(ends)), max(ends)
    between = {round(low * (high / low) ** (i / _POINTS)) for i in range(_POINTS + 1)}
    return sorted(between | set(report.capacities)) if log(high / low) else [low]


def _marks(report: CurveReport) -> list[CapacityMark]:
    curve = report.curve
    found = [
        ("knee", curve.knee(), DEFINITIONS["knee"]),
        ("95 % of the ceiling", curve.sufficient_pages, "smallest capacity that reaches it"),
    ]
    found.sort(key=lambda mark: mark[1] or 0)
    return [
        CapacityMark(name, doc, pages * curve.page_size, curve.hit_rate(pages))
        for name, pages, doc in found
        if pages is not None
    ]


def _findings(report: CurveReport) -> list[str]:
    curve = report.curve
    knee, enough = curve.knee(), curve.sufficient_pages
    if knee is None or enough is None:
        return ["Nothing is hit at any capacity: no two prompts share a whole page."]
    memory = _memory(report.kv_bytes_per_token)

    def size(pages: int) -> str:
        tokens = pages * curve.page_size
        return f"{amount(tokens)} tokens" + ("" if memory is None else f" ({memory(tokens)})")

    return [
        f"A cache without a bound hits {percent(curve.ceiling_hit_rate)} of the prompt tokens: "
        "that is the ceiling of this trace.",
        f"With LRU eviction {size(enough)} reach 95 % of the ceiling. The knee, where more memory "
        f"begins to pay less, is at {size(knee)}, with {percent(curve.hit_rate(knee))}.",
    ]


def _table(report: CurveReport) -> DataTable:
    rows = report.rows()
    shown: list[tuple[Column, Callable[[int], str]]] = [
        (Column("KV memory", "tokens"), lambda i: _count(rows[i].capacity_tokens)),
        (Column("pages"), lambda i: _count(rows[i].capacity_pages)),
    ]
    if report.kv_bytes_per_token is not None:
        shown.append(
            (Column("KV memory", "GiB"), lambda i: fixed(rows[i].kv_bytes, 2, scale=1 / _GIB))
        )
    shown += [
        (Column("LRU cold", "%"), lambda i: bare_percent(rows[i].lru_hit_rate)),
        (Column("LRU warm", "%"), lambda i: bare_percent(rows[i].lru_second_half_hit_rate)),
        (Column("of ceiling", "%"), lambda i: bare_percent(rows[i].lru_share_of_ceiling)),
    ]
    if report.curve.sample is not None:
        shown.append((Column("± error", "%"), lambda i: bare_percent(rows[i].standard_error)))
    if report.optimum is not None:
        shown += [
            (Column("opt. cold", "%"), lambda i: bare_percent(rows[i].optimal_hit_rate)),
            (
                Column("opt. warm", "%"),
                lambda i: bare_percent(rows[i].optimal_second_half_hit_rate),
            ),
        ]
    return DataTable(
        "Hit rates by KV memory",
        [column for column, _ in shown],
        [[cell(i) for _, cell in shown] for i in range(len(rows))],
    )


def _count(value: int | None) -> str:
    return "unbounded" if value is None else f"{value:,}"


def _facts(curve: CapacityCurve) -> list[Fact]:
    facts = [
        Fact("requests", f"{curve.requests:,}"),
        Fact("prompt tokens", f"{curve.prompt_tokens:,}"),
        Fact("page size", f"{curve.page_size:,} tokens"),
        Fact("longest request", f"{curve.longest_pages:,} pages"),
        Fact("different pages", f"{curve.distinct_pages:,}"),
        Fact(
            "outputs cached",
            f"of {curve.cached_output_requests:,} requests"
            if curve.cached_output_requests
            else "no: prompts alone are counted",
        ),
        Fact("last token", "always computed" if curve.last_token else "may be a hit"),
    ]
    if curve.sample is not None:
        facts.append(
            Fact(
                "sample",
                f"{curve.sample.rate:g} of the pages, {curve.sample.sampled_pages:,} of them, "
                f"seed {curve.sample.seed}",
            )
        )
    return facts
