"""ClosedLoop: sessions whose next turn waits for the answer before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush

from radixcache.errors import ConfigError, InvalidInputError
from scheduler.request import Request, RequestState
from scheduler.trace.sessions import SessionPlan

__all__ = ["CLOSED_LOOP", "ClosedLoop"]

CLOSED_LOOP = (
    "closed loop: a turn arrives a think time after the end of the answer before it; one that "
    "its client aborted is followed by the next as recorded, one that was refused or cut short "
    "for capacity ends its session"
)


class _Live:
    """A session between its start and its end; it makes a turn's prompt when that is sent."""

    __slots__ = ("next_turn", "order", "plan", "requests")

    def __init__(self, plan: SessionPlan, order: int) -> None:
        self.plan = plan
        self.order = order
        self.requests = plan.requests()
        self.next_turn = 0


class ClosedLoop:
    """A ``RequestSource`` of sessions: the next turn arrives ``think_s`` after the answer.

    Prompts are as recorded, whatever the simulated answer was, so each extends the one before
    and its recorded answer. A turn that its client aborted is followed by the next one, as the
    trace tells. A turn that was refused, or ended with "capacity", ends its session: the turns
    after it are counted in ``dropped_requests`` and never sent.

    ``sessions`` come in order of their starts and are read as the clock reaches them: memory
    is that of the live sessions, one history each. ``start_scale`` multiplies the starts,
    counted from the first; think times are left alone. ``adapt`` may change each request
    before it is sent. Ties go to the session that started first.

    Cost: O(log live sessions) and the prompt's bytes a request.
    Raises: ConfigError for a bad scale; InvalidInputError when starts go back in time.
    """

    __slots__ = (
        "_adapt",
        "_arrivals",
        "_expected_requests",
        "_origin_s",
        "_out",
        "_scale",
        "_sessions",
        "_started",
        "_upcoming",
        "dropped_requests",
        "most_live_sessions",
    )

    def __init__(
        self,
        sessions: Iterable[SessionPlan],
        *,
        expected_requests: int = 0,
        start_scale: float = 1.0,
        adapt: Callable[[Request], Request] | None = None,
    ) -> None:
        if not (math.isfinite(start_scale) and start_scale > 0):
            raise ConfigError(f"start scale is {start_scale!r}: give a finite number above 0")
        self._sessions: Iterator[SessionPlan] = iter(sessions)
        self._expected_requests = expected_requests
        self._scale = start_scale
        self._adapt = adapt
        self._origin_s: float | None = None
        self._started = 0
        self._arrivals: list[tuple[float, int, _Live]] = []
        self._out: dict[str, _Live] = {}
        self.dropped_requests = 0
        """Turns that were never sent, because one before them got no whole answer."""
        self.most_live_sessions = 0
        """Sessions that were alive at one time, at most."""
        self._upcoming: tuple[float, SessionPlan] | None = None
        self._look_ahead()

    def next_arrival_s(self) -> float | None:
        """Return the time of the next turn known so far, or None."""
        upcoming = self._upcoming
        if not self._arrivals:
            return None if upcoming is None else upcoming[0]
        first = self._arrivals[0][0]
        return first if upcoming is None else min(first, upcoming[0])

    def pop(self) -> Request:
        """Return the turn that arrives next."""
        upcoming = self._upcoming
        if upcoming is not None and not (self._arrivals and self._arrivals[0][0] <= upcoming[0]):
            arrival_s, plan = upcoming
            live = _Live(plan, self._started)
            self._started += 1
            self._look_ahead()
        else:
            arrival_s, _, live = heappop(self._arrivals)
        request = replace(next(live.requests), arrival_s=arrival_s)
        live.next_turn += 1
        if self._adapt is not None:
            request = self._adapt(request)
        self._out[request.rid] = live
        self.most_live_sessions = max(self.most_live_sessions, len(self._out) + len(self._arrivals))
        return request

    def first_token(self, state: RequestState, now: float) -> None:
        """Do nothing: a turn waits for the whole answer."""

    def finished(self, state: RequestState, now: float) -> None:
        """Plan the next turn of a session, or end it."""
        live = self._out.pop(state.rid)
        turns = live.plan.turns
        if live.next_turn == len(turns):
            return
        if state.finish_reason == "capacity":
            self.dropped_requests += len(turns) - live.next_turn
            return
        arrival_s = now + turns[live.next_turn].think_s
        heappush(self._arrivals, (arrival_s, live.order, live))

    def rejected(self, request: Request, now: float) -> None:
        """End the session of a turn that was refused."""
        live = self._out.pop(request.rid)
        self.dropped_requests += len(live.plan.turns) - live.next_turn

    @property
    def expected_requests(self) -> int:
        """Turns in all, as given, for a progress bar."""
        return self._expected_requests

    def _look_ahead(self) -> None:
        """Read the next session that has a turn."""
        plan = next((plan for plan in self._sessions if plan.turns), None)
        if plan is None:
            self._upcoming = None
            return
        if self._origin_s is None:
            self._origin_s = plan.start_s
        start_s = (plan.start_s - self._origin_s) * self._scale
        if self._upcoming is not None and start_s < self._upcoming[0]:
            raise InvalidInputError(
                f"session {plan.session_id} starts before the one before it: sort them by start_s"
            )
        self._upcoming = start_s, plan
