"""Simulation: drive a Scheduler with a virtual clock; one reproducible run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from radixcache.errors import ConfigError, IntegrityError, RequestError, RequestTooLargeError
from scheduler.batch import Batch, StepRecord
from scheduler.events import Event, Finished, FirstToken
from scheduler.request import Request, RequestState, TokenIds
from scheduler.results import Result
from scheduler.scheduler import Scheduler
from scheduler.sim.cost_model import StepCost, StepLoad
from scheduler.sim.outputs import answer
from scheduler.sim.source import RequestSource

__all__ = ["RunObserver", "Simulation", "step_load"]


class RunObserver(Protocol):
    """Who listens to a run; `scheduler.report.Recorder` is one."""

    def on_submit(self, state: RequestState) -> None:
        """Learn that a request was accepted."""
        ...

    def on_reject(self, request: Request, reason: str) -> None:
        """Learn that a request was refused."""
        ...

    def on_step(self, record: StepRecord) -> None:
        """Learn how a step went."""
        ...

    def on_finish(self, state: RequestState) -> None:
        """Learn that a request ended."""
        ...


LATEST_S = 1e12
"""Seconds a run may last: beyond, a float tells steps of a millisecond apart no more."""

_GONE: tuple[Sequence[int], list[Result]] = ((), [((), None)])
"""A request that ended while a step of it was in flight: no token."""


class _Flight(NamedTuple):
    batch: Batch
    end_s: float


def step_load(batch: Batch) -> StepLoad:
    """Return what the step of a batch computes. Cost: O(chunks) and one numpy sum."""
    decoding = batch.lengths[len(batch.chunks) :]
    return StepLoad(
        prefill_tokens=batch.prefill_tokens,
        attention_tokens2=sum(
            chunk.tokens * (chunk.start_tokens + chunk.tokens / 2) for chunk in batch.chunks
        ),
        running=len(batch.rids),
        context_tokens=int(decoding.sum()) if len(decoding) else 0,
    )


class Simulation:
    """A virtual clock around one scheduler: submit at arrival, run steps, give tokens.

    Steps follow each other on one device; with ``max_in_flight`` above 1 the next step is
    scheduled while earlier ones run. A request with ``abort_after_s`` is aborted when it has
    not ended by then, one with ``abort_after_tokens`` when a step has brought that token and
    the answer goes on. What happens at one moment is told in the order arrivals, aborts, the
    end of a step excepted, which comes first. ``check_every_step`` verifies the scheduler's
    invariants after each call, for tests. The same inputs give the same run.

    Raises, while it runs: ConfigError when the clock passes ``LATEST_S``.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        source: RequestSource,
        cost: StepCost,
        observer: RunObserver,
        *,
        check_every_step: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._capacity_tokens = scheduler.capacity_tokens
        self._source = source
        self._cost = cost
        self._observer = observer
        self._check = check_every_step
        self._on_progress = on_progress
        self._flights: deque[_Flight] = deque()
        self._states: dict[str, RequestState] = {}
        self._answers: dict[str, tuple[TokenIds, list[Result]]] = {}
        """Tokens so far, and all there will be, of each request that got its first one."""
        self._patience: list[tuple[float, int, RequestState]] = []
        """Those whose clients will give up: (when, arrival, request)."""
        self._limited: dict[str, RequestState] = {}
        """Those whose clients will give up at some token, by name."""
        self._ended = 0
        self._device_free_s = 0.0
        self.now = 0.0

    def run(self) -> float:
        """Run until every request ended; return the time of the end in seconds."""
        limit = self._scheduler.config.max_in_flight
        while True:
            self._clients_until(self.now)
            while len(self._flights) < limit and self._start_step():
                pass
            client_s = self._next_client_s()
            if self._flights:
                end = self._flights[0].end_s
                if client_s < end:
                    self._clients_until(client_s if len(self._flights) < limit else end)
                    continue
                self._complete_step()
            elif client_s < math.inf or self._source.next_arrival_s() is not None:
                self._go_on_to(client_s)
            elif self._states:
                raise IntegrityError(
                    f"{len(self._states)} requests wait at {self.now} s, nothing runs and "
                    "nothing arrives: the scheduler makes no progress"
                )
            else:
                return self.now

    def _go_on_to(self, moment_s: float) -> None:
        """Set the clock to a moment, unless it is there already."""
        if moment_s > self.now:
            if moment_s > LATEST_S:
                raise ConfigError(
                    f"the clock of this run reaches {moment_s:g} s, of at most {LATEST_S:g}: "
                    "let requests arrive closer together, or steps take less time"
                )
            self.now = moment_s

    def _next_client_s(self) -> float:
        """Return when a client sends a request or gives one up next; infinity for never."""
        patience = self._patience
        while patience and patience[0][2].ended:
            heappop(patience)
        arrival_s = self._source.next_arrival_s()
        deadline_s = patience[0][0] if patience else math.inf
        return deadline_s if arrival_s is None else min(arrival_s, deadline_s)

    def _clients_until(self, until_s: float) -> None:
        """Let clients send and give up, up to and including ``until_s``, each at its own time."""
        while (at_s := self._next_client_s()) <= until_s:
            self._go_on_to(at_s)
            if self._source.next_arrival_s() == at_s:
                self._submit(self._source.pop(), at_s)
            else:
                rid = heappop(self._patience)[2].rid
                self._take((self._scheduler.abort(rid, self.now),))

    def _submit(self, request: Request, arrival_s: float) -> None:
        try:
            state = self._scheduler.submit(request, arrival_s).state
        except RequestTooLargeError:
            self._reject(request, "larger than the cache")
        except RequestError as error:
            self._reject(request, type(error).__name__)
        else:
            self._states[request.rid] = state
            if request.abort_after_s is not None:
                deadline_s = arrival_s + request.abort_after_s
                heappush(self._patience, (deadline_s, state.arrival_seq, state))
            if request.abort_after_tokens is not None:
                self._limited[request.rid] = state
            self._observer.on_submit(state)

    def _reject(self, request: Request, reason: str) -> None:
        self._observer.on_reject(request, reason)
        self._source.rejected(request, self.now)
        self._count_end()

    def _start_step(self) -> bool:
        scheduler = self._scheduler
        batch = scheduler.schedule(self.now)
        self._take(batch.events)
        if self._check:
            scheduler.check()
        if batch.is_empty:
            return False
        start = max(self.now, self._device_free_s)
        seconds = self._cost.step_seconds(step_load(batch))
        self._device_free_s = start + seconds
        self._flights.append(_Flight(batch, start + seconds))
        cached = scheduler.cached
        self._observer.on_step(
            StepRecord(
                start_s=start,
                duration_s=seconds,
                prefill_tokens=batch.prefill_tokens,
                decode_tokens=batch.decode_tokens,
                running=scheduler.running,
                waiting=scheduler.waiting,
                backlog_tokens=scheduler.backlog_tokens,
                free_pages=scheduler.free_pages,
                evictable_pages=cached.evictable_pages,
                protected_pages=cached.protected_pages,
                evicted_pages=batch.evicted_pages,
                retracted=batch.retracted,
            )
        )
        return True

    def _complete_step(self) -> None:
        batch, end_s = self._flights.popleft()
        self._go_on_to(end_s)
        results = self._results(batch)
        self._take(self._scheduler.complete(batch, results, self.now))
        if self._limited:
            self._abort_sated(results)
        if self._check:
            self._scheduler.check()

    def _abort_sated(self, rids: Iterable[str]) -> None:
        """Let those clients give up who have all the tokens they wait for."""
        for rid in rids:
            state = self._limited.get(rid)
            if state is None or state.output_tokens < (state.request.abort_after_tokens or 0):
                continue
            del self._limited[rid]
            self._take((self._scheduler.abort(rid, self.now),))

    def _results(self, batch: Batch) -> dict[str, Result]:
        """One token for each request that ends its prompt in this step or decodes."""
        answers = self._answers
        rids = batch.decode_rids
        for chunk in batch.chunks:
            if chunk.last:
                rids += (chunk.rid,)
                state = self._states.get(chunk.rid)
                if state is not None and chunk.rid not in answers:
                    answers[chunk.rid] = state.outputs, answer(state, self._capacity_tokens)
        return {
            rid: steps[len(outputs)]
            for rid in rids
            for outputs, steps in (answers.get(rid, _GONE),)
        }

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is FirstToken:
                self._source.first_token(event.state, self.now)
            elif type(event) is Finished:
                state = event.state
                del self._states[state.rid]
                self._answers.pop(state.rid, None)
                self._limited.pop(state.rid, None)
                self._observer.on_finish(state)
                self._source.finished(state, self.now)
                self._count_end()

    def _count_end(self) -> None:
        self._ended += 1
        if self._on_progress is not None:
            self._on_progress(self._ended)
