"""Arrival order: one look at all timestamps first, so that a sorted file can stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import msgspec

from scheduler.trace.fields import Number, name_of, row_of, time_of
from scheduler.trace.sessions import OUTPUT_TOKEN_S
from scheduler.trace.source import Line
from scheduler.trace.summary import RowError, TraceSummary

__all__ = [
    "DELAYED",
    "SORTED",
    "UNTIMED",
    "Arrivals",
    "Clock",
    "has_times",
    "in_arrival_order",
    "scan_clock",
]

SORTED = "row goes back in time: sorted, ties in file order"
DELAYED = (
    "a row with a delay and no timestamp comes so much after the answer before it in its "
    f"session, which takes {OUTPUT_TOKEN_S * 1000:g} ms a token"
)


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns a file's timestamps into seconds after its earliest valid one."""

    origin: Number
    units_per_s: int
    in_order: bool
    delayed: bool = False
    """Whether there is a row with a delay and no timestamp."""

    def seconds(self, time: Number) -> float:
        """Return the arrival in seconds; the origin is taken off before any rounding."""
        return (time - self.origin) / self.units_per_s


UNTIMED = Clock(0, 1, True)
"""The clock of a file without timestamps."""


class Arrivals:
    """The arrival of each row of one pass: as it is stamped, after a delay, or nominal.

    Memory: the end of the last answer of each session, where rows have delays.
    """

    __slots__ = ("_answered", "_clock", "_field", "_gap_s", "_timed")

    def __init__(self, clock: Clock, field: str, *, timed: bool, rate_per_s: float) -> None:
        self._clock = clock
        self._field = field
        self._timed = timed
        self._gap_s = 1 / rate_per_s
        self._answered: dict[str, float] = {}

    def of(
        self,
        row: dict[str, Any],
        output_tokens: int | None,
        *,
        taken: int,
        repairs: list[str] | None = None,
    ) -> float:
        """Return the arrival of a row in seconds, after so many others were taken.

        Raises: RowError when it has none.
        """
        if self._clock.delayed:
            return self._after_answers(row, output_tokens, taken, repairs)
        return self._own(row, taken, repairs)

    def _own(self, row: dict[str, Any], taken: int, repairs: list[str] | None) -> float:
        """Return the arrival as it is stamped, or the nominal one."""
        if self._timed:
            return self._clock.seconds(time_of(row, self._field, repairs))
        return taken * self._gap_s

    def _after_answers(
        self,
        row: dict[str, Any],
        output_tokens: int | None,
        taken: int,
        repairs: list[str] | None,
    ) -> float:
        """Return the arrival, after the session's answer before if that is what it counts from."""
        session = name_of(row, "session_id")
        if _is_delayed(row, self._field) and session in self._answered:
            delay = time_of(row, "delay", repairs)
            arrival_s = self._answered[session] + delay / self._clock.units_per_s
        else:
            arrival_s = self._own(row, taken, repairs)
        if session is not None:
            self._answered[session] = arrival_s + (output_tokens or 0) * OUTPUT_TOKEN_S
        return arrival_s


def scan_clock(
    lines: Iterable[Line],
    field: str,
    units_per_s: int,
    read: Callable[[Line], dict[str, Any]] | None = None,
) -> Clock:
    """Read every timestamp once; rows without a valid one are left out here.

    ``read`` makes a row of a line that is no JSON. A file in which delays stand for
    timestamps is not in order. Cost: one pass over the file, memory O(1).
    """
    stamp: type[Any] = msgspec.defstruct("Stamp", [(field, Any, None), ("delay", Any, None)])
    decode = msgspec.json.Decoder(stamp).decode
    origin: Number | None = None
    latest: Number = 0
    in_order, delayed = True, False
    for line in lines:
        try:
            row = read(line) if read else _stamp(line, decode, field)
            delayed = delayed or _is_delayed(row, field)
            time = time_of(row, field)
        except RowError:
            continue
        in_order = in_order and time >= latest
        latest = max(latest, time)
        origin = time if origin is None else min(origin, time)
    return Clock(origin or 0, units_per_s, in_order and not delayed, delayed)


def _is_delayed(row: dict[str, Any], field: str) -> bool:
    """Tell whether a delay stands for the timestamp."""
    return row.get(field) is None and row.get("delay") is not None


def _stamp(line: Line, decode: Callable[[bytes], Any], field: str) -> dict[str, Any]:
    """Return the time fields of a JSON line, without decoding the rest where that can be."""
    try:
        found = decode(line[1])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return row_of(line, TraceSummary())
    return {field: getattr(found, field), "delay": found.delay}


def has_times(rows: list[dict[str, Any]], field: str) -> tuple[bool, bool]:
    """Tell whether the first of a file's rows has a timestamp, and whether any has a delay."""
    timed = any(row.get(field) is not None for row in rows[:1])
    return timed, any(row.get("delay") is not None for row in rows)


class Arriving(Protocol):
    """Something with an arrival: a request, or what one is made of."""

    @property
    def arrival_s(self) -> float:
        """Seconds after the start of the trace."""
        ...


A = TypeVar("A", bound=Arriving)


def in_arrival_order(
    requests: Iterable[tuple[int, A]], clock: Clock, summary: TraceSummary
) -> Iterator[A]:
    """Yield requests by arrival, ties in file order; count the rows that were moved.

    Each comes with its line number. Cost: streams when the clock found the file in order;
    else O(n log n) and all requests are held.
    """
    if clock.in_order:
        for _, request in requests:
            yield request
        return
    held = []
    latest_s = 0.0
    for line, request in requests:
        if request.arrival_s < latest_s:
            summary.repair(SORTED, line)
        latest_s = max(latest_s, request.arrival_s)
        held.append(request)
    held.sort(key=attrgetter("arrival_s"))
    yield from held
