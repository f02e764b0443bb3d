"""Request: what was asked, by a client or by a row of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from radixcache import PrefixKey

__all__ = ["CacheOutput", "Request"]

CacheOutput = Literal["all", "none", "visible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and what is wanted for it; never changes.

    ``prompt_tokens`` is n of every formula. It equals ``len(key)`` for token keys; a
    block-hash key covers only the full blocks, so there it may be larger.
    """

    rid: str
    key: PrefixKey
    prompt_tokens: int
    max_new_tokens: int
    arrival_s: float = 0.0
    """Seconds after the start of the trace; the scheduler itself reads only ``now``."""
    priority: int = 0
    """Larger runs first under the ``priority`` order; also given to the cache."""
    client_id: str | None = None
    session_id: str | None = None
    cache_output: CacheOutput = "all"
    """How much of the output is published: all of it, none, or the first ``visible_tokens``."""
    visible_tokens: int | None = None
    max_match_tokens: int | None = None
    """A cap on the usable prefix below the last-token rule (prompt log-probabilities)."""
    recorded_output_tokens: int | None = None
    """The true output length, where a trace knows it. The scheduler never reads it."""
    recorded_output_ids: tuple[int, ...] | None = None
    """The true output token ids, where a trace has them. The scheduler never reads them."""
