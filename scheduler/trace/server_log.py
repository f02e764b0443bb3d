"""Logs of LLM servers as lines of text, and what the startup lines say of the server.

A log is what a terminal or a container kept: colour codes, carriage returns, bytes that are no
UTF-8, lines of several processes mixed, the last one cut. Lines come out as plain text. Facts
are looked for anywhere in a line, since another process may have written before it.

Ref: vLLM 0.33 ``v1/core/kv_cache_utils.py``; SGLang 0.5.23 ``managers/scheduler.py`` and
``entrypoints/engine.py`` (the lines ``max_total_num_tokens=`` and ``server_args=``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary

__all__ = ["ServerFacts", "log_lines", "precise_moment"]

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\r|\x00")
_VLLM_CAPACITY = re.compile(r"KV cache size: ([0-9,]{1,20}) tokens")
_SGLANG_CAPACITY = re.compile(r"\bmax_total_num_tokens=([0-9]{1,15})\b")
_VLLM_ARGUMENTS = re.compile(r"non-default args|cache_config|EngineArgs|LLM engine \(")
_SGLANG_ARGUMENTS = re.compile(r"\bserver_args=")
_SETTING = r"""\b%s['"]?\s*[=:]\s*['"]?([0-9]{1,9})\b"""
_BLOCK_SIZE = re.compile(_SETTING % "block_size")
_PAGE_SIZE = re.compile(_SETTING % "page_size")
_LOG_INTERVAL = re.compile(_SETTING % "decode_log_interval")
_CHUNK = re.compile(_SETTING % "chunked_prefill_size")
_REPLICAS = re.compile(_SETTING % "dp_size")
_POLICY = re.compile(r"""\bschedule_policy['"]?\s*[=:]\s*['"]([a-z-]{1,20})['"]""")
_MOMENT = re.compile(r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[.,](\d{3,9})")
_MOST_TOKENS = 1 << 40


def log_lines(source: Source, summary: TraceSummary) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) without colour codes and carriage returns.

    Cost: O(file), memory O(longest line).
    """
    for number, data, _ in source.lines(summary):
        yield number, _COLOUR.sub("", data.decode(errors="replace"))


def precise_moment(text: str) -> float | None:
    """Return the first time of a line that is finer than a second, in seconds; else None."""
    found = _MOMENT.search(text)
    if found is None:
        return None
    try:
        day = datetime.fromisoformat(f"{found[1]} {found[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day.timestamp() + float(f"0.{found[3]}")


@dataclass(slots=True)
class ServerFacts:
    """What the lines seen so far say of the server; the first line that says something counts."""

    capacity_tokens: int | None = None
    """KV memory of one engine."""
    page_size: int | None = None
    decode_log_interval: int | None = None
    """SGLang: decode steps from one decode line to the next."""
    chunk_tokens: int | None = None
    policy: str | None = None
    replicas: int = 1
    capacities: set[int] = field(default_factory=set)
    """Every capacity that was printed: engines of one server may differ."""

    def see(self, text: str) -> None:
        """Take what a line says."""
        for pattern in (_VLLM_CAPACITY, _SGLANG_CAPACITY):
            for number in pattern.findall(text):
                tokens = int(number.replace(",", "") or 0)
                if 0 < tokens < _MOST_TOKENS:
                    self.capacities.add(tokens)
                    self.capacity_tokens = self.capacity_tokens or tokens
        if _SGLANG_ARGUMENTS.search(text):
            self.page_size = self.page_size or _number(_PAGE_SIZE, text)
            self.decode_log_interval = self.decode_log_interval or _number(_LOG_INTERVAL, text)
            self.chunk_tokens = self.chunk_tokens or _number(_CHUNK, text)
            self.replicas = max(self.replicas, _number(_REPLICAS, text) or 1)
            found = _POLICY.search(text)
            self.policy = self.policy or (found[1] if found else None)
        elif _VLLM_ARGUMENTS.search(text):
            self.page_size = self.page_size or _number(_BLOCK_SIZE, text)

    def lines(self) -> list[str]:
        """Return it for people, a sentence each."""
        said = []
        if self.capacity_tokens is not None:
            said.append(f"the log says {self.capacity_tokens:,} tokens of KV memory")
        if len(self.capacities) > 1:
            others = ", ".join(f"{tokens:,}" for tokens in sorted(self.capacities))
            said.append(f"engines of this log differ in KV memory ({others}): the first counts")
        if self.page_size is not None:
            said.append(f"the log says pages of {self.page_size} tokens")
        if self.replicas > 1:
            said.append(f"{self.replicas} replicas, each with a cache of its own: one is modelled")
        return said


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else int(found[1]) or None
