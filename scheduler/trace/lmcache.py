"""Reader of LMCache agent JSONL: the text of each call, in and out.

``{"timestamp":1760000000000000,"input":"...","output":"...","session_id":"s"}``, microseconds.
``input`` is the whole prompt. Where it begins with the session's input before, the tokens of
that are kept and only the rest is tokenized, so no piece changes from call to call. Memory:
the last input of each session; all calls when rows go back in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers, said_of_tokenizer
from scheduler.trace.fields import name_of, row_of, text_of, time_of
from scheduler.trace.formats import UNITS_PER_S, Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.row_reading import made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import Clock, in_arrival_order, scan_clock

__all__ = ["LMCACHE"]


@dataclass(frozen=True, slots=True)
class _Call:
    line: int
    arrival_s: float
    text: str
    output: str | None
    session: str | None


class _AgentRows:
    """Streams one file of agent calls."""

    __slots__ = ("latest", "options")

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.latest: dict[str, tuple[str, bytes]] = {}

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests in arrival order."""
        times = source.lines(TraceSummary())
        clock = scan_clock(times, "timestamp", UNITS_PER_S[self.options.time_unit or "us"])
        for call in in_arrival_order(self._calls(source, clock, summary), clock, summary):
            yield self._request(call)

    def _calls(
        self, source: Source, clock: Clock, summary: TraceSummary
    ) -> Iterator[tuple[int, _Call]]:
        """Yield (line, call) in file order and count every row."""

        def make(line: Line) -> _Call:
            row = row_of(line, summary)
            text = text_of(row, "input")
            if not text:
                raise RowError("input is empty")
            return _Call(
                line=line[0],
                arrival_s=clock.seconds(time_of(row, "timestamp")),
                text=text,
                output=None if row.get("output") is None else text_of(row, "output"),
                session=name_of(row, "session_id"),
            )

        for line, call in made_rows(
            source.lines(summary), make, summary, strict=self.options.strict, path=source.path
        ):
            summary.took()
            yield line, call

    def _request(self, call: _Call) -> Request:
        """Make the request of a call; calls of a session come in order."""
        key = PrefixKey.from_packed(self._prompt(call.text, call.session), KeyKind.TOKENS)
        output_ids = None
        if call.output is not None:
            output_ids = tuple(self.options.tokenizer.encode(call.output))
        output_tokens = None if output_ids is None else len(output_ids)
        return Request(
            rid=f"line {call.line}",
            key=key,
            prompt_tokens=len(key),
            max_new_tokens=max(self.options.max_new_tokens, output_tokens or 0),
            arrival_s=call.arrival_s,
            session_id=call.session,
            recorded_output_tokens=output_tokens,
            recorded_output_ids=output_ids,
        )

    def _prompt(self, text: str, session: str | None) -> bytes:
        """Return the packed prompt; it keeps the tokens of the input it extends."""
        before, data = self.latest.get(session or "", ("", b""))
        if before and text.startswith(before):
            data += PrefixKey(self.options.tokenizer.encode(text[len(before) :])).data
        else:
            data = PrefixKey(self.options.tokenizer.encode(text)).data
        if session is not None:
            self.latest[session] = (text, data)
        return data


def _is_agent_row(row: dict[str, Any]) -> bool:
    """Recognise a call."""
    return "timestamp" in row and isinstance(row.get("input"), str) and "output" in row


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    unit = options.time_unit or "us (the format's own)"
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(
            f"timestamps are in {unit}",
            said_of_tokenizer(options),
            said_of_answers(options),
        ),
        rows=lambda source, summary: _AgentRows(options).stream(source, summary),
    )


LMCACHE = TraceFormat(
    name="lmcache",
    title="LMCache agent JSONL",
    recognises=_is_agent_row,
    plan=_plan,
)
