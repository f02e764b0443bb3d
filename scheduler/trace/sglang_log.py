"""Reader of SGLang server logs: the ``Finish:`` line of each request, ids and measured hits.

A server started with ``--log-requests --log-requests-level 3`` prints for each request
``[2025-05-27 20:00:14] Finish: obj=GenerateReqInput(rid='..', input_ids=[1, 2, ...], ...),
out={'text': '..', 'output_ids': [..], 'meta_info': {'prompt_tokens': 50, 'cached_tokens': 16,
'completion_tokens': 9, 'e2e_latency': 0.6, ...}}``, or the same as a JSON object a line with
``--log-requests-format json``. Level 2 cuts lists above 2,048 ids in their middle, level 0 and
1 leave the ids out: such rows are skipped with that reason. Nothing of the text is evaluated.

Arrival is ``request_received_ts`` where the first row has it, else the time of the line less
``e2e_latency``, else rows arrive at a nominal rate. All requests are held, since they finish in
another order than they come.

Ref: SGLang 0.5.23 ``utils/request_logger.py``, ``observability/req_time_stats.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from radixcache import KeyKind, Namespace, PrefixKey
from radixcache.errors import TraceError
from scheduler.request import Request
from scheduler.trace.fields import count_of, ids_of, name_of, row_of, time_of
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.python_text import SHORTENED, fields_of, value_of
from scheduler.trace.row_reading import UniqueNames
from scheduler.trace.server_log import log_lines
from scheduler.trace.source import Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["SGLANG_LOG", "FinishedRequest", "finished_requests", "is_server_log"]

_FINISH = "Finish: obj="
_MOST_RECORDS = 100
"""Of one line: processes may write into each other's lines, but not endlessly."""
_MOMENT = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{1,6})?[^\]]{0,40}\]")
_LOG_HEAD = re.compile(
    rb"^[^\"{\n]{0,80}\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]\n]{0,60}\] "
    rb"(?:server_args=|Prefill batch|Decode batch|Receive: obj=|Finish: obj=|max_total_num)",
    re.MULTILINE,
)
_NO_IDS = "no token ids: start the server with --log-requests-level 3, and send ids or chats"
_CUT_IDS = "token ids are cut in the middle: start the server with --log-requests-level 3"
_OBJ = ("rid", "input_ids", "lora_path", "extra_key", "cache_salt", "return_logprob")
_OBJ_MORE = ("logprob_start_len", "sampling_params", "session_id", "conversation_id")
_META = (
    *("id", "prompt_tokens", "completion_tokens", "cached_tokens", "e2e_latency"),
    *("request_received_ts", "request_finished_ts", "first_token_latency", "dp_rank"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRequest:
    """One request as the server ended it; times in seconds after the first arrival."""

    line: int
    request: Request
    cached_tokens: int | None
    """Prompt tokens that the server found in its cache, by its own count."""
    prompt_tokens: int | None
    """By the server's own count."""
    e2e_s: float | None
    first_token_s: float | None
    """From the arrival to the first token."""
    replica: int
    """Data-parallel rank, 0 where none is said."""
    arrival_s: float
    """The request's own, again: what rows are sorted by."""


def finished_requests(
    source: Source, options: ReadOptions, summary: TraceSummary
) -> Iterator[FinishedRequest]:
    """Yield the finished requests in order of arrival, ties in file order.

    Raises: TraceError at the first bad row with ``strict``. Memory: all requests.
    """
    names = UniqueNames()
    held: list[tuple[FinishedRequest, str]] = []
    for line, text in log_lines(source, summary):
        for obj, out, logged_s in _finish_lines(text, line, summary, options, source.path):
            try:
                row, basis = _row(obj, out, logged_s, line, options)
            except RowError as error:
                _refuse(error, line, summary, options, source.path)
                continue
            name = names.claim(row.request.rid, line, summary)
            summary.took()
            held.append((replace(row, request=replace(row.request, rid=name)), basis))
    yield from sorted(_clocked(held, options), key=attrgetter("arrival_s"))


def _refuse(
    error: RowError, line: int, summary: TraceSummary, options: ReadOptions, path: str
) -> None:
    if options.strict:
        raise TraceError(str(error), path=path, line=line) from None
    summary.skip(error.reason, line)


def _clocked(
    held: list[tuple[FinishedRequest, str]], options: ReadOptions
) -> Iterator[FinishedRequest]:
    """Yield the rows with arrivals after the earliest one, all by the same clock."""
    basis = held[0][1] if held else ""
    origin = min((row.arrival_s for row, own in held if own == basis), default=0.0)
    before_s = 0.0
    for place, (row, own) in enumerate(held):
        if not basis:
            arrival_s = place / options.rate_per_s
        elif own == basis:
            arrival_s = row.arrival_s - origin
        else:  # a row without the time that the others have: right after the one before
            arrival_s = before_s
        before_s = arrival_s
        request = replace(row.request, arrival_s=arrival_s)
        yield replace(row, arrival_s=arrival_s, request=request)


def _finish_lines(
    text: str, line: int, summary: TraceSummary, options: ReadOptions, path: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any], float | None]]:
    """Yield the request, the answer's fields and the time of each Finish record of a line."""
    if text.startswith("{") and '"request.finished"' in text:
        try:
            row = row_of((line, text.encode(errors="replace"), True), summary)
            obj, out = row.get("obj"), row.get("out")
            if row.get("event") != "request.finished":
                return
            if not isinstance(obj, dict) or not isinstance(out, dict):
                raise RowError("obj or out is missing")
            meta = out.get("meta_info")
            obj = {"rid": row.get("rid"), **obj}
            yield obj, {**out, **(meta if isinstance(meta, dict) else {})}, None
        except RowError as error:
            _refuse(error, line, summary, options, path)
        return
    at = text.find(_FINISH)
    for _ in range(_MOST_RECORDS):
        if at < 0:
            return
        end = at + len(_FINISH)
        try:
            obj_text, end = fields_of(text, end)
            mark = text.find("out={", end)
            other = text.find(_FINISH, end)
            if mark < 0 or 0 <= other < mark:
                raise RowError("out= is missing: the line is cut or mixed with another")
            out_text, end = fields_of(text, mark + len("out="))
            moment = _logged(text, at)
            yield _values(obj_text, (*_OBJ, *_OBJ_MORE)), _answer(out_text), moment
        except RowError as error:
            _refuse(error, line, summary, options, path)
        at = text.find(_FINISH, max(end, at + 1))


def _values(texts: dict[str, str], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that are read, as values."""
    return {name: value_of(texts[name]) for name in names if name in texts}


def _answer(out: dict[str, str]) -> dict[str, Any]:
    """Return the answer's ids and the fields of its ``meta_info``."""
    values = _values(out, ("output_ids",))
    meta = out.get("meta_info")
    if meta is not None and meta.startswith("{"):
        values |= _values(fields_of(meta, 0)[0], _META)
    return {**_values(out, _META), **values}


def _logged(text: str, at: int) -> float | None:
    """Return the time that stands before a record, in seconds; None where none does."""
    moments = list(_MOMENT.finditer(text, max(0, at - 200), at))
    if not moments:
        return None
    found = moments[-1]
    try:
        moment = datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return moment + float(f"0{found[2]}" if found[2] else 0)


def _row(
    obj: dict[str, Any],
    out: dict[str, Any],
    logged_s: float | None,
    line: int,
    options: ReadOptions,
) -> tuple[FinishedRequest, str]:
    """Check one record; also say which clock its arrival is by."""
    ids = obj.get("input_ids")
    if ids is None:
        raise RowError(_NO_IDS)
    if ids is SHORTENED or (isinstance(ids, list) and "..." in ids):
        raise RowError(_CUT_IDS)
    if isinstance(ids, list) and any(isinstance(part, list) for part in ids):
        raise RowError("several prompts in one request")
    ids = ids_of(obj, "input_ids", bits=32)
    if not ids:
        raise RowError("the prompt is empty")
    rid = obj.get("rid")
    name = str(rid) if isinstance(rid, str | int) else str(out.get("id") or f"line {line}")
    if name.startswith("HEALTH_CHECK"):
        raise RowError("a health check")
    received = _moment(out, "request_received_ts")
    e2e_s = _moment(out, "e2e_latency")
    basis, arrival_s = "", 0.0
    if received is not None:
        basis, arrival_s = "received", received
    elif logged_s is not None:
        basis, arrival_s = "logged", logged_s - (e2e_s or 0.0)
    request = _request(obj, out, ids, name, options)
    row = FinishedRequest(
        line=line,
        request=request,
        cached_tokens=_count(out, "cached_tokens"),
        prompt_tokens=_count(out, "prompt_tokens"),
        e2e_s=e2e_s,
        first_token_s=_moment(out, "first_token_latency"),
        replica=_count(out, "dp_rank") or 0,
        arrival_s=arrival_s,
    )
    return row, basis


def _request(
    obj: dict[str, Any], out: dict[str, Any], ids: list[int], name: str, options: ReadOptions
) -> Request:
    output_ids = out.get("output_ids")
    recorded = None
    if isinstance(output_ids, list) and output_ids and set(map(type, output_ids)) == {int}:
        recorded = tuple(ids_of(out, "output_ids", bits=32))
    length = _count(out, "completion_tokens")
    if length is None and recorded is not None:
        length = len(recorded)
    asked = obj.get("sampling_params")
    most = max(options.max_new_tokens, length or 0)
    if isinstance(asked, dict) and asked.get("max_new_tokens") is not None:
        most = max(count_of(asked, "max_new_tokens", least=0), length or 0, 1)
    start = obj.get("logprob_start_len")
    capped = obj.get("return_logprob") is True and type(start) is int and start >= 0
    salts = (name_of(obj, key) for key in ("extra_key", "lora_path", "cache_salt"))
    return Request(
        rid=name.encode(errors="replace").decode(),
        key=PrefixKey(ids, namespace=Namespace.of(*salts)),
        prompt_tokens=len(ids),
        max_new_tokens=most,
        session_id=name_of(obj, "session_id") or name_of(obj, "conversation_id"),
        max_match_tokens=start if capped else None,
        recorded_output_tokens=length,
        recorded_output_ids=recorded,
    )


def _count(row: dict[str, Any], field: str) -> int | None:
    return None if row.get(field) is None else count_of(row, field, least=0)


def _moment(row: dict[str, Any], field: str) -> float | None:
    return None if row.get(field) is None else float(time_of(row, field))


def is_server_log(head: Head) -> bool:
    """Recognise a log of an SGLang server by its first lines."""
    return _LOG_HEAD.search(head.data) is not None


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(
            "arrival is when the server received the request, else its line less its latency; "
            f"without times one arrives every {1 / options.rate_per_s:g} s",
            f"a request that does not say asks for up to {options.max_new_tokens} new tokens",
        ),
        rows=lambda source, summary: (
            row.request for row in finished_requests(source, options, summary)
        ),
    )


SGLANG_LOG = TraceFormat(
    name="sglang-log",
    title="SGLang server log with Finish lines",
    recognises=lambda row: row.get("event") == "request.finished" and "obj" in row,
    recognises_head=is_server_log,
    plan=_plan,
)
