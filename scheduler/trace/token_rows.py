"""Readers of rows with the token ids of a prompt: prefixlens, LLMServingSim, Tair raw.

::

    {"request_id":"r1","token_ids":[1,2,3],"tenant":"acme","route":"/v1/chat","tags":{"k":"v"}}
    {"ts_str":"...","timestamp":1.0,"token_ids":[1,2,3],"is_tool_call":false}
    {"input_toks":3,"output_toks":2,"arrival_time_ns":0,"input_tok_ids":[1,2,3],
     "output_tok_ids":[4,5]}

prefixlens has no times; a tenant is kept as the client, and tenants share one cache. Tair
counts seconds, LLMServingSim nanoseconds; a file of its agents is read by
``scheduler.trace.serving_agents``. Rows without token ids have no prefix identity.

Ref: starparvinai/prefixlens ``loader.py``; casys-kaist/LLMServingSim workload files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers
from scheduler.trace.fields import ids_of, name_of
from scheduler.trace.flat_rows import FlatRows, MakeRow, Stamp
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.serving_agents import agent_requests, call_of, holds_calls
from scheduler.trace.source import Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["LLM_SERVING_SIM", "PREFIXLENS", "TAIR_TOKENS"]

RAW_MARKS = frozenset({"ts_str", "is_tool_call"})


def _token_request(options: ReadOptions) -> MakeRow:
    """Return what makes a request of a row with ``token_ids``."""

    def make(row: dict[str, Any], line: int, repairs: list[str]) -> Request:
        key = PrefixKey(ids_of(row, "token_ids", bits=32))
        if not len(key):
            raise RowError("token_ids is empty")
        return Request(
            rid=name_of(row, "request_id") or f"line {line}",
            key=key,
            prompt_tokens=len(key),
            max_new_tokens=options.max_new_tokens,
            client_id=name_of(row, "tenant"),
            session_id=name_of(row, "session_id"),
        )

    return make


def _serving_request(options: ReadOptions) -> MakeRow:
    """Return what makes a request of a row of LLMServingSim."""

    def make(row: dict[str, Any], line: int, repairs: list[str]) -> Request:
        return call_of(row, f"line {line}", None, options, repairs)

    return make


def _planned(
    head: Head, options: ReadOptions, stamp: Stamp | None, make: MakeRow, *said: str
) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    rows = FlatRows(head, options, stamp, make)
    asks = said_of_answers(options)
    return ReadPlan(
        kind=KeyKind.TOKENS, assumptions=(*rows.assumed(), *said, asks), rows=rows.stream
    )


def _plan_serving(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of LLMServingSim rows, or of the sessions of its agents."""
    stamp = Stamp("arrival_time_ns", "ns")
    plan = _planned(head, options, stamp, _serving_request(options))
    if not any(map(holds_calls, head.rows[:1])):
        return plan
    timed = any(row.get(stamp.field) is not None for row in head.rows[:1])

    def rows(source: Source, summary: TraceSummary) -> Iterator[Request]:
        return agent_requests(source, head, options, summary, timed=timed)

    said = "the next call of a session comes when the answer before and its tool are through"
    return ReadPlan(kind=KeyKind.TOKENS, assumptions=(*plan.assumptions, said), rows=rows)


def _is_prefixlens(row: dict[str, Any]) -> bool:
    """Recognise a row of token ids that is none of Tair."""
    return isinstance(row.get("token_ids"), list) and not RAW_MARKS & row.keys()


def _is_raw(row: dict[str, Any]) -> bool:
    """Recognise a raw row of Tair."""
    return isinstance(row.get("token_ids"), list) and bool(RAW_MARKS & row.keys())


def _is_serving(row: dict[str, Any]) -> bool:
    """Recognise a request or a session of LLMServingSim, with token ids or not."""
    return isinstance(row.get("input_tok_ids"), list) or "input_toks" in row or holds_calls(row)


PREFIXLENS = TraceFormat(
    name="prefixlens",
    title="prefixlens corpus (token ids)",
    recognises=_is_prefixlens,
    plan=lambda head, options: _planned(
        head,
        options,
        Stamp("timestamp", "s"),
        _token_request(options),
        "tenants share one cache; the tenant is kept as the client",
    ),
)
TAIR_TOKENS = TraceFormat(
    name="tair-tokens",
    title="Tair raw JSONL (token ids)",
    recognises=_is_raw,
    plan=lambda head, options: _planned(
        head, options, Stamp("timestamp", "s"), _token_request(options)
    ),
)
LLM_SERVING_SIM = TraceFormat(
    name="llmservingsim",
    title="LLMServingSim JSONL (token ids)",
    recognises=_is_serving,
    plan=_plan_serving,
)
