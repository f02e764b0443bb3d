"""The table of a trace's statistics, as plain text."""

from __future__ import annotations

from scheduler.analysis.trace_statistics import Burstiness, Lengths, TraceStatistics, Turns
from scheduler.report.plain_text import labelled, lined_up, percent

__all__ = ["format_statistics"]

_PERCENT = " %"


def format_statistics(statistics: TraceStatistics) -> str:
    """Return it as lines of plain text; "-" is a number that does not exist."""
    rate = statistics.requests / statistics.span_s if statistics.span_s else None
    lines = [
        ("requests", f"{statistics.requests:,}"),
        ("span", f"{statistics.span_s:,.1f} s, {_number(rate, 2)} requests/s"),
        ("prompts", _lengths(statistics.prompt)),
        (
            "outputs",
            f"{_lengths(statistics.output)}; recorded for {statistics.outputs_recorded:,} requests",
        ),
        ("arrivals", _burstiness(statistics.burstiness)),
        ("namespaces, sessions", f"{statistics.namespaces:,}, {statistics.sessions:,}"),
        ("requests a session", _turns_text(statistics.turns)),
        (
            "sharing",
            f"{statistics.distinct_pages:,} of {statistics.full_pages:,} full prompt pages of "
            f"{statistics.page_size} tokens are different: "
            f"{percent(statistics.shared_pages_share, _PERCENT)} repeat",
        ),
        (
            "unbounded cache",
            _rates(
                statistics,
                statistics.prompt_only_ceiling_hit_rate,
                statistics.ceiling_hit_rate,
                "hit rate in arrival order",
            ),
        ),
        (
            "DFS optimum",
            _rates(
                statistics,
                statistics.prompt_only_optimal_hit_rate,
                statistics.optimal_hit_rate,
                "hit rate" + ("" if statistics.exact else " (estimated, within 1.3 points)"),
            ),
        ),
        ("skipped rows", f"{sum(statistics.skipped.values()):,}"),
        *((f"  {reason}", f"{count:,}") for reason, count in statistics.skipped.items()),
    ]
    if statistics.prompt is not None and statistics.prompt.p50 <= statistics.page_size:
        lines.append(
            (
                "short prompts",
                "half are no longer than a page and can hit nothing: a smaller page shows more",
            )
        )
    return labelled(lines) + _sharing_text(statistics)


def _sharing_text(statistics: TraceStatistics) -> str:
    """Return the table of shared prefixes, where there are any."""
    prefixes = statistics.shared_prefixes
    if not prefixes or not prefixes[0].repeated_tokens:
        return ""
    rows = [("prefix", "new", "requests", "% of work", "the new part begins with")]
    rows += [
        (
            f"{prefix.prefix_tokens:,}",
            f"{prefix.new_tokens:,}",
            f"{prefix.requests:,}",
            percent(prefix.repeated_share),
            prefix.opening,
        )
        for prefix in prefixes
        if prefix.repeated_tokens
    ]
    missed = statistics.missed_requests
    about = f"; counts may be {missed:,} too small" if missed else ""
    title = (
        "shared prefixes (prefix: its tokens from the start of the prompt; new: those behind the "
        f"next shorter\nshared prefix; % of work: prompt tokens that repeat the new part{about})"
    )
    return f"\n{title}\n{lined_up(rows, left=(4,))}"


def _rates(statistics: TraceStatistics, alone: float | None, whole: float | None, what: str) -> str:
    """Return a rate without and with outputs, side by side where outputs count."""
    if not statistics.cached_outputs:
        return f"{percent(whole, _PERCENT)} {what}, prompts only"
    return f"{percent(whole, _PERCENT)} {what}; {percent(alone, _PERCENT)} of prompts only"


def _turns_text(turns: Turns | None) -> str:
    if turns is None:
        return "-"
    return f"mean {turns.mean:,.1f}, p50 {turns.p50:,.1f}, max {turns.max:,}"


def _burstiness(burstiness: Burstiness | None) -> str:
    if burstiness is None:
        return "-"
    return (
        f"gaps vary by {_number(burstiness.gap_variation, 2)} of their mean (Poisson: 1); busiest "
        f"minute {burstiness.peak_per_minute:,} requests, {burstiness.peak_to_mean:.2f} x the mean"
    )


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "-"
    return (
        f"{lengths.total:,} tokens; mean {lengths.mean:,.1f}, p50 {lengths.p50:,.1f}, "
        f"p99 {lengths.p99:,.1f}, max {lengths.max:,}"
    )


def _number(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"
