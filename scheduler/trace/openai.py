"""Readers of request logs: OpenAI chat JSONL, OpenAI batch JSONL, AIPerf text rows.

Each row is one request, its history included::

    {"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":64,"cache_salt":"t1"}
    {"custom_id":"r-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m",...}}
    {"timestamp":3000,"text_input":"Hi","output_length":20,"session_id":"s1"}

The prompt is all messages (``prompt`` or ``text_input`` alone are text without a template);
a last message of the assistant is the recorded answer. Different models share nothing, nor
do different values of ``cache_salt``. ``n`` is ``Request.samples``; a recorded answer is that
of the first. A request for prompt log-probabilities can use no cached prefix. ``timestamp``
counts milliseconds, as AIPerf has it, when the first row has one; else the rows arrive at a
nominal rate. A row with a ``delay`` and no timestamp comes so much after the answer before
in its session.

Rows with ``text_input`` and one ``session_id`` are turns: the prompt of each is all texts so
far, and between them as many ids as ``output_length`` says, which nobody else has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from radixcache import KeyKind, Namespace, PrefixKey
from scheduler.request import Request
from scheduler.trace.assumed import said_of_missing_times, said_of_text
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.fields import count_of, ids_of, name_of, row_of, samples_of
from scheduler.trace.formats import (
    UNITS_PER_S,
    Head,
    ReadOptions,
    ReadPlan,
    TimeUnit,
    TraceFormat,
)
from scheduler.trace.json_objects import objects_in
from scheduler.trace.messages import ANSWER, messages_of, preamble_of
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.stand_ins import STAND_INS, TEXT_SESSIONS, TextSessions
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import (
    DELAYED,
    UNTIMED,
    Arrivals,
    Clock,
    has_times,
    in_arrival_order,
    scan_clock,
)

__all__ = ["OPENAI", "RequestRows", "is_request_row", "request_assumptions"]

REQUEST_KEYS = frozenset({"model", "max_tokens", "max_completion_tokens", "timestamp"})
TEXT_KEYS = ("prompt", "text_input", "text")
OTHER_KEYS = frozenset({"hash_ids", "token_ids", "input_tok_ids", "keys", "turns", "requests"})
"""What makes a row one of another format, whatever text it has too."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a row asks for, before it has a name and an arrival."""

    key: PrefixKey
    output: bytes | None


class RequestRows:
    """Streams one file of requests.

    ``lines`` gives the parts of a file that hold a request each (its JSON objects when None),
    ``read`` makes such a row of one.
    """

    __slots__ = ("encoder", "head", "lines", "options", "read", "timed", "unit")

    def __init__(
        self,
        head: Head,
        options: ReadOptions,
        *,
        timed: tuple[bool, bool],
        unit: TimeUnit = "ms",
        lines: Callable[[Source, TraceSummary], Iterator[Line]] | None = None,
        read: Callable[[Line, TraceSummary], dict[str, Any]] | None = None,
    ) -> None:
        self.head = head
        self.options = options
        self.timed = timed
        """Whether rows have timestamps, and delays."""
        self.unit = options.time_unit or unit
        self.lines = lines
        self.read = read
        self.encoder = ChatEncoder(options.tokenizer, options.template)

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests in arrival order."""
        clock = UNTIMED
        read = self.read
        if any(self.timed):
            clock = scan_clock(
                self._lines(source, TraceSummary()),
                "timestamp",
                UNITS_PER_S[self.unit],
                None if read is None else lambda line: read(line, TraceSummary()),
            )
        yield from in_arrival_order(self._requests(source, clock, summary), clock, summary)

    def _lines(self, source: Source, summary: TraceSummary) -> Iterator[Line]:
        """Yield what holds a request each."""
        if self.lines is not None:
            return self.lines(source, summary)
        return objects_in(source, self.head.data, summary)

    def _requests(
        self, source: Source, clock: Clock, summary: TraceSummary
    ) -> Iterator[tuple[int, Request]]:
        """Yield (line, request) in file order and count every row."""
        names = UniqueNames()
        rate_per_s = self.options.rate_per_s
        arrivals = Arrivals(clock, "timestamp", timed=self.timed[0], rate_per_s=rate_per_s)
        read = self.read or row_of
        sessions = TextSessions()

        def make(line: Line) -> tuple[Request, float]:
            row = read(line, summary)
            request = sessions.joined(self._request(row, line[0], summary), row)
            output_tokens = request.recorded_output_tokens
            return request, arrivals.of(row, output_tokens, taken=summary.requests)

        for line, (request, time_s) in made_rows(
            self._lines(source, summary),
            make,
            summary,
            strict=self.options.strict,
            path=source.path,
        ):
            name = names.claim(request.rid, line, summary)
            summary.took()
            yield line, replace(request, rid=name, arrival_s=time_s)

    def _request(self, row: dict[str, Any], line: int, summary: TraceSummary) -> Request:
        """Check one row and make its request."""
        body = next((row[k] for k in ("body", "payload") if isinstance(row.get(k), dict)), row)
        asked = self._asked(body, line, summary)
        if not len(asked.key):
            raise RowError("the prompt is empty")
        output_tokens = None if asked.output is None else len(asked.output) // 4
        for key in ("output_length", "output_tokens"):
            if output_tokens is None and row.get(key) is not None:
                output_tokens = count_of(row, key, least=0)
        most = max(self.options.max_new_tokens, output_tokens or 0)
        for key in ("max_tokens", "max_completion_tokens"):
            most = count_of(body, key, least=1, default=most)
        output_ids = None
        if asked.output is not None:
            output_ids = tuple(PrefixKey.from_packed(asked.output, KeyKind.TOKENS).tokens())
        return Request(
            rid=name_of(row, "custom_id") or name_of(row, "request_id") or f"line {line}",
            key=asked.key,
            prompt_tokens=len(asked.key),
            max_new_tokens=most,
            client_id=name_of(body, "user") or name_of(row, "tenant"),
            session_id=name_of(row, "session_id"),
            max_match_tokens=0 if body.get("prompt_logprobs") is not None else None,
            samples=samples_of(body, "n"),
            recorded_output_tokens=output_tokens,
            recorded_output_ids=output_ids,
        )

    def _asked(self, body: dict[str, Any], line: int, summary: TraceSummary) -> _Asked:
        """Return the prompt, and the answer when the row ends with one."""
        namespace = Namespace.of(name_of(body, "model"), None, name_of(body, "cache_salt"))
        if isinstance(body.get("messages"), list):
            messages = preamble_of(body, summary, line)
            messages += messages_of(body["messages"], summary, line)
            if not messages:
                raise RowError("messages is empty")
            output = None
            if messages[-1].role == ANSWER:
                output = self.encoder.text(messages.pop().text) + self.encoder.end
            data = b"".join(self.encoder.message(*message) for message in messages)
            if data:
                data += self.encoder.header(ANSWER)
            return _Asked(PrefixKey.from_packed(data, KeyKind.TOKENS, namespace), output)
        key = next((key for key in TEXT_KEYS if body.get(key) is not None), None)
        if key is None:
            raise RowError("no messages and no prompt in it")
        if isinstance(body[key], str):
            data = self.encoder.text(body[key])
        else:
            data = PrefixKey(ids_of(body, key, bits=32)).data
        return _Asked(PrefixKey.from_packed(data, KeyKind.TOKENS, namespace), None)


def is_request_row(row: dict[str, Any]) -> bool:
    """Recognise a row that is one request and no whole conversation to be expanded."""
    if any(isinstance(row.get(key), dict) for key in ("body", "payload")):
        return True
    messages = row.get("messages")
    if isinstance(messages, list):
        if REQUEST_KEYS & row.keys():
            return True
        last = messages[-1] if messages else None
        return isinstance(last, dict) and last.get("role") in {"user", "tool", "system"}
    return any(isinstance(row.get(key), str) for key in TEXT_KEYS)


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    timed = has_times(head.rows, "timestamp")
    if timed[0]:
        unit = options.time_unit or "ms (the format's own)"
        when = f"timestamps are in {unit}"
    else:
        when = said_of_missing_times(options)
    rows = RequestRows(head, options, timed=timed)
    said = request_assumptions(options)
    if any("text_input" in row and "session_id" in row for row in head.rows):
        said = (*said, TEXT_SESSIONS, STAND_INS)
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(when, *said, DELAYED) if timed[1] else (when, *said),
        rows=rows.stream,
    )


def request_assumptions(options: ReadOptions) -> tuple[str, ...]:
    """Say what is taken for granted of requests with text, times aside."""
    return (
        *said_of_text(options),
        f"a request that does not say asks for up to {options.max_new_tokens} new tokens",
        "requests for different models share nothing",
    )


OPENAI = TraceFormat(
    name="openai",
    title="OpenAI chat or batch requests (JSONL)",
    recognises=lambda row: is_request_row(row) and not OTHER_KEYS & row.keys(),
    plan=_plan,
)
