"""Readers of block-hash traces: Mooncake JSONL and its relative, Qwen-Bailian JSONL.

A row: ``{"timestamp":3000,"input_length":1100,"output_length":80,"hash_ids":[0,7,8]}``.
Mooncake counts milliseconds and 512 tokens an id, Bailian seconds and 16; both can be set.
A hash id names the whole prefix up to its block, so a key is the list of the ids.

A row is skipped with its reason when a time, length or id is missing or impossible, when
the ids do not number ceil(input_length / block), when an id occurs twice in one row (it
would be its own prefix) or when the prompt is empty. Rows of the AIPerf superset that carry
``text_input``, ``messages`` or ``payload`` are skipped: text and block ids cannot share a
cache. Seconds count from the earliest timestamp; a row of a session with a ``delay`` and no
timestamp comes so much after the answer before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers
from scheduler.trace.block_ids import FULL_BLOCKS, PARTIAL
from scheduler.trace.block_rows import is_simulator_row
from scheduler.trace.fields import count_of, ids_of, name_of, row_of
from scheduler.trace.formats import (
    UNITS_PER_S,
    Head,
    ReadOptions,
    ReadPlan,
    TimeUnit,
    TraceFormat,
)
from scheduler.trace.row_reading import made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import (
    DELAYED,
    Arrivals,
    has_times,
    in_arrival_order,
    scan_clock,
)

__all__ = ["BAILIAN", "MOONCAKE"]

TEXT_FIELDS = ("text_input", "messages", "payload")


class _BlockRows:
    """Streams one file of block-hash rows."""

    __slots__ = ("block_tokens", "options", "timed", "unit")

    def __init__(
        self, options: ReadOptions, block_tokens: int, unit: TimeUnit, *, timed: bool
    ) -> None:
        self.options = options
        self.block_tokens = options.block_tokens or block_tokens
        self.unit = options.time_unit or unit
        self.timed = timed

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests in arrival order."""
        times = source.lines(TraceSummary())
        clock = scan_clock(times, "timestamp", UNITS_PER_S[self.unit])
        arrivals = Arrivals(
            clock, "timestamp", timed=self.timed, rate_per_s=self.options.rate_per_s
        )
        yield from in_arrival_order(self._requests(source, arrivals, summary), clock, summary)

    def _requests(
        self, source: Source, arrivals: Arrivals, summary: TraceSummary
    ) -> Iterator[tuple[int, Request]]:
        """Yield (line, request) in file order and count every row."""

        def make(line: Line) -> tuple[Request, list[str]]:
            repairs: list[str] = []
            row = row_of(line, summary)
            return self._request(row, line[0], arrivals, summary.requests, repairs), repairs

        made = made_rows(
            source.lines(summary), make, summary, strict=self.options.strict, path=source.path
        )
        for line, (request, repairs) in made:
            for reason in repairs:
                summary.repair(reason, line)
            summary.took()
            yield line, request

    def _request(
        self, row: dict[str, Any], line: int, arrivals: Arrivals, taken: int, repairs: list[str]
    ) -> Request:
        """Check one row and make its request."""
        if "hash_ids" not in row:
            if any(field in row for field in TEXT_FIELDS):
                raise RowError("text row in a trace of block ids")
            raise RowError("hash_ids is missing: no prefix identity")
        prompt_tokens = count_of(row, "input_length", least=1)
        output_tokens = count_of(row, "output_length", least=0)
        ids = ids_of(row, "hash_ids", bits=63)
        blocks = -(-prompt_tokens // self.block_tokens)
        if len(ids) != blocks:
            raise RowError(
                f"hash_ids do not number ceil(input_length / {self.block_tokens}), the tokens of a "
                "block id (--id-tokens)",
                len(ids),
            )
        if len(set(ids)) != blocks:
            raise RowError("an id occurs twice in hash_ids")
        if not self.options.partial_block and prompt_tokens % self.block_tokens:
            ids = ids[:-1]
        return Request(
            rid=f"line {line}",
            key=PrefixKey.from_block_ids(ids, self.block_tokens),
            prompt_tokens=prompt_tokens,
            max_new_tokens=max(self.options.max_new_tokens, output_tokens),
            arrival_s=arrivals.of(row, output_tokens, taken=taken, repairs=repairs),
            session_id=name_of(row, "session_id"),
            recorded_output_tokens=output_tokens,
        )


def _plan(head: Head, options: ReadOptions, block_tokens: int, unit: TimeUnit) -> ReadPlan:
    """Plan the reading of a block-hash trace and list what it takes for granted."""
    timed, delayed = has_times(head.rows, "timestamp")
    timed = timed or not delayed
    rows = _BlockRows(options, block_tokens, unit, timed=timed)
    own = "" if options.time_unit else " (the format's own)"
    when = f"timestamps are in {rows.unit}{own}"
    if not timed:
        when = f"delays are in {rows.unit}{own}; a session comes every {1 / options.rate_per_s:g} s"
    assumptions = [
        when,
        f"a block id stands for {rows.block_tokens} tokens"
        + ("" if options.block_tokens else " (the format's own)"),
        said_of_answers(options),
        FULL_BLOCKS,
    ]
    if delayed:
        assumptions.append(DELAYED)
    if options.partial_block:
        assumptions.append(PARTIAL)
    return ReadPlan(
        kind=KeyKind.BLOCKS,
        page_size=rows.block_tokens,
        assumptions=tuple(assumptions),
        rows=rows.stream,
    )


def _is_mooncake(row: dict[str, Any]) -> bool:
    """Recognise a row with block ids, or without but of the AIPerf superset around it."""
    if "input_length" not in row or "chat_id" in row or is_simulator_row(row):
        return False
    if isinstance(row.get("hash_ids"), dict):
        return False
    return any(field in row for field in ("timestamp", "delay", "output_length"))


MOONCAKE = TraceFormat(
    name="mooncake",
    title="Mooncake JSONL (block hash ids)",
    recognises=_is_mooncake,
    plan=lambda head, options: _plan(head, options, 512, "ms"),
)
BAILIAN = TraceFormat(
    name="bailian",
    title="Qwen-Bailian JSONL (block hash ids)",
    recognises=lambda row: "chat_id" in row and "hash_ids" in row,
    plan=lambda head, options: _plan(head, options, 16, "s"),
)
