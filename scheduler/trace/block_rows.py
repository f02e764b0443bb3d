"""Readers of block ids without Mooncake's rules: kvcache-simulator JSONL, Tair optimizer JSONL.

::

    {"block_size":64,"hash_ids":[1,2],"input_length":100,"block_tokens":[64,36]}
    {"instance_id":"i","trace_id":"x","timestamp_us":1,"keys":[1,2],"query_type":"prefix_match",
     "input_len":32,"output_len":0,"total_keys":[1,2]}

An id names a block by itself or with all before it: both are read alike, since a prefix is
the list of the ids. Ids may be text or any int of 64 bits. kvcache-simulator replays the rows
in file order, at the nominal rate here; a row says its block length, and the first one's holds
for the file. Tair counts microseconds (``timestamp_us``) or nanoseconds (``timestamp_ns``),
does not say its block length (what the first rows' lengths tell is taken) and has a row for
each write too, which is no request. Its instances never share. ``total_keys``, the blocks of
prompt and answer, are not read.

Ref: kvcache-simulator ``trace.py``; alibaba/tair-kvcache ``optimizer/docs/strategy_config.md``.
"""

from __future__ import annotations

from typing import Any

from radixcache import KeyKind, Namespace
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers
from scheduler.trace.block_ids import (
    DIGESTS,
    FULL_BLOCKS,
    PARTIAL,
    block_key,
    block_length,
    block_units,
    said_block_tokens,
)
from scheduler.trace.fields import count_of, name_of
from scheduler.trace.flat_rows import FlatRows, Stamp
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.summary import RowError

__all__ = ["KVCACHE_SIMULATOR", "TAIR", "is_simulator_row"]

DEFAULT_BLOCK_TOKENS = 16
OTHER_CLOCKS = ("timestamp", "delay", "output_length", "chat_id")


class _SimulatorRows:
    """Makes the requests of kvcache-simulator rows."""

    __slots__ = ("block_tokens", "options")

    def __init__(self, block_tokens: int, options: ReadOptions) -> None:
        self.block_tokens = block_tokens
        self.options = options

    def __call__(self, row: dict[str, Any], line: int, repairs: list[str]) -> Request:
        """Check one row and make its request."""
        ids = block_units(row, "hash_ids")
        prompt_tokens = count_of(row, "input_length", least=1)
        size = count_of(row, "block_size", least=1, default=self.block_tokens)
        if size != self.block_tokens:
            raise RowError(f"block_size is not {self.block_tokens} as in the first row", size)
        lengths = row.get("block_tokens")
        if lengths is not None:
            if not isinstance(lengths, list) or len(lengths) != len(ids):
                raise RowError("block_tokens are no list as long as hash_ids")
            if any(length != size for length in lengths[:-1]):
                raise RowError("a block before the last one is not full")
        key = block_key(
            ids,
            prompt_tokens,
            self.block_tokens,
            field="hash_ids",
            partial_block=self.options.partial_block,
            repairs=repairs,
        )
        return Request(
            rid=name_of(row, "request_id") or f"line {line}",
            key=key,
            prompt_tokens=prompt_tokens,
            max_new_tokens=self.options.max_new_tokens,
        )


class _TairRows:
    """Makes the requests of Tair optimizer rows."""

    __slots__ = ("block_tokens", "options")

    def __init__(self, block_tokens: int, options: ReadOptions) -> None:
        self.block_tokens = block_tokens
        self.options = options

    def __call__(self, row: dict[str, Any], line: int, repairs: list[str]) -> Request:
        """Check one row and make its request."""
        if row.get("type") not in (None, "get", "request") or "input_len" not in row:
            raise RowError("a write or another event, no request")
        if row.get("query_type", "prefix_match") != "prefix_match":
            raise RowError("query_type is not prefix_match", row["query_type"])
        prompt_tokens = count_of(row, "input_len", least=1)
        instance = name_of(row, "instance_id")
        key = block_key(
            block_units(row, "keys"),
            prompt_tokens,
            self.block_tokens,
            field="keys",
            partial_block=self.options.partial_block,
            repairs=repairs,
            namespace=Namespace.of(instance),
        )
        output_tokens = None
        if row.get("output_len") is not None:
            output_tokens = count_of(row, "output_len", least=0)
        return Request(
            rid=name_of(row, "trace_id") or f"line {line}",
            key=key,
            prompt_tokens=prompt_tokens,
            max_new_tokens=max(self.options.max_new_tokens, output_tokens or 0),
            client_id=instance,
            recorded_output_tokens=output_tokens,
        )


def _length(head: Head, options: ReadOptions, ids_field: str, tokens_field: str) -> tuple[int, str]:
    """Return the block length and the sentence that says where it is from."""
    said = said_block_tokens(head, options)
    if said is not None:
        return said, f"a block id stands for {said} tokens"
    lengths = [
        (len(row[ids_field]), row[tokens_field])
        for row in head.rows
        if isinstance(row.get(ids_field), list) and type(row.get(tokens_field)) is int
    ]
    found = block_length(lengths)
    if found is not None:
        return found, f"a block id stands for {found} tokens (from the lengths of the first rows)"
    size = DEFAULT_BLOCK_TOKENS
    return size, f"a block id stands for {size} tokens (a guess: the lengths do not tell)"


def _planned(
    head: Head,
    options: ReadOptions,
    stamp: Stamp | None,
    make: _SimulatorRows | _TairRows,
    *said: str,
) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    rows = FlatRows(head, options, stamp, make)
    partial = (PARTIAL,) if options.partial_block else ()
    return ReadPlan(
        kind=KeyKind.BLOCKS,
        page_size=make.block_tokens,
        assumptions=(
            *rows.assumed(),
            *said,
            DIGESTS,
            said_of_answers(options),
            FULL_BLOCKS,
            *partial,
        ),
        rows=rows.stream,
    )


def _plan_simulator(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of kvcache-simulator rows."""
    length, said = _length(head, options, "hash_ids", "input_length")
    return _planned(head, options, None, _SimulatorRows(length, options), said)


def _plan_tair(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of Tair optimizer rows."""
    length, said = _length(head, options, "keys", "input_len")
    stamp = Stamp("timestamp_us", "us")
    if any("timestamp_ns" in row for row in head.rows[:1]):
        stamp = Stamp("timestamp_ns", "ns")
    alone = "instances share nothing; the instance is kept as the client"
    return _planned(head, options, stamp, _TairRows(length, options), said, alone)


def is_simulator_row(row: dict[str, Any]) -> bool:
    """Recognise a row of block ids that has no clock, or says its block length."""
    if not isinstance(row.get("hash_ids"), list) or "input_length" not in row:
        return False
    says = "block_size" in row or "block_tokens" in row
    return says or not any(field in row for field in OTHER_CLOCKS)


def _is_tair_row(row: dict[str, Any]) -> bool:
    """Recognise an event of the optimizer, be it a read or a write."""
    return isinstance(row.get("keys"), list) and (
        "query_type" in row or "timestamp_us" in row or "timestamp_ns" in row
    )


KVCACHE_SIMULATOR = TraceFormat(
    name="kvcache-simulator",
    title="kvcache-simulator JSONL (block hash ids)",
    recognises=is_simulator_row,
    plan=_plan_simulator,
)
TAIR = TraceFormat(
    name="tair",
    title="Tair optimizer JSONL (block keys)",
    recognises=_is_tair_row,
    plan=_plan_tair,
)
