"""Scheduler: which requests run next, on which pages; a state machine without a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from radixcache import CacheSize, KeyKind, PrefixCache, PrefixHandle
from radixcache.errors import (
    BatchOrderError,
    ConfigError,
    DuplicateRequestError,
    RequestError,
    RequestTooLargeError,
    UnknownRequestError,
)
from scheduler.batch import Batch
from scheduler.completion import Completer
from scheduler.config import SchedulerConfig
from scheduler.entry import check_fits, check_preemption, check_request
from scheduler.events import Event, Finished
from scheduler.integrity import check_scheduler
from scheduler.lifecycle import Lifecycle
from scheduler.overtake_guard import OvertakeGuard
from scheduler.page_ledger import PageLedger, Pool
from scheduler.picking import Picker
from scheduler.planner import Planner
from scheduler.policies import SchedulePolicy
from scheduler.preemption import make_preemptor
from scheduler.queues import make_guard, make_queue
from scheduler.registry import make_schedule_policy
from scheduler.request import Request, RequestState
from scheduler.results import Result
from scheduler.scheduler_report import OptimalMeterLike, SchedulerReport
from scheduler.waiting_queue import WaitingQueue

__all__ = ["Scheduler", "Ticket"]


class Ticket(NamedTuple):
    """The answer to an accepted request."""

    rid: str
    arrival_seq: int
    bound_tokens: int | None
    """Uncached tokens of later arrivals that may at most go first; None without a bound."""
    state: RequestState
    """What happens to it from now on; read only."""
    bound_s: float | None
    """``bound_tokens / prefill_tokens_per_s``: seconds of prefill that later arrivals may at
    most put before it; None without a bound or a rate. It bounds no waiting time: what came
    earlier, decodes, memory and ``max_running`` are not in it."""


class Scheduler:
    """Decides, step by step, which requests run and which pages they get.

    Drive it: ``submit`` requests, then again and again ``schedule`` a batch, run it, and
    ``complete`` it with the tokens it brought. Up to ``max_in_flight`` batches may be
    scheduled before the oldest is completed. It reads no clock: ``now`` is only written
    into the states and given to the queue. The same calls give the same batches in every
    process.

    ``queue`` replaces the queue made from ``policy``; the policy still gives the defaults of
    hold and lookahead, and waiting-aware eviction is then the caller's to set up. ``guard``
    replaces the overtake guard that policy and config ask for.

    Raises:
        ConfigError: the page sizes of config and cache differ, no policy has this name, or
            preemption for priority is asked for without priority classes.

    """

    def __init__(
        self,
        cache: PrefixCache,
        pool: Pool,
        config: SchedulerConfig,
        *,
        policy: SchedulePolicy | str = "lpm",
        queue: WaitingQueue | None = None,
        guard: OvertakeGuard[RequestState] | None = None,
        optimal: OptimalMeterLike | None = None,
    ) -> None:
        if cache.page_size != config.page_size:
            raise ConfigError(
                f"page_size is {config.page_size}, the cache has pages of {cache.page_size} "
                "tokens: use one page size"
            )
        self.policy = make_schedule_policy(policy) if isinstance(policy, str) else policy
        self.hold = self.policy.default_hold if config.hold is None else config.hold
        """What is done with a request whose next page is being computed."""
        self.config = config
        aware = config.waiting_aware
        self.waiting_aware = self.policy.default_waiting_aware if aware is None else aware
        """Whether eviction spares what waiting requests need, where the cache can."""
        self.queue = (
            make_queue(
                self.policy, cache, hold=self.hold != "off", waiting_aware=self.waiting_aware
            )
            if queue is None
            else queue
        )
        self.guard = make_guard(self.policy, config) if guard is None else guard
        check_preemption(config, self.policy, self.guard)
        self._cache = cache
        self._optimal = optimal
        self._life = Lifecycle(
            config,
            PageLedger(cache, pool),
            self.queue,
            self.guard,
            holding=self.hold != "off",
            class_of=self.policy.priority_class,
        )
        lookahead = config.lookahead
        picker = Picker(
            self._life,
            hold=self.hold,
            lookahead=self.policy.default_lookahead if lookahead is None else lookahead,
            preemptor=make_preemptor(self._life),
        )
        self._planner = Planner(self._life, picker)
        self._completer = Completer(self._life, "I" if cache.kind is KeyKind.TOKENS else "Q")
        self._arrivals = 0

    def submit(self, request: Request, now: float) -> Ticket:
        """Take in a request.

        Cost: O(1) and what the queue's ``add`` costs.

        Raises:
            RequestTooLargeError: it could not be admitted even alone; counted as rejected.
            DuplicateRequestError: its rid is alive already.
            RequestError: ``max_waiting`` requests wait already; counted as rejected.
            InvalidInputError, KeyKindError: its numbers or its key are wrong.

        """
        life, config = self._life, self.config
        check_request(request)
        self._cache.peek(request.key, 0)
        rid = request.rid
        if rid in life.waiting or rid in life.running.by_rid:
            raise DuplicateRequestError(f"request {rid!r} is alive already: give each its own rid")
        state = RequestState(
            request, arrival_seq=self._arrivals, page_size=config.page_size, submitted_s=now
        )
        life.tally.total.submitted += 1
        try:
            check_fits(state, life.reserve.promised_pages(state), life.ledger.pool.capacity_pages)
        except RequestTooLargeError:
            life.tally.total.rejected += 1
            raise
        if config.max_waiting is not None and len(life.waiting) >= config.max_waiting:
            life.tally.total.rejected += 1
            raise RequestError(
                f"request {rid!r} finds {len(life.waiting)} waiting, max_waiting is "
                f"{config.max_waiting}: try again later"
            )
        life.now = now
        self._arrivals += 1
        life.enter(state)
        if self._optimal is not None:
            self._optimal.add(request.key, request.prompt_tokens)
        return Ticket(rid, state.arrival_seq, state.bound_tokens, state, state.bound_s)

    def schedule(self, now: float) -> Batch:
        """Return the next step; run it and ``complete`` it.

        An empty batch (``is_empty``) is neither run nor completed, but its events count. It
        says that there is nothing to do until a request arrives or a batch completes.

        Cost: of plain decode steps O(running) in numpy plus O(rows that get a page),
        independent of the context lengths; a chunk costs its pages, an admission what the
        queue's ``candidates`` costs.

        Raises:
            BatchOrderError: ``max_in_flight`` batches are in flight.

        """
        life = self._life
        if len(life.flights) >= self.config.max_in_flight:
            raise BatchOrderError(
                f"{len(life.flights)} batches are in flight, max_in_flight is "
                f"{self.config.max_in_flight}: complete the oldest one first"
            )
        life.now = now
        flight = self._planner.plan()
        if not flight.batch.is_empty:
            life.flights.append(flight)
        return flight.batch

    def complete(
        self, batch: Batch, results: Mapping[str, Result], now: float
    ) -> tuple[Event, ...]:
        """Take in what the oldest batch in flight brought; return what happened.

        ``results[rid] = (new token ids, finish reason or None)``; a request that is left out
        got no tokens. A decode step may bring up to ``max_tokens_per_step``, the end of a
        prompt one, the chunks before none. Tokens beyond ``max_new_tokens`` or the length
        planned for the step, and those of requests that have ended meanwhile, are dropped. A
        request with all its tokens ends with "length".

        Raises:
            BatchOrderError: another batch is due, or the results do not fit this one.
            TokenError: a token is no id. In both cases nothing has changed.

        """
        life = self._life
        if not life.flights or life.flights[0].batch is not batch:
            due = life.flights[0].batch.batch_id if life.flights else None
            raise BatchOrderError(
                f"batch {batch.batch_id} was completed, but "
                f"{'none is in flight' if due is None else f'batch {due} is due'}: complete "
                "each scheduled, non-empty batch once, in order"
            )
        before, life.now = life.now, now
        try:
            return tuple(self._completer.complete(life.flights[0], results))
        except Exception:
            life.now = before
            raise

    def abort(self, rid: str, now: float | None = None) -> Finished:
        """End a live request at once, publishing no more of it; ``now``: the last one seen.

        The pages of a batch in flight stay reserved until it completes.

        Raises:
            UnknownRequestError: no live request has this rid.

        """
        return self._end(rid, "abort", now, keep=False)[0]

    def finish(
        self, rid: str, keep: bool = True, *, now: float | None = None, reason: str = "stop"
    ) -> PrefixHandle | None:
        """End a live request as complete, by the caller's own decision.

        What is computed is published. ``keep`` returns a pin on it (None if nothing is
        cached): release it to the cache when the prefix is no longer needed.

        Raises:
            UnknownRequestError: no live request has this rid.

        """
        return self._end(rid, reason, now, keep=keep)[1]

    def _end(
        self, rid: str, reason: str, now: float | None, *, keep: bool
    ) -> tuple[Finished, PrefixHandle | None]:
        life = self._life
        run = life.running.by_rid.get(rid)
        if run is None and rid not in life.waiting:
            raise UnknownRequestError(f"no live request is called {rid!r}: it may have ended")
        if now is not None:
            life.now = now
        if run is None:
            return life.drop(life.waiting[rid], reason), None
        return life.end(run, reason, keep=keep)

    def report(self) -> SchedulerReport:
        """Return counters and state; see ``SchedulerReport``.

        Cost: O(1) and what the queue's token properties cost.
        """
        life, guard, meter = self._life, self.guard, self._optimal
        size = self._cache.size
        return SchedulerReport(
            total=life.tally.total.copy(),
            since_reset=life.tally.since_reset(),
            window=life.tally.window(),
            waiting=len(life.waiting),
            running=len(life.running),
            in_flight=len(life.flights),
            backlog_tokens=self.queue.backlog_tokens,
            matched_tokens=self.queue.matched_tokens,
            pending_optimal_tokens=self.queue.pending_optimal_tokens,
            free_pages=life.ledger.pool.free_pages,
            evictable_pages=size.evictable_pages,
            protected_pages=size.protected_pages,
            reserved_pages=life.ledger.reserved_pages,
            largest_overtaken_tokens=guard.largest_overtaken,
            largest_overtaken_s=life.prefill_s(guard.largest_overtaken),
            largest_overtaken_ratio=guard.largest_ratio if guard.bounded else None,
            optimal_hit_rate=None if meter is None else meter.optimal_hit_rate,
            optimal_prefill_tokens=None if meter is None else meter.optimal_prefill_tokens,
        )

    def reset_window(self) -> None:
        """Start the report's scope "since reset" anew."""
        self._life.tally.reset_window()

    @property
    def capacity_tokens(self) -> int:
        """Tokens that all pages hold together."""
        return self._life.ledger.pool.capacity_pages * self.config.page_size

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._life.waiting)

    @property
    def running(self) -> int:
        """Number of admitted requests."""
        return len(self._life.running)

    @property
    def backlog_tokens(self) -> int:
        """Uncached tokens of the waiting requests. Cost: what the queue's property costs."""
        return self.queue.backlog_tokens

    @property
    def free_pages(self) -> int:
        """Pages that are neither the cache's nor a request's."""
        return self._life.ledger.pool.free_pages

    @property
    def cached(self) -> CacheSize:
        """The cache's pages, evictable and protected."""
        return self._cache.size

    @property
    def in_flight(self) -> int:
        """Number of batches that were scheduled and not completed."""
        return len(self._life.flights)

    @property
    def is_idle(self) -> bool:
        """Whether no request is alive and no batch in flight."""
        life = self._life
        return not (life.waiting or life.running.by_rid or life.flights)

    def state_of(self, rid: str) -> RequestState:
        """Return the state of a live request; read only.

        Raises:
            UnknownRequestError: no live request has this rid.

        """
        life = self._life
        run = life.running.by_rid.get(rid)
        state = life.waiting.get(rid) if run is None else run.state
        if state is None:
            raise UnknownRequestError(f"no live request is called {rid!r}: it may have ended")
        return state

    def check(self) -> None:
        """Verify every invariant of queue, guard, pages, rows and cache. Cost: O(everything).

        Raises:
            IntegrityError: one is broken.

        """
        check_scheduler(self._life)
