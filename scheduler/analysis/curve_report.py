"""CurveReport: a capacity curve with the optimum beside it, at the capacities worth showing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.analysis.capacity_curve import CapacityCurve, curve_of
from scheduler.analysis.optimal_replay import OptimalHits, OptimalReplay
from scheduler.analysis.sampled_curve import SampledDistances
from scheduler.analysis.stack_distances import StackDistances
from scheduler.analysis.touches import TouchRule
from scheduler.optimal import OptimalBound, OptimalMeter, computed_key
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["CurveReport", "CurveRow", "OptimumCurve", "curve_report", "shown_capacities"]

_ROUND = (1, 2, 5)
_DENSE = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)


@dataclass(frozen=True, slots=True)
class OptimumCurve:
    """What optimal eviction hits for this order of requests."""

    points: tuple[OptimalHits, ...]
    """By rising capacity; beyond the last one more than the ceiling is not to be had."""
    ceiling_pages: int
    """Smallest capacity at which optimal eviction reaches the ceiling."""

    def at(self, capacity_pages: int) -> OptimalHits | None:
        """Return the point of a capacity that was replayed, else None."""
        return next((p for p in self.points if p.capacity_pages == capacity_pages), None)


@dataclass(frozen=True, slots=True)
class CurveRow:
    """One capacity; rates are shares, None what is unknown."""

    capacity_pages: int | None
    """None: unbounded."""
    capacity_tokens: int | None
    kv_bytes: float | None
    lru_hit_rate: float | None
    lru_second_half_hit_rate: float | None
    lru_share_of_ceiling: float | None
    """Cold hit rate over that of an unbounded cache."""
    standard_error: float | None
    """Of ``lru_hit_rate``, where pages were sampled."""
    optimal_hit_rate: float | None
    optimal_second_half_hit_rate: float | None


@dataclass(frozen=True, slots=True)
class CurveReport:
    """Everything about one trace and its capacity."""

    title: str
    curve: CapacityCurve
    capacities: tuple[int, ...]
    """Pages, rising: the rows to show."""
    optimum: OptimumCurve | None
    dfs_optimum: OptimalBound | None
    """The least prefill work of any order; None by the lookup definition, where every order
    reaches the ceiling once the longest request fits."""
    kv_bytes_per_token: float | None

    def kv_bytes(self, capacity_pages: int | None) -> float | None:
        """Return the KV memory of some pages, None where a token's bytes are unknown."""
        if capacity_pages is None or self.kv_bytes_per_token is None:
            return None
        return capacity_pages * self.curve.page_size * self.kv_bytes_per_token

    def rows(self) -> list[CurveRow]:
        """Return a row a capacity, then one of an unbounded cache."""
        return [self._row(pages) for pages in (*self.capacities, None)]

    def _row(self, pages: int | None) -> CurveRow:
        curve, optimum, sample = self.curve, self.optimum, self.curve.sample
        rate, ceiling = curve.hit_rate(pages), curve.ceiling_hit_rate
        best = best_second = None
        if optimum is not None:
            point = None if pages is None else optimum.at(pages)
            if point is not None:
                best, best_second = point.hit_rate, point.second_half_hit_rate
            elif pages is None or pages >= optimum.ceiling_pages:
                best, best_second = ceiling, curve.second_half_hit_rate(None)
        error = None
        if sample is not None:
            most = int(curve.capacities[-1])
            error = sample.standard_error(most if pages is None else pages)
        return CurveRow(
            capacity_pages=pages,
            capacity_tokens=None if pages is None else pages * curve.page_size,
            kv_bytes=self.kv_bytes(pages),
            lru_hit_rate=rate,
            lru_second_half_hit_rate=curve.second_half_hit_rate(pages),
            lru_share_of_ceiling=rate / ceiling if rate is not None and ceiling else None,
            standard_error=error,
            optimal_hit_rate=best,
            optimal_second_half_hit_rate=best_second,
        )


def curve_report(
    requests: Iterable[Request],
    rule: TouchRule,
    *,
    title: str = "",
    capacities: Sequence[int] | None = None,
    optimum: bool = True,
    sample_rate: float | None = None,
    seed: int = 0,
    kv_bytes_per_token: float | None = None,
) -> CurveReport:
    """Read the requests once, every sample one, in arrival order, and return the report.

    ``capacities`` are pages; None takes 1, 2 and 5 times powers of 10 from the longest request
    to where more adds nothing. A sample knows no optimum of its own.

    Cost: `StackDistances.add` and `OptimalMeter.add` a request, then `OptimalReplay.hits` some
    ten times a decade of capacities.
    """
    distances: StackDistances | SampledDistances = (
        StackDistances(rule)
        if sample_rate is None
        else SampledDistances(rule, rate=sample_rate, seed=seed)
    )
    meter = OptimalMeter(rule.page_size)
    for request in each_sample(requests):
        distances.add(request)
        if rule.last_token:
            meter.add(
                request.key,
                request.prompt_tokens,
                computed_key(request) if rule.cached_outputs else None,
                max_match_tokens=request.max_match_tokens,
            )
    exact = isinstance(distances, StackDistances)
    curve = curve_of(distances) if isinstance(distances, StackDistances) else distances.curve()
    shown = shown_capacities(curve) if capacities is None else tuple(sorted(capacities))
    best = None
    if optimum and exact:
        assert isinstance(distances, StackDistances)
        best = _optimum(OptimalReplay(distances), curve, shown)
    return CurveReport(
        title=title,
        curve=curve,
        capacities=shown,
        optimum=best,
        dfs_optimum=meter.bound() if rule.last_token else None,
        kv_bytes_per_token=kv_bytes_per_token,
    )


def shown_capacities(curve: CapacityCurve) -> tuple[int, ...]:
    """Return 1, 2, 5 times powers of 10, from the longest request to the first that saturates."""
    full = curve.saturated_pages
    if full is None:
        return ()
    start = max(curve.longest_pages, 1)
    return tuple(_round_numbers(start, max(full, start), _ROUND))


def _optimum(replay: OptimalReplay, curve: CapacityCurve, shown: Sequence[int]) -> OptimumCurve:
    """Replay the shown capacities and those between them, up to where nothing is lost."""
    enough = max(replay.ceiling_pages(), 1)
    start = max(curve.longest_pages, 1)
    between = [c for c in _round_numbers(start, max(enough, start), _DENSE) if c > start]
    wanted = {start, enough, *between, *shown}
    points = [replay.hits(pages) for pages in sorted(wanted) if pages <= enough]
    return OptimumCurve(tuple(points), enough)


def _round_numbers(start: int, end: int, heads: Sequence[float]) -> list[int]:
    """Return round whole numbers from ``start`` on; the last one is the first from ``end`` on."""
    found: list[int] = []
    power = 1
    while not found or found[-1] < end:
        for head in heads:
            number = round(head * power)
            if number == head * power and number >= start and (not found or found[-1] < end):
                found.append(number)
        power *= 10
    return found
