"""Readers of request logs in other wrappings: gateway CSV (llmtrafficlens), AIBrix workloads.

::

    request_json,response_json,model_name,status_code,timestamp
    "{""messages"":[{""role"":""user"",""content"":""Hi""}]}","{...}",m,200,2026-01-05T10:00:00Z

    {"timestamp":21,"requests":[{"Prompt Length":9,"Output Length":5,"prompt":"..."}]}

A CSV record is an OpenAI request and, where it has one, its response, whose message is the
recorded answer. Calls that failed (status 400 or more) are skipped. A time may be ISO 8601
(UTC where it names no zone) or a number of seconds, milliseconds, microseconds or nanoseconds
since 1970, told by its size. AIBrix sends all requests of a row at once; milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from radixcache import KeyKind
from radixcache.errors import TraceError
from scheduler.trace.assumed import said_of_missing_times
from scheduler.trace.csv_records import csv_records, fields_of
from scheduler.trace.fields import NUMERAL, count_of, row_of
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.json_objects import objects_in
from scheduler.trace.messages import ANSWER
from scheduler.trace.openai import RequestRows, request_assumptions
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["AIBRIX", "GATEWAY"]

COLUMNS = frozenset({"request_json", "status_code"})
EPOCH_DIGITS = ((1e17, 1e-3), (1e14, 1.0), (1e11, 1e3), (0.0, 1e6))
"""From which number on a time counts in so many microseconds."""
NO_ANSWER = "response_json cannot be read: the answer is unknown"


class _Gateway:
    """Makes OpenAI rows of the records of one CSV."""

    __slots__ = ("header", "names")

    def __init__(self, header: str) -> None:
        self.header = header
        self.names = [name.strip().strip('"').lower() for name in header.split(",")]

    def records(self, source: Source, summary: TraceSummary) -> Iterator[Line]:
        """Yield the records without the header, wherever it stands."""
        header = self.header.encode()
        return (line for line in csv_records(source, summary) if line[1].strip() != header)

    def is_timed(self, source: Source) -> bool:
        """Tell whether the first record has a time."""
        if "timestamp" not in self.names:
            return False
        first = next(self.records(source, TraceSummary()), None)
        if first is None:
            return True
        try:
            fields = fields_of(first, TraceSummary())
        except RowError:
            return True
        place = self.names.index("timestamp")
        return place >= len(fields) or bool(fields[place].strip())

    def row(self, line: Line, summary: TraceSummary) -> dict[str, Any]:
        """Return one record as a row with a body. Raises: RowError."""
        fields = fields_of(line, summary)
        if len(fields) != len(self.names):
            cut = "cut: the file ends inside it"
            raise RowError("fields are not as many as columns" if line[2] else cut, len(fields))
        record = dict(zip(self.names, fields, strict=True))
        status = record["status_code"].strip()
        if not status.isdecimal() or not status.isascii() or len(status) > 3:
            raise RowError("status_code is no number", status)
        if int(status) >= 400:
            raise RowError("call failed: status_code is 400 or more")
        body = row_of((line[0], record["request_json"].encode(), True), summary)
        if body.get("model") is None and record.get("model_name"):
            body["model"] = record["model_name"]
        row: dict[str, Any] = {"body": body}
        if record.get("timestamp"):
            row["timestamp"] = _microseconds(record["timestamp"].strip())
        if (record.get("response_json") or "").strip():
            try:
                _add_answer(row, record["response_json"])
            except RowError:
                summary.repair(NO_ANSWER, line[0])
        return row


def _microseconds(text: str) -> int:
    """Return a time in microseconds since 1970. Raises: RowError."""
    if NUMERAL.fullmatch(text):
        number = float(text)
        if number < 0:
            raise RowError("timestamp is negative", text)
        return int(number * next(factor for least, factor in EPOCH_DIGITS if number >= least))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise RowError("timestamp is neither a number nor ISO 8601", text) from None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    past = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def _add_answer(row: dict[str, Any], text: str) -> None:
    """Put the answer of a response behind the messages of its row, or its length at least."""
    response = row_of((0, text.encode(), True), TraceSummary())
    usage = response.get("usage")
    if isinstance(usage, dict) and usage.get("completion_tokens") is not None:
        row["output_length"] = count_of(usage, "completion_tokens", least=0)
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    messages = row["body"].get("messages")
    if isinstance(message, dict) and isinstance(messages, list):
        row["body"]["messages"] = [*messages, {**message, "role": ANSWER}]


def _plan_gateway(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of a gateway's CSV and list what is taken for granted."""
    if not head.columns >= COLUMNS:
        wanted = " and ".join(sorted(COLUMNS))
        raise TraceError(f"has no columns {wanted} in its first line", path=head.path)
    gateway = _Gateway(head.first_line)
    timed = gateway.is_timed(Source(head.path))
    rows = RequestRows(
        head,
        options,
        timed=(timed, False),
        unit="us",
        lines=gateway.records,
        read=gateway.row,
    )
    when = "times are in UTC where they name no zone"
    if not timed:
        when = said_of_missing_times(options)
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(when, *request_assumptions(options)),
        rows=rows.stream,
    )


def _plan_aibrix(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of an AIBrix workload and list what is taken for granted."""

    def lines(source: Source, summary: TraceSummary) -> Iterator[Line]:
        for line in objects_in(source, head.data, summary):
            yield from _aibrix_rows(line, summary)

    rows = RequestRows(head, options, timed=(True, False), lines=lines)
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(
            f"timestamps are in {rows.unit}",
            "a prompt is the whole prompt, in a session too",
            *request_assumptions(options),
        ),
        rows=rows.stream,
    )


def _aibrix_rows(line: Line, summary: TraceSummary) -> Iterator[Line]:
    """Yield each request of a row as a row of its own; what is none as it is."""
    try:
        row = row_of(line, summary)
        requests = row.get("requests")
        if not isinstance(requests, list):
            raise RowError("requests is no list")
        rows = [
            json.dumps(_aibrix_request(row, request, f"line {line[0]}.{index}"))
            for index, request in enumerate(requests, start=1)
        ]
    except (RowError, RecursionError, ValueError):
        yield line
        return
    for text in rows:
        yield line[0], text.encode(), True


def _aibrix_request(row: dict[str, Any], request: Any, name: str) -> Any:
    """Return one request of a row as a row of its own."""
    if not isinstance(request, dict):
        return request
    prompt = request.get("prompt")
    made: dict[str, Any] = {"request_id": name, "timestamp": row.get("timestamp")}
    made["messages" if isinstance(prompt, list) else "prompt"] = prompt
    made["output_length"] = request.get("output_length", request.get("Output Length"))
    return made | {key: request[key] for key in ("session_id", "model") if key in request}


def _is_workload(row: dict[str, Any]) -> bool:
    """Recognise a row of requests that are sent at one time."""
    return isinstance(row.get("requests"), list) and "timestamp" in row


GATEWAY = TraceFormat(
    name="gateway-csv",
    title="gateway log (CSV of OpenAI requests)",
    recognises=lambda row: False,
    recognises_head=lambda head: head.columns >= COLUMNS,
    plan=_plan_gateway,
)
AIBRIX = TraceFormat(
    name="aibrix",
    title="AIBrix workload (prompts)",
    recognises=_is_workload,
    plan=_plan_aibrix,
)
