"""open_trace: find the format of a file by its content, or take the one that is named."""

from __future__ import annotations

from pathlib import Path

from radixcache.errors import ConfigError, TraceError
from scheduler.trace.block_rows import KVCACHE_SIMULATOR, TAIR
from scheduler.trace.chat_datasets import LMSYS, WILDCHAT
from scheduler.trace.formats import Head, ReadOptions, Trace, TraceFormat
from scheduler.trace.gateway import AIBRIX, GATEWAY
from scheduler.trace.lmcache import LMCACHE
from scheduler.trace.mooncake import BAILIAN, MOONCAKE
from scheduler.trace.native import NATIVE
from scheduler.trace.openai import OPENAI
from scheduler.trace.refused import refuse
from scheduler.trace.sglang_log import SGLANG_LOG
from scheduler.trace.sharegpt import SHAREGPT
from scheduler.trace.source import Source
from scheduler.trace.token_rows import LLM_SERVING_SIM, PREFIXLENS, TAIR_TOKENS
from scheduler.trace.turns import TURNS
from scheduler.trace.weka import WEKA

__all__ = ["FORMATS", "open_trace"]

FORMATS: tuple[TraceFormat, ...] = (
    NATIVE,
    BAILIAN,
    MOONCAKE,
    KVCACHE_SIMULATOR,
    WEKA,
    TAIR,
    TAIR_TOKENS,
    PREFIXLENS,
    LLM_SERVING_SIM,
    LMCACHE,
    SGLANG_LOG,
    WILDCHAT,
    LMSYS,
    SHAREGPT,
    OPENAI,
    TURNS,
    AIBRIX,
    GATEWAY,
)
"""Every format that can be read. No row is one of two, so their order does not matter."""


def open_trace(
    path: str | Path, *, format: str | None = None, options: ReadOptions | None = None
) -> Trace:
    """Open a trace file; `.gz` is known by content, and so is the format unless it is named.

    Raises: TraceError when the path is no readable file, is empty, is no known trace or is
    of a format without prefix identity; ConfigError for an unknown format name.
    """
    options = options or ReadOptions()
    named = None if format is None else _named(format)
    source = Source(path)
    head = Head(source.head(), source.path)
    if not head.data.strip():
        raise TraceError(
            "is empty, or damaged from its start; give a trace with at least one request",
            path=source.path,
        )
    if named is None:
        refuse(head)
    form = named or _found(head)
    return Trace(source, form, form.plan(head, options))


def _named(name: str) -> TraceFormat:
    """Return the format of a name."""
    for form in FORMATS:
        if form.name == name:
            return form
    known = ", ".join(form.name for form in FORMATS)
    raise ConfigError(f"unknown trace format {name!r}; known: {known}")


def _found(head: Head) -> TraceFormat:
    """Return the format that recognises the head, or the earliest of the first rows."""
    for form in FORMATS:
        if form.recognises_head(head):
            return form
    for row in head.rows:
        for form in FORMATS:
            if form.recognises(row):
                return form
    known = ", ".join(form.name for form in FORMATS)
    raise TraceError(
        f"is no trace of a known format ({known}); name its format (--format) if it is one of them",
        path=head.path,
    )
