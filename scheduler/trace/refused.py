"""Formats that are known and refused, each with the reason and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from radixcache.errors import TraceError
from scheduler.trace.formats import Head

__all__ = ["REFUSED", "refuse"]

NO_IDENTITY = (
    "it has arrival times and lengths only, no prefix identity: nothing says which prompts "
    "share a prefix, so there is no hit rate to find. Use a trace with token ids, text or "
    "block hash ids"
)


class _Refused(NamedTuple):
    title: str
    reason: str
    recognises: Callable[[Head], bool]


def refuse(head: Head) -> None:
    """Raise TraceError when the file is of a format that is known and refused."""
    for known in REFUSED:
        if known.recognises(head):
            raise TraceError(f"is {known.title}: {known.reason}", path=head.path)


def _columns(*wanted: str) -> Callable[[Head], bool]:
    """Recognise a CSV by columns of its first line."""

    def recognises(head: Head) -> bool:
        names = {name.strip().strip('"').lower() for name in head.first_line.split(",")}
        return set(wanted) <= names

    return recognises


REFUSED = (
    _Refused(
        "an Azure LLM inference CSV",
        NO_IDENTITY,
        _columns("timestamp", "contexttokens", "generatedtokens"),
    ),
    _Refused(
        "a BurstGPT CSV",
        NO_IDENTITY,
        _columns("timestamp", "request tokens", "response tokens"),
    ),
    _Refused(
        "a Splitwise/Vidur CSV",
        NO_IDENTITY,
        _columns("num_prefill_tokens", "num_decode_tokens"),
    ),
    _Refused(
        "a splitwise-sim CSV",
        NO_IDENTITY,
        _columns("prompt_size", "token_size"),
    ),
    _Refused(
        "a Parquet file that was packed once more",
        "unpack it and give the .parquet file",
        lambda head: head.data.startswith(b"PAR1"),
    ),
    _Refused(
        "a ZIP archive",
        "unpack it and give the file inside",
        lambda head: head.data.startswith(b"PK\x03\x04"),
    ),
)
