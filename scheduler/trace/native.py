"""The project's own JSONL: a header line, then one request a line.

::

    {"radixcache_trace":1,"kind":"tokens"}
    {"rid":"a","t":0.0,"tokens":[5,6,7],"max_new":16,"output_ids":[8,9],"session":"s1"}
    {"rid":"b","t":9.5,"after":"a","keep":5,"tokens":[10,11],"max_new":16,"session":"s1"}
    {"rid":"c","t":9.5,"text":"Who are you?","output_text":"A cache."}

Header: ``kind`` is ``tokens`` (ids below 2**32), ``wide`` (units below 2**64) or ``blocks`` (block
hash ids; ``page_size`` says how many tokens an id stands for); ``notes`` is a list of
sentences kept as assumptions.

Row, all but the prompt optional:

===================  ==========================================================================
``rid``              unique name of the request (``line N`` when absent)
``t``                arrival, seconds after the start; when the first row has none, no row has
``tokens``           prompt token ids; or ``text``, for the tokenizer; or ``block_ids`` and ``n``
``after``, ``keep``  the prompt starts with the first ``keep`` tokens of the prompt and output of
                     the request ``after``, the session's row before; ``tokens`` or ``text`` follow
``n``                prompt tokens, where they are not the key's length
``max_new``          most new tokens asked for
``output_ids``       recorded output; or ``output_text``; or its length ``output_tokens``
``namespace``        ``{"extra_key":...,"lora":...,"cache_salt":...}``
``samples``          answers wanted (1), at most 1024
``abort_after_s``    the client gives up so many seconds after the arrival; or as soon as it has
                     ``abort_after_tokens`` tokens of the answer, at least 1
``session``, ``client``, ``priority``, ``cache_output``, ``visible_tokens``, ``max_match_tokens``
===================  ==========================================================================

Reading holds the last prompt of each session and the names of all requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

import numpy as np

from radixcache import DEFAULT_NAMESPACE, KeyKind, Namespace, PrefixKey
from radixcache.errors import TraceError
from scheduler.request import CacheOutput, Request
from scheduler.trace.assumed import said_of_missing_times, said_of_tokenizer
from scheduler.trace.fields import (
    count_of,
    ids_of,
    name_of,
    row_of,
    samples_of,
    text_of,
    time_of,
)
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import Clock, in_arrival_order, scan_clock

__all__ = ["KINDS", "MARK", "NATIVE", "VERSION"]

MARK = "radixcache_trace"
VERSION = 1
KINDS = {"tokens": KeyKind.TOKENS, "wide": KeyKind.WIDE, "blocks": KeyKind.BLOCKS}
ID_BITS = {KeyKind.TOKENS: 32, KeyKind.WIDE: 64, KeyKind.BLOCKS: 63}


@dataclass(frozen=True, slots=True)
class _Header:
    kind: KeyKind
    page_size: int | None
    notes: tuple[str, ...]
    timed: bool


class _NativeRows:
    """Streams one file of the project's own rows."""

    __slots__ = ("header", "latest", "names", "options")

    def __init__(self, header: _Header, options: ReadOptions) -> None:
        self.header = header
        self.options = options
        self.latest: dict[str, tuple[str, PrefixKey]] = {}
        self.names = UniqueNames()

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests in arrival order."""
        clock = Clock(0, 1, True)
        if self.header.timed:
            clock = replace(scan_clock(source.lines(TraceSummary()), "t", 1), origin=0)
        yield from in_arrival_order(self._requests(source, clock, summary), clock, summary)

    def _requests(
        self, source: Source, clock: Clock, summary: TraceSummary
    ) -> Iterator[tuple[int, Request]]:
        """Yield (line, request) in file order and count every row."""

        def make(line: Line) -> Request | None:
            row = row_of(line, summary)
            if MARK in row:
                return None
            if self.header.timed:
                arrival_s = clock.seconds(time_of(row, "t"))
            else:
                arrival_s = summary.requests / self.options.rate_per_s
            return self._request(row, line[0], arrival_s, summary)

        for line, request in made_rows(
            source.lines(summary), make, summary, strict=self.options.strict, path=source.path
        ):
            if request is not None:
                summary.took()
                yield line, request

    def _request(
        self, row: dict[str, Any], line: int, arrival_s: float, summary: TraceSummary
    ) -> Request:
        """Check one row and make its request."""
        session = name_of(row, "session")
        key, whole_tokens = self._key(row, session)
        prompt_tokens = count_of(row, "n", least=1, default=whole_tokens)
        _check_length(prompt_tokens, key)
        output_ids = self._output_ids(row)
        output_tokens = None if output_ids is None else len(output_ids)
        if output_ids is None and row.get("output_tokens") is not None:
            output_tokens = count_of(row, "output_tokens", least=0)
        most = max(self.options.max_new_tokens, output_tokens or 0)
        request = Request(
            rid=self.names.claim(name_of(row, "rid") or f"line {line}", line, summary),
            key=key,
            prompt_tokens=prompt_tokens,
            max_new_tokens=count_of(row, "max_new", least=1, default=most),
            arrival_s=arrival_s,
            priority=_priority(row),
            client_id=name_of(row, "client"),
            session_id=session,
            cache_output=_cache_output(row),
            visible_tokens=_optional_count(row, "visible_tokens"),
            max_match_tokens=_optional_count(row, "max_match_tokens"),
            samples=samples_of(row, "samples"),
            abort_after_s=_patience(row),
            abort_after_tokens=_optional_count(row, "abort_after_tokens", least=1),
            recorded_output_tokens=output_tokens,
            recorded_output_ids=output_ids,
        )
        if session is not None and self.header.kind is not KeyKind.BLOCKS:
            data = key.data + self._packed(list(output_ids or ()))
            whole = PrefixKey.from_packed(data, key.kind, key.namespace)
            self.latest[session] = (request.rid, whole)
        return request

    def _key(self, row: dict[str, Any], session: str | None) -> tuple[PrefixKey, int]:
        """Return the row's key and the prompt length it implies."""
        namespace = _namespace(row)
        kind = self.header.kind
        if kind is KeyKind.BLOCKS:
            page_size = self.header.page_size or 1
            ids = ids_of(row, "block_ids", bits=63)
            prompt_tokens = count_of(row, "n", least=1, default=len(ids) * page_size)
            full = prompt_tokens // page_size
            if len(ids) not in {full, -(-prompt_tokens // page_size)}:
                raise RowError("block_ids do not number n / page_size", len(ids))
            ids = ids if self.options.partial_block else ids[:full]
            return PrefixKey.from_block_ids(ids, page_size, namespace), prompt_tokens
        if row.get("text") is not None:
            tokens = list(self.options.tokenizer.encode(text_of(row, "text")))
        else:
            tokens = ids_of(row, "tokens", bits=ID_BITS[kind])
        data = b"" if row.get("after") is None else self._kept(row, session, namespace)
        key = PrefixKey.from_packed(data + self._packed(tokens), kind, namespace)
        if not len(key):
            raise RowError("the prompt is empty")
        return key, len(key)

    def _kept(self, row: dict[str, Any], session: str | None, namespace: Namespace) -> bytes:
        """Return what the row keeps of the session's row before, packed."""
        rid, whole = self.latest.get(session or "", ("", None))
        if whole is None or rid != name_of(row, "after") or whole.namespace != namespace:
            raise RowError("after does not name the session's row before")
        keep = count_of(row, "keep", least=0, default=len(whole))
        if keep > len(whole):
            raise RowError("keep is more than the row before has", keep)
        return whole.data[: keep * whole.unit_bytes]

    def _packed(self, tokens: list[int]) -> bytes:
        """Pack token ids; wide ones may have bit 63 set, which no list of tokens has."""
        if self.header.kind is KeyKind.TOKENS:
            return PrefixKey(tokens).data
        return np.array(tokens, dtype="<u8").tobytes()

    def _output_ids(self, row: dict[str, Any]) -> tuple[int, ...] | None:
        """Return the recorded output, if the row has it."""
        if row.get("output_text") is not None:
            return tuple(self.options.tokenizer.encode(text_of(row, "output_text")))
        if row.get("output_ids") is None:
            return None
        return tuple(ids_of(row, "output_ids", bits=ID_BITS[self.header.kind]))


def _check_length(prompt_tokens: int, key: PrefixKey) -> None:
    """Reject a prompt length that no key of this kind can have."""
    if key.kind is KeyKind.TOKENS and prompt_tokens != len(key):
        raise RowError("n is not the number of tokens", prompt_tokens)
    if key.kind is KeyKind.WIDE and prompt_tokens - len(key) not in {0, 1}:
        raise RowError("n is not the number of tokens", prompt_tokens)


def _priority(row: dict[str, Any]) -> int:
    """Return the priority, 0 when absent."""
    value = row.get("priority", 0)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 31:
        raise RowError("priority is no whole number", value)
    return value


def _cache_output(row: dict[str, Any]) -> CacheOutput:
    """Return how much of the output is cached, all when absent."""
    value = row.get("cache_output", "all")
    if value not in get_args(CacheOutput):
        raise RowError("cache_output is not all, none or visible", value)
    return cast(CacheOutput, value)


def _patience(row: dict[str, Any]) -> float | None:
    """Return the seconds after which the client gives up, if it does."""
    if row.get("abort_after_s") is None:
        return None
    return float(time_of(row, "abort_after_s"))


def _optional_count(row: dict[str, Any], field: str, *, least: int = 0) -> int | None:
    """Return a count that may be absent."""
    return None if row.get(field) is None else count_of(row, field, least=least)


def _namespace(row: dict[str, Any]) -> Namespace:
    """Return the row's namespace, the default one when absent."""
    value = row.get("namespace")
    if value is None:
        return DEFAULT_NAMESPACE
    if not isinstance(value, dict) or not set(value) <= set(Namespace._fields):
        raise RowError("namespace is no object of extra_key, lora, cache_salt", value)
    lora = value.get("lora")
    if isinstance(lora, list):
        if not all(type(part) in {str, int} for part in lora):
            raise RowError("lora is neither text nor a list of text and whole numbers")
        lora = tuple(lora)
    else:
        lora = name_of(value, "lora")
    salt = name_of(value, "cache_salt")
    return Namespace.of(name_of(value, "extra_key"), lora, salt)


def _header(head: Head) -> _Header:
    """Read the header line. Raises: TraceError when it says something unknown."""
    rows = head.rows
    row = rows[0] if rows and MARK in rows[0] else {MARK: VERSION}
    if row[MARK] != VERSION:
        raise TraceError(
            f"is version {row[MARK]!r} of the format, this reads {VERSION}", path=head.path
        )
    kind = row.get("kind", "tokens")
    if not isinstance(kind, str) or kind not in KINDS:
        raise TraceError(f"kind {kind!r} is none of {', '.join(KINDS)}", path=head.path, line=1)
    page_size = row.get("page_size")
    if kind == "blocks" and (type(page_size) is not int or not 1 <= page_size < 1 << 31):
        raise TraceError(f"page_size {page_size!r} of block ids must be at least 1", path=head.path)
    notes = row.get("notes")
    notes = tuple(str(note) for note in notes) if isinstance(notes, list) else ()
    timed = not rows[1:] or rows[1].get("t") is not None
    return _Header(KINDS[kind], page_size if kind == "blocks" else None, notes, timed)


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    header = _header(head)
    assumptions = list(header.notes)
    if not header.timed:
        assumptions.append(said_of_missing_times(options))
    if any("text" in row for row in head.rows):
        assumptions.append(said_of_tokenizer(options))
    return ReadPlan(
        kind=header.kind,
        page_size=header.page_size,
        assumptions=tuple(assumptions),
        rows=lambda source, summary: _NativeRows(header, options).stream(source, summary),
    )


NATIVE = TraceFormat(
    name="radixcache",
    title="radixcache JSONL",
    recognises=lambda row: MARK in row,
    plan=_plan,
)
