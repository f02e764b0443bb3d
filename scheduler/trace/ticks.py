"""Rounded timestamps: find the tick, and spread arrivals inside it.

Rounding makes bursts that never were and flatters every policy that reorders. So requests
with one timestamp are spread uniformly over the time until the next tick, in file order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter

import numpy as np

from radixcache.errors import InvalidInputError
from scheduler.request import Request

__all__ = ["TickReport", "find_tick", "spread_ticks"]

MIN_TIED = 0.1
MIN_ON_GRID = 0.9
GRID_TOLERANCE = 0.02
LOW_QUANTILE = 0.05


@dataclass(frozen=True, slots=True)
class TickReport:
    """What was found about the rounding of a trace's timestamps."""

    tick_s: float | None
    """Length of a tick; None when the timestamps are not rounded."""
    ticks: int
    """Distinct timestamps."""
    tied_requests: int
    """Requests with the timestamp of the one before."""

    def __str__(self) -> str:
        """Say it in a sentence."""
        if self.tick_s is None:
            return "timestamps are not rounded"
        return (
            f"timestamps are rounded to ticks of {self.tick_s:g} s: {self.ticks} ticks, "
            f"{self.tied_requests} requests share the one before"
        )


def find_tick(arrivals_s: Sequence[float]) -> TickReport:
    """Find out whether sorted arrivals are rounded, and to what.

    They are when at least 10 % have the timestamp of the one before and 90 % of the gaps
    between distinct timestamps are whole multiples of a tick, within 2 % of it. The tick is
    the 5 % quantile of these gaps, so neither jitter nor one odd gap decides it.
    Cost: O(n log n).
    """
    times = np.asarray(arrivals_s, dtype=np.float64)
    distinct = np.unique(times)
    tied = len(times) - len(distinct)
    gaps = np.diff(distinct)
    if not len(gaps) or tied < MIN_TIED * len(times):
        return TickReport(None, len(distinct), tied)
    tick_s = float(np.quantile(gaps, LOW_QUANTILE, method="lower"))
    off_grid = np.abs(gaps / tick_s - np.round(gaps / tick_s))
    if np.mean(off_grid <= GRID_TOLERANCE) < MIN_ON_GRID:
        return TickReport(None, len(distinct), tied)
    return TickReport(tick_s, len(distinct), tied)


def spread_ticks(
    requests: Iterable[Request], *, seed: int, tick_s: float | None = None
) -> tuple[list[Request], TickReport]:
    """Spread the requests of each tick uniformly inside it, and report the tick.

    ``requests`` come in arrival order and keep it. A tick ends where the next one begins,
    at the latest after ``tick_s`` (found when None). Unrounded arrivals are left alone.
    The same seed gives the same times. Cost: O(n log n).
    Raises: InvalidInputError when the arrivals go back in time or ``tick_s`` is no length.
    """
    held = list(requests)
    arrivals_s = [request.arrival_s for request in held]
    if any(later < earlier for earlier, later in pairwise(arrivals_s)):
        raise InvalidInputError("requests go back in time; give them in arrival order")
    if type(seed) is not int or seed < 0:
        raise InvalidInputError(f"seed must be a whole number of at least 0, not {seed!r}")
    if tick_s is not None and not 0 < tick_s < float("inf"):
        raise InvalidInputError(f"tick_s must be positive and finite, not {tick_s}")
    report = find_tick(arrivals_s)
    if tick_s is not None:
        report = replace(report, tick_s=tick_s)
    if report.tick_s is None:
        return held, report
    rng = np.random.default_rng(seed)
    groups = [list(group) for _, group in groupby(held, attrgetter("arrival_s"))]
    spread: list[Request] = []
    for index, group in enumerate(groups):
        start_s = group[0].arrival_s
        length_s = report.tick_s
        if index + 1 < len(groups):
            length_s = min(length_s, groups[index + 1][0].arrival_s - start_s)
        offsets_s = np.sort(rng.random(len(group))) * length_s
        times_s = (start_s + offsets_s).tolist()
        spread += [
            replace(request, arrival_s=time_s)
            for request, time_s in zip(group, times_s, strict=True)
        ]
    return spread, report
