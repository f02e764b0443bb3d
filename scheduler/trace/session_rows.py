"""Rows that hold a whole session each: their requests, brought into one order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from scheduler.request import Request
from scheduler.trace.sessions import merged
from scheduler.trace.summary import TraceSummary
from scheduler.trace.time_order import SORTED

__all__ = ["Session", "in_session_order"]


class Session(NamedTuple):
    """The requests of one row, in order of arrival; none of them comes before its start."""

    line: int
    start_s: float
    requests: Iterable[Request]


def in_session_order(
    sessions: Iterable[Session], *, in_order: bool, summary: TraceSummary
) -> Iterator[Request]:
    """Yield the requests of all sessions by arrival, ties in file order.

    Cost: O(log sessions) a request; holds the sessions alive at one time, or all of them
    where they are not ``in_order`` of their starts; those that were moved are counted.
    """
    if in_order:
        yield from merged((session.start_s, iter(session.requests)) for session in sessions)
        return
    held = []
    latest_s = 0.0
    for session in sessions:
        if session.start_s < latest_s:
            summary.repair(SORTED, session.line)
        latest_s = max(latest_s, session.start_s)
        held.append(session)
    held.sort(key=attrgetter("start_s"))
    yield from merged((session.start_s, iter(session.requests)) for session in held)
