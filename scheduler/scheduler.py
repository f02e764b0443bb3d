"""Scheduler: which requests run next, on which pages; a state machine without a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from radixcache import PrefixCache, PrefixHandle
from scheduler.batch import Batch
from scheduler.config import SchedulerConfig
from scheduler.events import Event, Finished
from scheduler.policies import SchedulePolicy
from scheduler.request import Request, RequestState
from scheduler.scheduler_report import OptimalMeterLike, SchedulerReport
from scheduler.waiting_queue import WaitingQueue

__all__ = ["Guard", "Pool", "Result", "Scheduler", "Ticket"]

Result = tuple[Sequence[int], str | None]


class Ticket(NamedTuple):
    """The answer to an accepted request."""

    rid: str
    arrival_seq: int
    bound_tokens: float | None
    """Uncached tokens of later arrivals that may at most go first; None without a guard."""
    state: RequestState


class Pool(Protocol):
    """What the scheduler needs of the page pool."""


class Guard(Protocol):
    """What the scheduler needs of an overtake guard."""


class Scheduler:
    """Decides, step by step, which waiting request to prefill and which pages it gets."""

    def __init__(
        self,
        cache: PrefixCache,
        pool: Pool,
        config: SchedulerConfig,
        *,
        policy: SchedulePolicy | str = "lpm",
        queue: WaitingQueue | None = None,
        guard: Guard | None = None,
        optimal: OptimalMeterLike | None = None,
    ) -> None:
        raise NotImplementedError

    def submit(self, request: Request, now: float) -> Ticket:
        """Take in a request, or raise RequestTooLargeError, DuplicateRequestError, RequestError."""
        raise NotImplementedError

    def schedule(self, now: float) -> Batch:
        """Return the next step, possibly empty (an empty batch is not completed)."""
        raise NotImplementedError

    def complete(
        self, batch: Batch, results: Mapping[str, Result], now: float
    ) -> tuple[Event, ...]:
        """Take in the tokens of the oldest batch in flight; return what happened."""
        raise NotImplementedError

    def abort(self, rid: str, now: float | None = None) -> Finished:
        """End a live request without publishing more of it."""
        raise NotImplementedError

    def finish(
        self, rid: str, keep: bool = True, *, now: float | None = None, reason: str = "stop"
    ) -> PrefixHandle | None:
        """End a live request as complete; keep: return the pin on what was published."""
        raise NotImplementedError

    def report(self) -> SchedulerReport:
        """Return counters and state. Cost: O(1), as far as the queue's properties are."""
        raise NotImplementedError

    def reset_window(self) -> None:
        """Start the report's scope "since reset" anew."""
        raise NotImplementedError

    def check(self) -> None:
        """Verify every invariant; raise IntegrityError if one is broken."""
        raise NotImplementedError
