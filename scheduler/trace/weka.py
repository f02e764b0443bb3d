"""Reader of kv-cache-tester sessions (Weka): block ids of coding agents, a session an object.

::

    {"id":"t1","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":900,
     "system_tokens":300,"requests":[
       {"t":0.0,"type":"n","model":"m","in":1200,"out":40,"hash_ids":[1,2,3],"api_time":2.0},
       {"t":3.0,"type":"subagent","agent_id":"a1","requests":[{"t":3.1,"type":"s",...}]}]}

A file holds one session or more; a folder of such files is one trace. Ids are local to their
session unless it says ``"hash_id_scope":"global"``: its keys live in a namespace of its own,
so equal ids of two sessions share nothing. Seconds count from the start of a session, and of
a sub-agent's requests from there too, or from the start of the sub-agent where the first of
them would else come before it. Nothing says when a session starts: so that ``rate_per_s``
requests come a second in the mean.

A row is a request. All sessions must have the block length of the first one. Memory: one
session as JSON, and 8 bytes an id of the sessions alive at one time.

Ref: callanjfox/kv-cache-tester ``docs/trace_replay_tester.md``; ai-dynamo/aiperf
``weka_trace_models.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from radixcache import DEFAULT_NAMESPACE, KeyKind, Namespace
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers
from scheduler.trace.block_ids import (
    DIGESTS,
    FULL_BLOCKS,
    PARTIAL,
    block_key,
    block_units,
    said_block_tokens,
)
from scheduler.trace.fields import count_of, name_of, row_of, time_of
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.json_objects import split_objects
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.session_rows import Session, in_session_order
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["WEKA"]

BACK = "request goes back in time inside its session: sorted"
DEFAULT_BLOCK_TOKENS = 64
END = object()


class _Entry(NamedTuple):
    """One request of a session or of a sub-agent, before it is checked."""

    line: int
    row: Any
    start_s: float
    """What its ``t`` counts from, in seconds of the session."""
    agent: str | None


class _SessionRows:
    """Streams the sessions of a file or folder."""

    __slots__ = ("block_tokens", "options")

    def __init__(self, options: ReadOptions, block_tokens: int) -> None:
        self.options = options
        self.block_tokens = block_tokens

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests of all sessions in arrival order, and count every one."""
        yield from in_session_order(self._sessions(source, summary), in_order=True, summary=summary)

    def _sessions(self, source: Source, summary: TraceSummary) -> Iterator[Session]:
        """Yield the sessions in file order, each when the requests before have come."""
        names = UniqueNames()
        strict = self.options.strict

        def make(line: Line) -> dict[str, Any]:
            return self._checked(row_of(line, summary))

        lines = split_objects(source.chunks(summary))
        for line, row in made_rows(lines, make, summary, strict=strict, path=source.path):
            summary.records += 1
            start_s = summary.requests / self.options.rate_per_s
            name = names.claim(name_of(row, "id") or f"session {line}", line, summary)
            local = row.get("hash_id_scope", "local") != "global"
            maker = _Requests(
                self.options,
                self.block_tokens,
                name,
                Namespace.of(name) if local else DEFAULT_NAMESPACE,
                summary,
            )
            entries = _entries(line, row["requests"], summary)
            found = made_rows(entries, maker, summary, strict=strict, path=source.path)
            requests = _in_order([request for _, request in found], line, summary)
            yield Session(
                line,
                start_s,
                [
                    replace(request, rid=f"{name}/{index}", arrival_s=start_s + request.arrival_s)
                    for index, request in enumerate(requests, start=1)
                ],
            )

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a session that can be read. Raises: RowError."""
        if not isinstance(row.get("requests"), list):
            raise RowError("requests is no list")
        if not row["requests"]:
            raise RowError("session without requests")
        size = count_of(row, "block_size", least=1)
        if size != self.block_tokens:
            raise RowError(f"block_size is not {self.block_tokens} as in the first session", size)
        name_of(row, "id")
        return row


class _Requests:
    """Makes the requests of one session; arrivals count from its start."""

    __slots__ = ("block_tokens", "name", "namespace", "options", "summary")

    def __init__(
        self,
        options: ReadOptions,
        block_tokens: int,
        name: str,
        namespace: Namespace,
        summary: TraceSummary,
    ) -> None:
        self.options = options
        self.block_tokens = block_tokens
        self.name = name
        self.namespace = namespace
        self.summary = summary

    def __call__(self, entry: _Entry) -> Request:
        """Check one entry and make its request."""
        row = entry.row
        if not isinstance(row, dict):
            raise RowError("a request is no object", row)
        repairs: list[str] = []
        arrival_s = entry.start_s + time_of(row, "t", repairs)
        prompt_tokens = count_of(row, "in", least=1)
        output_tokens = count_of(row, "out", least=0, default=0)
        key = block_key(
            block_units(row, "hash_ids"),
            prompt_tokens,
            self.block_tokens,
            field="hash_ids",
            partial_block=self.options.partial_block,
            repairs=repairs,
            namespace=self.namespace,
        )
        for reason in repairs:
            self.summary.repair(reason, entry.line)
        self.summary.took()
        return Request(
            rid=self.name,
            key=key,
            prompt_tokens=prompt_tokens,
            max_new_tokens=max(self.options.max_new_tokens, output_tokens),
            arrival_s=arrival_s,
            session_id=self.name if entry.agent is None else f"{self.name}/{entry.agent}",
            recorded_output_tokens=output_tokens,
        )


def _entries(line: int, rows: list[Any], summary: TraceSummary) -> Iterator[_Entry]:
    """Yield the requests of a session, those of its sub-agents where they are."""
    pending: list[tuple[Iterator[Any], float, str | None]] = [(iter(rows), 0.0, None)]
    agents = 0
    while pending:
        found, start_s, agent = pending[-1]
        row = next(found, END)
        if row is END:
            pending.pop()
        elif isinstance(row, dict) and isinstance(row.get("requests"), list):
            agents += 1
            name = row.get("agent_id")
            name = name if isinstance(name, str) else f"agent {agents}"
            name = name.encode(errors="replace").decode()
            pending.append((iter(row["requests"]), _base_s(row, start_s), name))
        else:
            yield _Entry(line, row, start_s, agent)


def _base_s(agent: dict[str, Any], start_s: float) -> float:
    """Return what the times of a sub-agent's requests count from, in seconds of the session."""
    try:
        spawned_s = float(time_of(agent, "t"))
        first_s = min(
            (float(time_of(row, "t")) for row in agent["requests"] if isinstance(row, dict)),
            default=spawned_s,
        )
    except RowError:
        return start_s
    return start_s if first_s >= spawned_s else start_s + spawned_s


def _in_order(requests: list[Request], line: int, summary: TraceSummary) -> list[Request]:
    """Sort the requests of a session by arrival, ties as they are; say if it was needed."""
    ordered = sorted(requests, key=attrgetter("arrival_s"))
    if any(
        a.session_id == b.session_id and a.arrival_s > b.arrival_s for a, b in pairwise(requests)
    ):
        summary.repair(BACK, line)
    return ordered


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of sessions and list what is taken for granted."""
    size = said_block_tokens(head, options) or DEFAULT_BLOCK_TOKENS
    return ReadPlan(
        kind=KeyKind.BLOCKS,
        page_size=size,
        assumptions=(
            f"sessions start so that the mean rate is {options.rate_per_s:g} requests/s; "
            "inside a session they come as recorded",
            "block ids are local to their session: two sessions share nothing, not even a "
            'system prompt, unless they say "hash_id_scope":"global"',
            f"a block id stands for {size} tokens",
            DIGESTS,
            said_of_answers(options),
            FULL_BLOCKS,
            *((PARTIAL,) if options.partial_block else ()),
        ),
        rows=_SessionRows(options, size).stream,
    )


def _is_session(row: dict[str, Any]) -> bool:
    """Recognise a session."""
    if not isinstance(row.get("requests"), list) or "timestamp" in row:
        return False
    if "block_size" in row or "hash_id_scope" in row:
        return True
    return any(isinstance(entry, dict) and "hash_ids" in entry for entry in row["requests"][:3])


WEKA = TraceFormat(
    name="weka",
    title="kv-cache-tester sessions (block hash ids)",
    recognises=_is_session,
    plan=_plan,
)
