"""Formats that are known and refused, each with the reason and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    return lambda head: set(wanted) <= head.columns


def _rows(wanted: Callable[[dict[str, Any]], bool]) -> Callable[[Head], bool]:
    """Recognise by the first row."""
    return lambda head: any(map(wanted, head.rows[:1]))


def _is_rag_pulse(row: dict[str, Any]) -> bool:
    """Recognise a row whose ids are those of the parts of a prompt."""
    return isinstance(row.get("hash_ids"), dict)


def _is_agent_without_ids(row: dict[str, Any]) -> bool:
    """Recognise a session of LLMServingSim whose calls have lengths only."""
    calls = row.get("sub_requests")
    return isinstance(calls, list) and not any(
        isinstance(call, dict) and call.get("input_tok_ids") for call in calls
    )


def _is_call_without_ids(row: dict[str, Any]) -> bool:
    """Recognise a request of LLMServingSim that has lengths only."""
    return "input_toks" in row and "arrival_time_ns" in row and not row.get("input_tok_ids")


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
    _Refused("an LLMServingSim trace without token ids", NO_IDENTITY, _rows(_is_call_without_ids)),
    _Refused(
        "an LLMServingSim trace of agents without token ids",
        NO_IDENTITY,
        _rows(_is_agent_without_ids),
    ),
    _Refused(
        "a RAGPulse trace",
        "its hash_ids name the parts of a prompt (system prompt, passages, history, ...), not "
        "blocks of a fixed length: the length of a part is in five other tables, and their sums "
        "are not input_length. Join them and write rows of block ids, or of tokens",
        _rows(_is_rag_pulse),
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
