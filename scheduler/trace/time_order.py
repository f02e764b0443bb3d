"""Arrival order: one look at all timestamps first, so that a sorted file can stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import msgspec

from scheduler.trace.fields import Number, row_of, time_of
from scheduler.trace.source import Line
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["SORTED", "Clock", "in_arrival_order", "scan_clock"]

SORTED = "row goes back in time: sorted, ties in file order"


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns a file's timestamps into seconds after its earliest valid one."""

    origin: Number
    units_per_s: int
    in_order: bool

    def seconds(self, time: Number) -> float:
        """Return the arrival in seconds; the origin is taken off before any rounding."""
        return (time - self.origin) / self.units_per_s


def scan_clock(lines: Iterable[Line], field: str, units_per_s: int) -> Clock:
    """Read every timestamp once; rows without a valid one are left out here.

    Cost: one pass over the file, memory O(1).
    """
    stamp: type[Any] = msgspec.defstruct("Stamp", [(field, Any, None)])
    decode = msgspec.json.Decoder(stamp).decode
    origin: Number | None = None
    latest: Number = 0
    in_order = True
    for line in lines:
        try:
            try:
                time = time_of({field: getattr(decode(line[1]), field)}, field)
            except (msgspec.MsgspecError, RecursionError, ValueError):
                time = time_of(row_of(line, TraceSummary()), field)
        except RowError:
            continue
        in_order = in_order and time >= latest
        latest = max(latest, time)
        origin = time if origin is None else min(origin, time)
    return Clock(origin or 0, units_per_s, in_order)


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
