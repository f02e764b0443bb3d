"""Trace statistics: lengths, sharing, and how good a hit rate can be, in one pass."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from radixcache import Namespace
from scheduler.optimal import DEFAULT_EXACT_LIMIT_BYTES, OptimalMeter, computed_key
from scheduler.report.metrics import percentile
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["Lengths", "TraceStatistics", "format_statistics", "trace_statistics"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long prompts or outputs are, in tokens."""

    total: int
    mean: float
    p50: float
    p99: float
    max: int

    @classmethod
    def of(cls, lengths: array[int]) -> Lengths | None:
        """Return the lengths' summary, or None for no lengths."""
        if not lengths:
            return None
        ordered = sorted(lengths)
        return cls(
            total=sum(ordered),
            mean=sum(ordered) / len(ordered),
            p50=percentile(ordered, 0.50) or 0.0,
            p99=percentile(ordered, 0.99) or 0.0,
            max=ordered[-1],
        )


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """What is in a trace, and the hit rates it allows at one page size."""

    requests: int
    page_size: int
    cached_outputs: bool
    """Whether recorded output ids count as cached."""
    span_s: float
    """Last minus first arrival."""
    prompt: Lengths | None
    output: Lengths | None
    """Of the requests whose output length is recorded."""
    outputs_recorded: int
    namespaces: int
    sessions: int
    full_pages: int
    """Full pages of all prompts, repeated ones too."""
    distinct_pages: int
    ceiling_hit_rate: float | None
    """Unbounded cache, arrival order, last-token rule; None when not ``exact``."""
    optimal_hit_rate: float | None
    """DFS optimum; see `scheduler.optimal`."""
    exact: bool
    """False: pages were counted by HyperLogLog, the optimum is within 1.3 points."""
    skipped: Mapping[str, int]
    """Rows that gave no request, by reason."""

    @property
    def shared_pages_share(self) -> float | None:
        """Share of the full pages that some other prompt page equals: 1 - distinct / full."""
        return 1.0 - self.distinct_pages / self.full_pages if self.full_pages else None

    def to_json(self) -> str:
        """Return it as JSON with sorted keys and no NaN."""
        fields = asdict(self) | {"shared_pages_share": self.shared_pages_share}
        return json.dumps(fields, sort_keys=True, indent=2, allow_nan=False) + "\n"


def trace_statistics(
    requests: Iterable[Request],
    page_size: int,
    *,
    cached_outputs: bool = False,
    skipped: Mapping[str, int] | None = None,
    exact_limit_bytes: int = DEFAULT_EXACT_LIMIT_BYTES,
) -> TraceStatistics:
    """Read the requests once, in arrival order, and say what they allow.

    A request for several samples counts as many. ``skipped`` is read when the requests are
    exhausted, so a reader's own counter will do.

    Cost: `OptimalMeter.add` a request. Memory: the meter's, and 16 bytes a request.
    """
    meter = OptimalMeter(page_size, exact_limit_bytes=exact_limit_bytes)
    prompts, outputs = array("q"), array("q")
    namespaces: set[Namespace] = set()
    sessions: set[str] = set()
    first, last = math.inf, -math.inf
    full_pages = seen_tokens = 0
    for request in each_sample(requests):
        prompts.append(request.prompt_tokens)
        if request.recorded_output_tokens is not None:
            outputs.append(request.recorded_output_tokens)
        namespaces.add(request.key.namespace)
        if request.session_id is not None:
            sessions.add(request.session_id)
        first, last = min(first, request.arrival_s), max(last, request.arrival_s)
        full_pages += min(request.prompt_tokens, len(request.key)) // page_size
        seen_tokens += meter.add(
            request.key,
            request.prompt_tokens,
            computed_key(request) if cached_outputs else None,
            max_match_tokens=request.max_match_tokens,
        )
    bound = meter.bound()
    known = bound.exact and bound.prompt_tokens
    return TraceStatistics(
        requests=len(prompts),
        page_size=page_size,
        cached_outputs=cached_outputs,
        span_s=last - first if prompts else 0.0,
        prompt=Lengths.of(prompts),
        output=Lengths.of(outputs),
        outputs_recorded=len(outputs),
        namespaces=len(namespaces),
        sessions=len(sessions),
        full_pages=full_pages,
        distinct_pages=bound.distinct_pages,
        ceiling_hit_rate=seen_tokens / bound.prompt_tokens if known else None,
        optimal_hit_rate=bound.hit_rate,
        exact=bound.exact,
        skipped=dict(sorted((skipped or {}).items())),
    )


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
        ("namespaces, sessions", f"{statistics.namespaces:,}, {statistics.sessions:,}"),
        (
            "sharing",
            f"{statistics.distinct_pages:,} of {statistics.full_pages:,} full prompt pages of "
            f"{statistics.page_size} tokens are different: "
            f"{_percent(statistics.shared_pages_share)} repeat",
        ),
        ("unbounded cache", f"{_percent(statistics.ceiling_hit_rate)} hit rate in arrival order"),
        (
            "DFS optimum",
            f"{_percent(statistics.optimal_hit_rate)} hit rate"
            + ("" if statistics.exact else " (estimated, within 1.3 points)"),
        ),
        ("outputs cached", "yes, as recorded" if statistics.cached_outputs else "no"),
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
    width = max(len(name) for name, _ in lines) + 2
    return "".join(f"{name:<{width}}{value}\n" for name, value in lines)


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "-"
    return (
        f"{lengths.total:,} tokens; mean {lengths.mean:,.1f}, p50 {lengths.p50:,.1f}, "
        f"p99 {lengths.p99:,.1f}, max {lengths.max:,}"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.3f} %"


def _number(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"
