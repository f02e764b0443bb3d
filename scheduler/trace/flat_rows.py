"""FlatRows: files of one JSON object a request, with or without a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scheduler.request import Request
from scheduler.trace.assumed import said_of_missing_times
from scheduler.trace.fields import row_of
from scheduler.trace.formats import UNITS_PER_S, Head, ReadOptions, TimeUnit
from scheduler.trace.json_objects import objects_in
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import TraceSummary
from scheduler.trace.time_order import (
    DELAYED,
    UNTIMED,
    Arrivals,
    has_times,
    in_arrival_order,
    scan_clock,
)

__all__ = ["FlatRows", "Stamp"]

MakeRow = Callable[[dict[str, Any], int, list[str]], Request]


class Stamp(NamedTuple):
    """The field that holds the time of a row, and the format's unit for it."""

    field: str
    unit: TimeUnit


@dataclass(frozen=True, slots=True)
class FlatRows:
    """Streams one file of rows.

    ``make`` checks a row (given its line, and a list for the reasons of repairs) and returns
    its request; the arrival is set here. Names of requests are kept apart.
    """

    head: Head
    options: ReadOptions
    stamp: Stamp | None
    make: MakeRow

    @property
    def times(self) -> tuple[bool, bool]:
        """Whether the rows have timestamps, and delays."""
        return has_times(self.head.rows, self.stamp.field) if self.stamp else (False, False)

    @property
    def unit(self) -> TimeUnit:
        """The unit of the timestamps."""
        return self.options.time_unit or (self.stamp.unit if self.stamp else "s")

    def assumed(self) -> list[str]:
        """Say what is taken for granted of the times."""
        timed, delayed = self.times
        if timed:
            own = "" if self.options.time_unit else " (the format's own)"
            said = [f"timestamps are in {self.unit}{own}"]
        else:
            said = [said_of_missing_times(self.options)]
        return [*said, DELAYED] if delayed else said

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests in arrival order."""
        clock = UNTIMED
        if self.stamp and any(self.times):
            lines = objects_in(source, self.head.data, TraceSummary())
            clock = scan_clock(lines, self.stamp.field, UNITS_PER_S[self.unit])
        arrivals = Arrivals(
            clock,
            self.stamp.field if self.stamp else "",
            timed=self.times[0],
            rate_per_s=self.options.rate_per_s,
        )
        yield from in_arrival_order(self._requests(source, arrivals, summary), clock, summary)

    def _requests(
        self, source: Source, arrivals: Arrivals, summary: TraceSummary
    ) -> Iterator[tuple[int, Request]]:
        """Yield (line, request) in file order and count every row."""
        names = UniqueNames()

        def make(line: Line) -> tuple[Request, list[str]]:
            repairs: list[str] = []
            row = row_of(line, summary)
            request = self.make(row, line[0], repairs)
            arrival_s = arrivals.of(
                row, request.recorded_output_tokens, taken=summary.requests, repairs=repairs
            )
            return replace(request, arrival_s=arrival_s), repairs

        lines = objects_in(source, self.head.data, summary)
        made = made_rows(lines, make, summary, strict=self.options.strict, path=source.path)
        for line, (request, repairs) in made:
            for reason in repairs:
                summary.repair(reason, line)
            summary.took()
            rid = names.claim(request.rid, line, summary)
            yield line, request if rid == request.rid else replace(request, rid=rid)
