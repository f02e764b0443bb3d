"""RunDetails: distributions and course of one run, small enough to cross between processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from scheduler.report.metrics import Run, percentile
from scheduler.report.recorder import Recorder

__all__ = ["NAMED_QUANTILES", "RunDetails", "Waits", "details_of"]

NAMED_QUANTILES = (0.01, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99, 0.999)
"""Quantiles that are among ``ttft_quantiles`` where there are requests enough to have them."""

_BINS = 60
_CURVE_POINTS = 90
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Waits:
    """Times to first token of a group of requests."""

    requests: int
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    max_s: float | None

    @classmethod
    def of(cls, ordered: Sequence[float]) -> Waits:
        """Return what sorted seconds come to; None for no requests."""
        p50, p90, p99 = (percentile(ordered, q) for q in (0.50, 0.90, 0.99))
        return cls(len(ordered), p50, p90, p99, ordered[-1] if ordered else None)


@dataclass(frozen=True, slots=True)
class RunDetails:
    """What a chart of one run needs beside its metrics: some 4 kB, whatever the run's length."""

    ttft_quantiles: tuple[tuple[float, float], ...]
    """(share of requests, seconds), ascending, evenly spaced as a normal distribution has it; the
    last is (1, largest)."""
    mostly_cached: Waits
    """Requests whose prompt was cached to at least ``CACHED_FROM_SHARE``."""
    mostly_computed: Waits
    """The others: the cache held less of them, or nothing."""
    bin_s: float
    """Width of a time bin; the first starts at the first arrival, the last ends with the run."""
    waiting: tuple[float, ...]
    """Requests waiting, averaged over the time of each bin."""
    hit_rates: tuple[float | None, ...]
    """Cached over prompt tokens of the requests that arrived in each bin; None for none."""


def details_of(run: Run) -> RunDetails:
    """Return the distributions of a run that has ended. Cost: O(requests log requests + steps)."""
    recorder = run.recorder
    span = recorder.span_s
    start, stop = span if span is not None else (0.0, 0.0)
    bin_s = (stop - start) / _BINS
    waits = run.ttft_by_cached_share_s
    return RunDetails(
        ttft_quantiles=_quantiles(run.ttft_s),
        mostly_cached=Waits.of(waits.mostly_cached),
        mostly_computed=Waits.of(waits.mostly_computed),
        bin_s=bin_s,
        waiting=tuple(_waiting(recorder, start, bin_s)) if bin_s else (),
        hit_rates=tuple(_hit_rates(recorder, start, bin_s)) if bin_s else (),
    )


def _quantiles(ordered: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Return quantiles from the first to the last rank, dense in both tails."""
    if not ordered:
        return ()
    edge = min(0.5 / len(ordered), 0.25)
    reach = -_NORMAL.inv_cdf(edge)
    grid = (reach * (2 * i / _CURVE_POINTS - 1) for i in range(_CURVE_POINTS + 1))
    shares = (
        {round(_NORMAL.cdf(z), 6) for z in grid}
        | {q for q in NAMED_QUANTILES if edge <= q <= 1 - edge}
        | {1.0}
    )
    found = ((share, percentile(ordered, share)) for share in sorted(shares))
    return tuple((share, value) for share, value in found if value is not None)


def _waiting(recorder: Recorder, start: float, bin_s: float) -> list[float]:
    """Average the queue over each bin; between steps nobody waits."""
    request_s = [0.0] * _BINS
    starts = recorder.step_start_s
    for step, (at, duration) in enumerate(zip(starts, recorder.step_duration_s, strict=True)):
        queue = recorder.step_waiting[step]
        if not queue:
            continue
        end = at + duration
        if step + 1 < len(starts):
            end = min(end, starts[step + 1])
        for place in range(_bin(at - start, bin_s), _bin(end - start, bin_s) + 1):
            low, high = start + place * bin_s, start + (place + 1) * bin_s
            request_s[place] += queue * max(0.0, min(end, high) - max(at, low))
    return [amount / bin_s for amount in request_s]


def _hit_rates(recorder: Recorder, start: float, bin_s: float) -> list[float | None]:
    hits, prompts = [0] * _BINS, [0] * _BINS
    for arrival, hit, prompt in zip(
        recorder.submitted_s, recorder.hit_tokens, recorder.prompt_tokens, strict=True
    ):
        if not math.isnan(hit):
            place = _bin(arrival - start, bin_s)
            hits[place] += int(hit)
            prompts[place] += prompt
    return [hit / prompt if prompt else None for hit, prompt in zip(hits, prompts, strict=True)]


def _bin(seconds: float, bin_s: float) -> int:
    return min(_BINS - 1, max(0, int(seconds / bin_s)))
