"""Lifecycle: every change of a request's status, with all that must happen at it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from radixcache import PrefixHandle
from scheduler.admission import Pick, pages_for
from scheduler.config import SchedulerConfig
from scheduler.events import Admitted, Event, Finished, Retracted
from scheduler.overtake_guard import OvertakeGuard
from scheduler.page_ledger import PageLedger
from scheduler.publishing import Publisher
from scheduler.request import RequestState, RequestStatus
from scheduler.reserve import make_reserve
from scheduler.retraction import lost_tokens, victim_key
from scheduler.running import Run, Running
from scheduler.scheduler_report import Tally
from scheduler.step import Flight
from scheduler.waiting_queue import WaitingQueue

__all__ = ["Lifecycle"]


class Lifecycle:
    """The requests that are alive, and their ways in, up, back and out.

    Queue, guard, pages, pins and counters are told of a change here and nowhere else.
    """

    __slots__ = (
        "class_of",
        "config",
        "flights",
        "guard",
        "holding",
        "ledger",
        "now",
        "publisher",
        "queue",
        "reserve",
        "running",
        "starved",
        "tally",
        "tokenless",
        "victim_key",
        "waiting",
    )

    def __init__(
        self,
        config: SchedulerConfig,
        ledger: PageLedger,
        queue: WaitingQueue,
        guard: OvertakeGuard[RequestState],
        *,
        holding: bool,
        class_of: Callable[[RequestState], int],
    ) -> None:
        self.config = config
        self.ledger = ledger
        self.queue = queue
        self.guard = guard
        self.class_of = class_of
        """The priority class of a request; the smaller goes first."""
        self.holding = holding
        """Whether followers of a prefix that is being computed are told apart at all."""
        self.reserve = make_reserve(config)
        self.running = Running(config.max_running)
        self.victim_key = victim_key(config.retract, self.running, config.page_size, class_of)
        """Who gives pages back first."""
        self.publisher = Publisher(ledger, self.running, config.page_size)
        self.tally = Tally(config.window_requests)
        self.waiting: dict[str, RequestState] = {}
        self.flights: deque[Flight] = deque()
        self.starved: dict[str, Run] = {}
        """Decoding requests that got no pages when they last asked."""
        self.tokenless: dict[str, Run] = {}
        """Requests whose prompt was computed and gave no token: its last position runs again."""
        self.now = 0.0

    def prefill_s(self, tokens: int | None) -> float | None:
        """Return how long it takes to prefill ``tokens``; None if that or the rate is unknown."""
        rate = self.config.prefill_tokens_per_s
        return None if tokens is None or rate is None else tokens / rate

    def enter(self, state: RequestState) -> None:
        """Let an accepted request wait."""
        # Only a bound needs the backlog, which a plain queue must sum up.
        backlog = self.queue.backlog_tokens if self.guard.bounded else 0
        state.bound_tokens = self.guard.arrive(state, backlog)
        state.bound_s = self.prefill_s(state.bound_tokens)
        self.waiting[state.rid] = state
        self.queue.add(state)

    def admit(self, pick: Pick) -> tuple[Run, Admitted]:
        """Pin the prefix of a waiting request and reserve its pages."""
        state = pick.state
        weight = state.prefill_tokens - pick.matched_tokens
        state.overtaken_tokens = self.guard.admitted(state, weight, forced=pick.forced)
        handle = self.ledger.cache.match(state.key, state.cap_tokens)
        assert handle.prefix_tokens == pick.matched_tokens
        del self.waiting[state.rid]
        self.queue.admit(state, pick.matched_tokens)
        run = self.running.add(state, handle, pick.total_pages)
        self.ledger.reserved_pages += run.promised_pages
        state.status = RequestStatus.PREFILL
        resumed = state.admitted_s is not None
        self._count_admission(state, handle.prefix_tokens, forced=pick.forced)
        return run, Admitted(state, handle.prefix_tokens, resumed, pick.forced)

    def _count_admission(self, state: RequestState, cached_tokens: int, *, forced: bool) -> None:
        total = self.tally.total
        total.forced_admissions += forced
        if state.hit_tokens is None:
            state.admitted_s = self.now
            state.hit_tokens = cached_tokens
            total.admitted += 1
            total.prompt_tokens += state.prompt_tokens
            total.hit_tokens += cached_tokens
            return
        # Its own work found again is no reuse.
        again = max(state.retracted_tokens - cached_tokens, 0)
        state.resumed_tokens += cached_tokens
        state.recomputed_tokens += again
        total.resumed_tokens += cached_tokens
        total.recomputed_tokens += again

    def publish_prompt(self, run: Run, tokens: int) -> None:
        """Publish the prompt up to ``tokens``, which are computed or scheduled."""
        self.publisher.publish(run, run.state.key, tokens)
        if self.holding:
            self.queue.published(run.state, tokens)

    def retract(self, run: Run) -> list[Event]:
        """Send a running request back to the queue, its computed pages left in the cache.

        With ``publish_retracted=False`` only what was published before stays there.
        One that could not come back even alone ends with "capacity" instead.
        """
        state = run.state
        computed = self.running.computed(run)
        self._leave(run)
        if self.config.publish_retracted:
            self.publisher.publish_output(run)
        lost = lost_tokens(run, self.running, self.config.page_size)
        self.publisher.give_up(run)
        state.retractions += 1
        self.tally.total.retractions += 1
        state.retracted_tokens = computed
        state.prefill_tokens = state.prompt_tokens + state.output_tokens
        state.publishable_key()
        state.renew_cap()
        events: list[Event] = [Retracted(state, lost)]
        least = pages_for(state.prefill_tokens, self.config.page_size)
        if least > self.ledger.pool.capacity_pages:
            events.append(self._close(state, "capacity"))
        else:
            state.status = RequestStatus.WAITING
            self.waiting[state.rid] = state
            self.guard.returned(state)
            self.queue.add(state)
        return events

    def end(
        self, run: Run, reason: str, *, keep: bool = False
    ) -> tuple[Finished, PrefixHandle | None]:
        """End a running request; an aborted one publishes nothing more."""
        self._leave(run)
        if reason != "abort":
            self.publisher.publish_output(run)
        kept = self.publisher.give_up(run, keep=keep)
        return self._close(run.state, reason), kept

    def drop(self, state: RequestState, reason: str) -> Finished:
        """End a waiting request."""
        del self.waiting[state.rid]
        self.queue.remove(state)
        state.overtaken_tokens = self.guard.overtaken(state)
        return self._close(state, reason)

    def _leave(self, run: Run) -> None:
        """Note that a run is over: its followers wait no longer, its late tokens are dropped."""
        self.queue.given_up(run.state)
        self.tokenless.pop(run.state.rid, None)
        self.starved.pop(run.state.rid, None)
        if self.running.last_batch_of(run) > self.ledger.completed_id:
            for flight in self.flights:
                flight.some_gone = True

    def _close(self, state: RequestState, reason: str) -> Finished:
        state.finish_reason = reason
        state.finished_s = self.now
        state.status = RequestStatus.ABORTED if reason == "abort" else RequestStatus.FINISHED
        self.guard.removed(state)
        self.tally.ended(state)
        return Finished(state, reason)
