"""SchedulerReport: what the scheduler knows of itself, at any moment, in O(1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import add, attrgetter, sub
from typing import Protocol

from radixcache import PrefixKey
from scheduler.request import RequestState

__all__ = ["OptimalMeterLike", "SchedulerReport", "Tally", "Totals"]


class OptimalMeterLike(Protocol):
    """What the report needs of an incremental DFS-optimal meter."""

    def add(self, key: PrefixKey, prompt_tokens: int) -> object:
        """Count one more submitted prompt."""
        ...

    @property
    def optimal_hit_rate(self) -> float:
        """DFS-optimal hit rate of the prompts so far."""
        ...

    @property
    def optimal_prefill_tokens(self) -> int:
        """C* of the prompts so far."""
        ...


@dataclass(slots=True)
class Totals:
    """Counters over one scope. Lengths count tokens."""

    submitted: int = 0
    rejected: int = 0
    admitted: int = 0
    """First admissions."""
    finished: int = 0
    aborted: int = 0
    capacity_ended: int = 0
    """Ended since the pool cannot hold them."""
    retractions: int = 0
    forced_admissions: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of the requests admitted, once each."""
    hit_tokens: int = 0
    """Those found in the cache at the first admission."""
    resumed_tokens: int = 0
    """Tokens found in the cache by requests that came back after a retraction."""
    recomputed_tokens: int = 0
    """Tokens computed once more after retractions."""
    output_tokens: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the prompt tokens found in the cache; 0 without prompts."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def minus(self, other: Totals) -> Totals:
        """Return the difference, counter by counter."""
        return Totals(*map(sub, _counters(self), _counters(other)))

    def plus(self, other: Totals) -> Totals:
        """Return the sum, counter by counter."""
        return Totals(*map(add, _counters(self), _counters(other)))

    def copy(self) -> Totals:
        """Return the counters as they are now."""
        return Totals(*_counters(self))


_counters: Callable[[Totals], tuple[int, ...]] = attrgetter(*(f.name for f in fields(Totals)))


@dataclass(frozen=True, slots=True)
class SchedulerReport:
    """The state of the scheduler and its counters over three scopes."""

    total: Totals
    """Since the start."""
    since_reset: Totals
    """Since ``reset_window``."""
    window: Totals
    """Over the last ``window_requests`` requests that finished (only what a request tells)."""
    waiting: int
    running: int
    in_flight: int
    backlog_tokens: int
    """Uncached tokens of the waiting requests."""
    matched_tokens: int
    """Cached tokens of the waiting requests."""
    pending_optimal_tokens: int
    """Tokens of the distinct uncached pages the waiting requests need."""
    free_pages: int
    evictable_pages: int
    protected_pages: int
    reserved_pages: int
    largest_overtaken_tokens: int
    largest_overtaken_s: float | None
    """The same in seconds of prefill; None without ``SchedulerConfig.prefill_tokens_per_s``."""
    largest_overtaken_ratio: float | None
    """Largest overtaken/bound; None without an overtake guard."""
    optimal_hit_rate: float | None
    """DFS-optimal hit rate of all submitted prompts; None without a meter."""
    optimal_prefill_tokens: int | None

    @property
    def percent_of_optimal(self) -> float | None:
        """Hit rate since the start in percent of the optimum; None when there is none."""
        if not self.optimal_hit_rate:
            return None
        return 100 * self.total.hit_rate / self.optimal_hit_rate


class Tally:
    """Counts, with ring sums over the last finished requests."""

    __slots__ = ("_ring", "_since", "_size", "_window", "total")

    def __init__(self, window_requests: int) -> None:
        self.total = Totals()
        self._since = Totals()
        self._window = Totals()
        self._ring: deque[Totals] = deque()
        self._size = window_requests

    def reset_window(self) -> None:
        """Start the scope "since reset" anew."""
        self._since = self.total.copy()

    def since_reset(self) -> Totals:
        """Return the counters since the last reset."""
        return self.total.minus(self._since)

    def window(self) -> Totals:
        """Return the sums over the last finished requests."""
        return self._window.copy()

    def ended(self, state: RequestState) -> None:
        """Count the end of a request, whatever it was. Cost: O(1)."""
        total = self.total
        total.output_tokens += state.output_tokens
        if state.finish_reason == "abort":
            total.aborted += 1
            return
        total.finished += 1
        capacity = int(state.finish_reason == "capacity")
        total.capacity_ended += capacity
        if state.hit_tokens is None:
            return
        one = Totals(
            admitted=1,
            finished=1,
            capacity_ended=capacity,
            retractions=state.retractions,
            prompt_tokens=state.prompt_tokens,
            hit_tokens=state.hit_tokens,
            resumed_tokens=state.resumed_tokens,
            recomputed_tokens=state.recomputed_tokens,
            output_tokens=state.output_tokens,
        )
        self._ring.append(one)
        self._window = self._window.plus(one)
        if len(self._ring) > self._size:
            self._window = self._window.minus(self._ring.popleft())
