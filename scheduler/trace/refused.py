"""Formats that are known and refused, each with the reason and the way out."""

from __future__ import annotations

from collections.abc import Callable

from radixcache.errors import TraceError
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat

__all__ = ["REFUSED"]

NO_IDENTITY = (
    "it has arrival times and lengths only, no prefix identity: nothing says which prompts "
    "share a prefix, so there is no hit rate to find. Use a trace with token ids, text or "
    "block hash ids"
)


def _refuse(title: str, reason: str) -> Callable[[Head, ReadOptions], ReadPlan]:
    """Return a plan that always raises."""

    def plan(head: Head, options: ReadOptions) -> ReadPlan:
        raise TraceError(f"is a {title}: {reason}", path=head.path)

    return plan


def _columns(*wanted: str) -> Callable[[Head], bool]:
    """Recognise a CSV by columns of its first line."""

    def recognises(head: Head) -> bool:
        names = {name.strip().strip('"').lower() for name in head.first_line.split(",")}
        return set(wanted) <= names

    return recognises


def _refused(name: str, title: str, reason: str, recognises: Callable[[Head], bool]) -> TraceFormat:
    return TraceFormat(name=name, title=title, recognises=recognises, plan=_refuse(title, reason))


REFUSED: tuple[TraceFormat, ...] = (
    _refused(
        "azure-csv",
        "Azure LLM inference CSV",
        NO_IDENTITY,
        _columns("timestamp", "contexttokens", "generatedtokens"),
    ),
    _refused(
        "burstgpt-csv",
        "BurstGPT CSV",
        NO_IDENTITY,
        _columns("timestamp", "request tokens", "response tokens"),
    ),
    _refused(
        "vidur-csv",
        "Splitwise/Vidur CSV",
        NO_IDENTITY,
        _columns("num_prefill_tokens", "num_decode_tokens"),
    ),
    _refused(
        "splitwise-sim-csv",
        "splitwise-sim CSV",
        NO_IDENTITY,
        _columns("prompt_size", "token_size"),
    ),
    _refused(
        "parquet",
        "Parquet file",
        "export it as JSONL with a 'conversations' or 'messages' list a row",
        lambda head: head.data.startswith(b"PAR1"),
    ),
    _refused(
        "zip",
        "ZIP archive",
        "unpack it and give the file inside",
        lambda head: head.data.startswith(b"PK\x03\x04"),
    ),
)
