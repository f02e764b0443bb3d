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
nominal rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from radixcache import KeyKind, Namespace, PrefixKey
from scheduler.request import Request
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.fields import count_of, ids_of, name_of, row_of, samples_of, time_of
from scheduler.trace.formats import UNITS_PER_S, Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.json_objects import objects_in
from scheduler.trace.messages import ANSWER, messages_of, preamble_of
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import Clock, in_arrival_order, scan_clock

__all__ = ["OPENAI", "is_request_row"]

REQUEST_KEYS = frozenset({"model", "max_tokens", "max_completion_tokens", "timestamp"})
TEXT_KEYS = ("prompt", "text_input", "text")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a row asks for, before it has a name and an arrival."""

    key: PrefixKey
    output: bytes | None


class _RequestRows:
    """Streams one file of requests."""

    __slots__ = ("encoder", "head", "options", "timed")

    def __init__(self, head: Head, options: ReadOptions, timed: bool) -> None:
        self.head = head
        self.options = options
        self.timed = timed
        self.encoder = ChatEncoder(options.tokenizer, options.template)

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests in arrival order."""
        clock = Clock(0, 1, True)
        if self.timed:
            times = objects_in(source, self.head.data, TraceSummary())
            clock = scan_clock(times, "timestamp", UNITS_PER_S[self.options.time_unit or "ms"])
        yield from in_arrival_order(self._requests(source, clock, summary), clock, summary)

    def _requests(
        self, source: Source, clock: Clock, summary: TraceSummary
    ) -> Iterator[tuple[int, Request]]:
        """Yield (line, request) in file order and count every row."""
        names = UniqueNames()

        def make(line: Line) -> tuple[Request, float | None]:
            row = row_of(line, summary)
            arrival_s = clock.seconds(time_of(row, "timestamp")) if self.timed else None
            return self._request(row, line[0], summary), arrival_s

        for line, (request, arrival_s) in made_rows(
            objects_in(source, self.head.data, summary),
            make,
            summary,
            strict=self.options.strict,
            path=source.path,
        ):
            time_s = summary.requests / self.options.rate_per_s if arrival_s is None else arrival_s
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
            rid=name_of(row, "custom_id") or f"line {line}",
            key=asked.key,
            prompt_tokens=len(asked.key),
            max_new_tokens=most,
            client_id=name_of(body, "user"),
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
    timed = any("timestamp" in row for row in head.rows[:1])
    if timed:
        unit = options.time_unit or "ms (the format's own)"
        when = f"timestamps are in {unit}"
    else:
        when = f"rows have no time: one arrives every {1 / options.rate_per_s:g} s"
    template = options.template
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(
            when,
            f"text is cut into tokens by the tokenizer {options.tokenizer.name!r}",
            f"chat template: {template.header!r} text {template.end!r} {template.between!r}",
            f"a request that does not say asks for up to {options.max_new_tokens} new tokens",
            "requests for different models share nothing",
        ),
        rows=lambda source, summary: _RequestRows(head, options, timed).stream(source, summary),
    )


OPENAI = TraceFormat(
    name="openai",
    title="OpenAI chat or batch requests (JSONL)",
    recognises=is_request_row,
    plan=_plan,
)
