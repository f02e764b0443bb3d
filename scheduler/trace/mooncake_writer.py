"""Requests of block ids into Mooncake JSONL, as `scheduler.trace.mooncake` reads it.

``{"timestamp":3000,"input_length":1100,"output_length":80,"hash_ids":[0,7,8]}``, milliseconds;
with ``session_id`` where the request has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from radixcache import KeyKind
from radixcache.errors import InvalidInputError, KeyKindError
from scheduler.request import Request

__all__ = ["NO_LENGTH", "mooncake_lines"]

NO_LENGTH = "output length not recorded: the most it asks for is written"
MOST_MS = 2**63
_encode = msgspec.json.Encoder().encode


def mooncake_lines(requests: Iterable[Request], lost: Counter[str]) -> Iterator[bytes]:
    """Yield one row a request, each with its line end; a row a sample.

    ``lost`` counts the requests that ask for something that a row cannot say, by what it is.
    Times are rounded to whole milliseconds. Streams.
    Raises: KeyKindError for a key that holds no block ids: see `in_blocks`; InvalidInputError
    for an arrival that milliseconds cannot say.
    """
    for request in requests:
        if request.key.kind is not KeyKind.BLOCKS:
            raise KeyKindError(
                f"request {request.rid} has a {request.key.kind.value} key: rows need block ids"
            )
        _count_lost(request, lost)
        output_tokens = request.recorded_output_tokens
        row: dict[str, Any] = {
            "timestamp": _milliseconds(request),
            "input_length": request.prompt_tokens,
            "output_length": request.max_new_tokens if output_tokens is None else output_tokens,
            "hash_ids": request.key.tokens(),
        }
        if request.session_id is not None:
            row["session_id"] = request.session_id
        line = _encode(row) + b"\n"
        for _ in range(request.samples):
            yield line


def _milliseconds(request: Request) -> int:
    """Return when a request arrives, as far as a row can say it."""
    arrival_ms = request.arrival_s * 1000
    if not arrival_ms < MOST_MS:
        raise InvalidInputError(
            f"request {request.rid} arrives at {request.arrival_s:g} s: a row counts less than "
            "2**63 ms; write another format, or times from the first request on"
        )
    return round(arrival_ms)


def _count_lost(request: Request, lost: Counter[str]) -> None:
    """Count what the row of a request does not say."""
    fields = (
        ("client", request.client_id, None),
        ("priority", request.priority, 0),
        ("max_match_tokens", request.max_match_tokens, None),
        ("abort_after_s", request.abort_after_s, None),
        ("abort_after_tokens", request.abort_after_tokens, None),
    )
    lost.update(f"{name}: no place in a row" for name, value, none in fields if value != none)
    if request.recorded_output_tokens is None:
        lost[NO_LENGTH] += 1
