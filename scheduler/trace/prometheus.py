"""Prometheus snapshots of a server: counters of cached tokens, in the text form of `/metrics`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from radixcache.errors import TraceError
from scheduler.trace.server_log import log_lines
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary

__all__ = ["CacheCounters", "Snapshot", "cached_between", "is_snapshot", "read_snapshot"]

_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]{0,200})(?:\{(.{0,4000})\})?[ \t]+([0-9.eE+-]{1,40}|NaN|[+-]?Inf)"
    r"(?:[ \t]+-?\d{1,20})?"
)
_LABEL = re.compile(r'(\w{1,60})="([^"]{0,200})"')
_MOST = 1e15

_RANKS = ("engine", "dp_rank")
"""Labels that tell the data-parallel engines of a server apart."""
_COUNTERS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    # engine, definition, names of the prompt tokens, names of the cached ones
    (
        "vllm",
        "vllm:prefix_cache_hits / vllm:prefix_cache_queries: prompt tokens in whole cached blocks, "
        "of all prompt tokens, once a request as it is first scheduled",
        (
            "vllm:prefix_cache_queries_total",
            "vllm:prefix_cache_queries",
            "vllm:gpu_prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries",
        ),
        (
            "vllm:prefix_cache_hits_total",
            "vllm:prefix_cache_hits",
            "vllm:gpu_prefix_cache_hits_total",
            "vllm:gpu_prefix_cache_hits",
        ),
    ),
    (
        "sglang",
        "sglang:cached_tokens_total / sglang:prompt_tokens_total, of finished requests; "
        "sglang:cache_hit_rate is the same share of the last prefill batch alone",
        ("sglang:prompt_tokens_total",),
        ("sglang:cached_tokens_total",),
    ),
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The samples of one moment by name, those of all labels added up, and the cache's size."""

    path: str
    values: dict[str, float]
    page_size: int | None
    capacity_tokens: int | None
    """Of one engine."""
    engines: int = 1
    """Data-parallel engines whose samples are added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounters:
    """What a server counted between two snapshots."""

    engine: str
    definition: str
    prompt_tokens: int
    cached_tokens: int
    page_size: int | None
    capacity_tokens: int | None
    external_tokens: int
    """Tokens that a connector brought from another cache, beside."""
    engines: int = 1


def is_snapshot(data: bytes) -> bool:
    """Recognise the text form of Prometheus metrics of vLLM or SGLang."""
    return re.search(rb"^(?:# (?:HELP|TYPE) )?(?:vllm|sglang):\w+", data, re.MULTILINE) is not None


def read_snapshot(source: Source) -> Snapshot:
    """Read one snapshot; lines that are no sample are passed over. Cost: O(file)."""
    values: dict[str, float] = {}
    page_size = capacity = None
    engines: set[str] = set()
    for _, text in log_lines(source, TraceSummary()):
        found = None if text.startswith("#") else _SAMPLE.fullmatch(text.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if not math.isfinite(value) or abs(value) > _MOST:
            continue
        values[found[1]] = values.get(found[1], 0.0) + value
        labels = dict(_LABEL.findall(found[2] or ""))
        engines |= {labels[name] for name in _RANKS if name in labels}
        if found[1] == "vllm:cache_config_info":
            page_size = _whole(labels.get("block_size")) or page_size
            blocks = _whole(labels.get("num_gpu_blocks"))
            if page_size is not None and blocks is not None:
                capacity = page_size * blocks
        elif found[1] == "sglang:max_total_num_tokens" and value >= 1:
            capacity = int(value)
    return Snapshot(source.path, values, page_size, capacity, max(len(engines), 1))


def cached_between(before: Snapshot, after: Snapshot) -> CacheCounters:
    """Return what was counted from one snapshot to the next.

    Raises: TraceError where the counters are missing, went back, or stood still.
    """
    for engine, definition, queries, hits in _COUNTERS:
        query = next((name for name in queries if name in after.values), None)
        if query is None:
            continue
        hit = next((name for name in hits if name in after.values), None)
        prompt_tokens = _grown(before, after, query)
        cached_tokens = 0 if hit is None else _grown(before, after, hit)
        if not prompt_tokens:
            raise TraceError(
                f"{query} stood still between the snapshots: take them before and after traffic",
                path=after.path,
            )
        if cached_tokens > prompt_tokens:
            raise TraceError(f"more tokens were cached than {query} counted", path=after.path)
        external = "vllm:external_prefix_cache_hits_total"
        return CacheCounters(
            engine=engine,
            definition=definition,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            page_size=after.page_size or (1 if engine == "sglang" else 16),
            capacity_tokens=after.capacity_tokens,
            engines=after.engines,
            external_tokens=_grown(before, after, external) if external in after.values else 0,
        )
    gauge = (
        ": sglang:cache_hit_rate is the rate of the last batch alone, no total follows from it"
        if "sglang:cache_hit_rate" in after.values
        else ""
    )
    raise TraceError(
        f"has no counters of cached tokens{gauge}; needed are vllm:prefix_cache_queries and _hits, "
        "or sglang:prompt_tokens_total and sglang:cached_tokens_total",
        path=after.path,
    )


def _grown(before: Snapshot, after: Snapshot, name: str) -> int:
    """Return how much a counter grew."""
    grown = after.values[name] - before.values.get(name, 0.0)
    if grown < 0:
        raise TraceError(
            f"{name} went back by {-grown:g}: the server was started anew between the snapshots, "
            "or they are swapped",
            path=after.path,
        )
    return round(grown)


def _whole(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 16):
        return None
    return int(text) or None
