"""The capacity curve as a plain table, JSON and CSV."""

from __future__ import annotations

from dataclasses import asdict, fields
from textwrap import fill

from scheduler.analysis.capacity_curve import CapacityCurve
from scheduler.analysis.curve_report import CurveReport, CurveRow
from scheduler.report.document import csv_text, json_text
from scheduler.report.plain_text import columns, labelled, percent

__all__ = ["curve_to_csv", "curve_to_json", "format_curve"]

_GIB = 2**30
_FEW_SAMPLED = 1_000
_OPTIMUM = " Opt.: optimal eviction for this order, farthest next hit first."

DEFINITIONS = {
    "LRU": "hit tokens / prompt tokens of a cache that evicts the least recently used leaf; "
    "requests in arrival order, one after the other, each looked up before it is cached",
    "optimum": "the same with optimal eviction: farthest next hit first, deepest on ties",
    "cold": "all requests, from an empty cache",
    "warm": "the last 50 % of the requests, over a cache that the others warmed",
    "of ceiling": "LRU cold / the same of an unbounded cache",
    "knee": "capacity at which LRU cold is farthest above the straight line from the longest "
    "request to the smallest capacity that reaches the ceiling, over log capacity",
}


def format_curve(report: CurveReport) -> str:
    """Return the table, what it leads to, and the definitions."""
    curve, optimum = report.curve, report.optimum
    rows = report.rows()
    text = _table(report, rows)
    ceiling = f"{percent(curve.ceiling_hit_rate)} %"
    lines = [
        ("ceiling", f"{ceiling} cold, {percent(curve.second_half_hit_rate(None))} % warm: "
         "an unbounded cache, arrival order"),
    ]  # fmt: skip
    if report.dfs_optimum is not None:
        bound = report.dfs_optimum
        about = "" if bound.exact else ", estimated within 1.3 points"
        lines.append(("DFS optimum", f"{percent(bound.hit_rate)} %: the best order{about}"))
    for name, pages in (
        ("longest request", curve.longest_pages),
        ("LRU, knee", curve.knee()),
        ("LRU, 95 % of the ceiling", curve.sufficient_pages),
        ("LRU, all of the ceiling", curve.saturated_pages),
        ("optimum, all of the ceiling", optimum.ceiling_pages if optimum else None),
    ):
        if pages is not None:
            lines.append((name, _size(report, pages)))
    lines += [("outputs cached", _outputs(curve)), *_sample_lines(curve)]
    return f"{text}\n{labelled(lines)}\n{fill(_definition(report), 88)}\n"


def curve_to_json(report: CurveReport, **more: object) -> str:
    """Return everything as JSON, the whole curve too, and what more there is to say."""
    optimum = report.optimum
    bound = report.dfs_optimum
    document = {
        "kv_bytes_per_token": report.kv_bytes_per_token,
        "rows": [asdict(row) for row in report.rows()],
        "lru": report.curve.as_dict(),
        "optimum": None
        if optimum is None
        else {
            "ceiling_pages": optimum.ceiling_pages,
            "capacities_pages": [point.capacity_pages for point in optimum.points],
            "hit_tokens": [point.hit_tokens for point in optimum.points],
            "second_half_hit_tokens": [p.second_half_hit_tokens for p in optimum.points],
        },
        "dfs_optimum": None if bound is None else asdict(bound) | {"hit_rate": bound.hit_rate},
        "definitions": DEFINITIONS,
        **more,
    }
    return json_text(document)


def curve_to_csv(report: CurveReport) -> str:
    """Return a row a capacity; an empty cell is unknown, an empty capacity is unbounded."""
    names = [field.name for field in fields(CurveRow)]
    return csv_text(names, ([getattr(row, name) for name in names] for row in report.rows()))


def _table(report: CurveReport, rows: list[CurveRow]) -> str:
    sampled = report.curve.sample is not None
    known = report.kv_bytes_per_token is not None
    head = ["pages", "tokens", *["GiB"] * known, "LRU cold", "LRU warm", "of ceiling"]
    head += ["+-"] * sampled + ["opt. cold", "opt. warm"] * (report.optimum is not None)
    units = ["", "", *[""] * known, *["%"] * (len(head) - 2 - known)]
    cells = [head, units]
    for row in rows:
        line = [_count(row.capacity_pages, "unbounded"), _count(row.capacity_tokens, "")]
        if known:
            line.append("" if row.kv_bytes is None else f"{row.kv_bytes / _GIB:,.2f}")
        rates = [row.lru_hit_rate, row.lru_second_half_hit_rate, row.lru_share_of_ceiling]
        if sampled:
            rates.append(row.standard_error)
        if report.optimum is not None:
            rates += [row.optimal_hit_rate, row.optimal_second_half_hit_rate]
        cells.append(line + [percent(rate) for rate in rates])
    return columns(cells, left=())


def _outputs(curve: CapacityCurve) -> str:
    if not curve.cached_output_requests:
        return "no: prompts alone are counted"
    return f"as recorded, of {curve.cached_output_requests:,} of {curve.requests:,} requests"


def _sample_lines(curve: CapacityCurve) -> list[tuple[str, str]]:
    sample = curve.sample
    if sample is None:
        return []
    lines = [
        ("sample", f"{sample.sampled_pages:,} pages: {100 * sample.rate:g} %, seed {sample.seed}; "
         "+- is one standard error of LRU cold"),
    ]  # fmt: skip
    if sample.sampled_pages < _FEW_SAMPLED:
        lines.append(
            ("few pages", f"below {_FEW_SAMPLED:,} the error itself is rough: sample more")
        )
    return lines


def _definition(report: CurveReport) -> str:
    """Return what the numbers are, for people."""
    rule = (
        "whole pages, one token of each prompt is always computed"
        if report.curve.last_token
        else "every page, a partial last block too, no last-token rule"
    )
    return (
        "Capacity is what is kept for reuse; the memory of running requests comes on top. "
        f"Requests in arrival order, no queue and no time; {rule}. Cold: all requests, from an "
        "empty cache; warm: the last 50 % of them, over the cache that the others warmed. "
        "Of ceiling: LRU cold / unbounded cold. Knee: LRU cold is farthest above the straight "
        "line from the longest request to all of the ceiling, over log capacity."
        + (_OPTIMUM if report.optimum else "")
    )


def _size(report: CurveReport, pages: int) -> str:
    memory = report.kv_bytes(pages)
    tokens = pages * report.curve.page_size
    more = "" if memory is None else f" = {memory / _GIB:,.2f} GiB"
    return f"{pages:,} pages = {tokens:,} tokens{more}"


def _count(number: int | None, none: str) -> str:
    return none if number is None else f"{number:,}"
