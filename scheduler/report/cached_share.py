"""Requests by what the cache held of them: mostly cached ones, and mostly computed ones.

The cache-cold requests are those that an order which prefers long matches lets wait. What is
cached depends on the order, so the two groups hold other requests under another order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scheduler.report.recorder import Recorder

__all__ = ["CACHED_FROM_SHARE", "TtftByCachedShare", "ttft_by_cached_share"]

CACHED_FROM_SHARE = 0.5
"""A prompt counts as mostly cached when at least this share of it was a hit."""


class TtftByCachedShare(NamedTuple):
    """Sorted times to first token of the requests that got one, in seconds."""

    mostly_cached: list[float]
    """Requests of whose prompt at least ``CACHED_FROM_SHARE`` was a hit when first admitted."""
    mostly_computed: list[float]
    """The others: the cache held less of them, or nothing."""


def ttft_by_cached_share(recorder: Recorder) -> TtftByCachedShare:
    """Return the waits of both groups. Cost: O(requests log requests)."""
    cached: list[float] = []
    computed: list[float] = []
    for token, arrival, hit, prompt in zip(
        recorder.first_token_s,
        recorder.submitted_s,
        recorder.hit_tokens,
        recorder.prompt_tokens,
        strict=True,
    ):
        if not math.isnan(token) and not math.isnan(hit):
            group = cached if hit >= CACHED_FROM_SHARE * prompt else computed
            group.append(token - arrival)
    return TtftByCachedShare(sorted(cached), sorted(computed))
