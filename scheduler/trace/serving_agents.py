"""Calls of LLMServingSim: one of a row, or those that an agent's session makes in turn.

``{"session_id":"s","arrival_time_ns":0,"sub_requests":[{"input_toks":3,"output_toks":2,
"input_tok_ids":[1,2,3],"output_tok_ids":[4,5],"tool_duration_ns":100000}]}``. A call comes
when the one before has its answer and its tool is through; a call is a row of the summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from radixcache import PrefixKey
from scheduler.request import Request
from scheduler.trace.fields import count_of, ids_of, name_of, row_of, time_of
from scheduler.trace.formats import UNITS_PER_S, Head, ReadOptions
from scheduler.trace.json_objects import objects_in
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.session_rows import Session, in_session_order
from scheduler.trace.sessions import OUTPUT_TOKEN_S
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import UNTIMED, Arrivals, scan_clock

__all__ = ["agent_requests", "call_of", "holds_calls"]

STAMP = "arrival_time_ns"
MISCOUNTED = "input_toks is not the number of ids: the ids count"


def holds_calls(row: dict[str, Any]) -> bool:
    """Recognise the session of an agent."""
    return isinstance(row.get("sub_requests"), list)


def call_of(
    call: dict[str, Any],
    rid: str,
    session: str | None,
    options: ReadOptions,
    repairs: list[str],
    arrival_s: float = 0.0,
) -> Request:
    """Make the request of one call. Raises: RowError."""
    if call.get("input_tok_ids") is None:
        raise RowError("input_tok_ids is missing: no prefix identity")
    key = PrefixKey(ids_of(call, "input_tok_ids", bits=32))
    if not len(key):
        raise RowError("input_tok_ids is empty")
    if call.get("input_toks") not in (None, len(key)):
        repairs.append(MISCOUNTED)
    output_ids = None
    if call.get("output_tok_ids") is not None:
        output_ids = tuple(ids_of(call, "output_tok_ids", bits=32))
    output_tokens = len(output_ids) if output_ids is not None else None
    if output_tokens is None and call.get("output_toks") is not None:
        output_tokens = count_of(call, "output_toks", least=0)
    return Request(
        rid=rid,
        key=key,
        prompt_tokens=len(key),
        max_new_tokens=max(options.max_new_tokens, output_tokens or 0),
        arrival_s=arrival_s,
        session_id=session,
        recorded_output_tokens=output_tokens,
        recorded_output_ids=output_ids,
    )


def agent_requests(
    source: Source, head: Head, options: ReadOptions, summary: TraceSummary, *, timed: bool
) -> Iterator[Request]:
    """Yield the calls of all sessions in arrival order, and count every one.

    Memory: the sessions alive at one time; all where they go back in time.
    """
    clock = UNTIMED
    if timed:
        lines = objects_in(source, head.data, TraceSummary())
        clock = scan_clock(lines, STAMP, UNITS_PER_S[options.time_unit or "ns"])
    arrivals = Arrivals(clock, STAMP, timed=timed, rate_per_s=options.rate_per_s)
    names = UniqueNames()

    def make(line: Line) -> tuple[dict[str, Any], float]:
        row = row_of(line, summary)
        if not holds_calls(row):
            raise RowError("sub_requests is no list")
        if not row["sub_requests"]:
            raise RowError("session without calls")
        return row, arrivals.of(row, None, taken=summary.requests)

    def sessions() -> Iterator[Session]:
        lines = objects_in(source, head.data, summary)
        strict = options.strict
        for line, (row, start_s) in made_rows(
            lines, make, summary, strict=strict, path=source.path
        ):
            summary.records += 1
            name = names.claim(name_of(row, "session_id") or f"line {line}", line, summary)
            calls = ((line, call) for call in row["sub_requests"])
            maker = _Calls(name, start_s, options, summary)
            found = made_rows(calls, maker, summary, strict=strict, path=source.path)
            requests = [request for _, request in found]
            if requests:
                yield Session(line, start_s, requests)

    yield from in_session_order(sessions(), in_order=clock.in_order, summary=summary)


class _Calls:
    """Makes the requests of one session, one after another."""

    __slots__ = ("made", "name", "options", "summary", "time_s", "units_per_s")

    def __init__(
        self, name: str, start_s: float, options: ReadOptions, summary: TraceSummary
    ) -> None:
        self.name = name
        self.time_s = start_s
        self.options = options
        self.summary = summary
        self.made = 0
        self.units_per_s = UNITS_PER_S[options.time_unit or "ns"]

    def __call__(self, numbered: tuple[int, Any]) -> Request:
        """Make the request of the next call, and move the time on to the one after."""
        line, call = numbered
        self.made += 1
        if not isinstance(call, dict):
            raise RowError("a call is no object", call)
        repairs: list[str] = []
        rid = f"{self.name}/{self.made}"
        request = call_of(call, rid, self.name, self.options, repairs, self.time_s)
        pause = 0.0
        if call.get("tool_duration_ns") is not None:
            pause = time_of(call, "tool_duration_ns") / self.units_per_s
        self.time_s += (request.recorded_output_tokens or 0) * OUTPUT_TOKEN_S + pause
        for reason in repairs:
            self.summary.repair(reason, line)
        self.summary.took()
        return request
