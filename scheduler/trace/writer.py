"""write_trace: requests into the project's own JSONL; the same requests give the same bytes.

``write_lines`` is its part that writes: a file that appears whole or not at all.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from radixcache import DEFAULT_NAMESPACE, KeyKind, PrefixKey
from radixcache.errors import InvalidInputError, KeyKindError
from scheduler.request import Request
from scheduler.trace.native import KINDS, MARK, VERSION

__all__ = ["trace_lines", "write_lines", "write_trace"]

_encode = msgspec.json.Encoder().encode
COMPRESSION = 5
KIND_NAMES = {kind: name for name, kind in KINDS.items()}


def write_trace(requests: Iterable[Request], path: str | Path, *, notes: Iterable[str] = ()) -> int:
    """Write requests to a file and return how many; packed when the name ends in `.gz`.

    ``notes`` are kept as assumptions of the trace. The file appears whole or not at all.
    Raises: KeyKindError when the keys are of several kinds; InvalidInputError when there is
    no request or the file cannot be written.
    """
    return write_lines(trace_lines(requests, notes=notes), path) - 1


def write_lines(lines: Iterable[bytes], path: str | Path) -> int:
    """Write lines to a file and return how many; packed when the name ends in `.gz`.

    The file appears whole or not at all. Raises: InvalidInputError when it cannot be written.
    """
    final = Path(path)
    if not final.name or final.is_dir():
        raise InvalidInputError(f"{str(path)!r} is no file name; give the path of a file")
    unfinished = final.with_name(f".{final.name}.part")
    count = 0
    try:
        with unfinished.open("wb") as raw:
            packed = final.suffix == ".gz"
            out = gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) if packed else raw
            for line in lines:
                out.write(line)
                count += 1
            out.close()
        unfinished.replace(final)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        if not isinstance(error, OSError):
            raise
        reason = error.strerror or error
        raise InvalidInputError(f"{path} cannot be written ({reason}); check the path") from None
    return count


def trace_lines(requests: Iterable[Request], *, notes: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield the lines of a trace, the header first, each with its line end.

    A turn of a session is written as what it adds to the row before, so that n turns take
    O(n) space. Holds the last prompt of each session. Raises: as ``write_trace``.
    """
    latest: dict[str, tuple[str, PrefixKey]] = {}
    layout: tuple[KeyKind, int] | None = None
    for request in requests:
        if layout is None:
            layout = (request.key.kind, request.key.page_size)
            yield _encode(_header(request.key, notes)) + b"\n"
        elif layout != (request.key.kind, request.key.page_size):
            raise KeyKindError(
                f"request {request.rid} has a {request.key.kind.value} key: a trace holds one kind"
            )
        yield _encode(_row(request, latest)) + b"\n"
    if layout is None:
        raise InvalidInputError("there is no request to write; a trace needs one at least")


def _header(key: PrefixKey, notes: Iterable[str]) -> dict[str, Any]:
    """Return the header of a trace with such keys."""
    header: dict[str, Any] = {MARK: VERSION, "kind": KIND_NAMES[key.kind]}
    if key.kind is KeyKind.BLOCKS:
        header["page_size"] = key.page_size
    if kept := list(notes):
        header["notes"] = kept
    return header


def _row(request: Request, latest: dict[str, tuple[str, PrefixKey]]) -> dict[str, Any]:
    """Return a request as a row; what is at its default is left out."""
    key = request.key
    row: dict[str, Any] = {"rid": request.rid, "t": request.arrival_s}
    if key.kind is KeyKind.BLOCKS:
        row["block_ids"] = key.tokens()
    else:
        keep = _keep(request, latest, row)
        row["tokens"] = key[keep:].tokens()
    if request.prompt_tokens != len(key) or key.kind is KeyKind.BLOCKS:
        row["n"] = request.prompt_tokens
    row["max_new"] = request.max_new_tokens
    if request.recorded_output_ids is not None:
        row["output_ids"] = request.recorded_output_ids
    elif request.recorded_output_tokens is not None:
        row["output_tokens"] = request.recorded_output_tokens
    if key.namespace != DEFAULT_NAMESPACE:
        row["namespace"] = {k: v for k, v in key.namespace._asdict().items() if v is not None}
    optional = (
        ("session", request.session_id, None),
        ("client", request.client_id, None),
        ("priority", request.priority, 0),
        ("cache_output", request.cache_output, "all"),
        ("visible_tokens", request.visible_tokens, None),
        ("max_match_tokens", request.max_match_tokens, None),
        ("samples", request.samples, 1),
        ("abort_after_s", request.abort_after_s, None),
        ("abort_after_tokens", request.abort_after_tokens, None),
    )
    row |= {field: value for field, value, default in optional if value != default}
    return row


def _keep(request: Request, latest: dict[str, tuple[str, PrefixKey]], row: dict[str, Any]) -> int:
    """Say what the prompt keeps of its session's row before, and remember this one."""
    if request.session_id is None:
        return 0
    key = request.key
    keep = 0
    before = latest.get(request.session_id)
    if before is not None and before[1].namespace == key.namespace:
        keep = key.common_prefix_tokens(before[1])
        if keep:
            row["after"], row["keep"] = before[0], keep
    outputs = np.array(request.recorded_output_ids or (), dtype=f"<u{key.unit_bytes}")
    whole = PrefixKey.from_packed(key.data + outputs.tobytes(), key.kind, key.namespace)
    latest[request.session_id] = (request.rid, whole)
    return keep
