"""Whether two rows of paired measurements differ at all: Wilcoxon's signed-rank test."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

__all__ = ["FEWEST_PAIRS", "differ", "median_ratio"]

FEWEST_PAIRS = 6
"""With fewer pairs no outcome is significant at 95 %."""


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of ``theirs / ours``, round by round."""
    return median(b / a if a else float("inf") for a, b in zip(ours, theirs, strict=True))


def differ(ours: Sequence[float], theirs: Sequence[float], level: float = 0.05) -> bool:
    """Tell whether the paired values differ, two-sided, at ``1 - level``.

    Exact: the distribution of the rank sum is counted, ties share their mean rank and equal
    pairs are left out. Cost: O(n**3) for n pairs.

    Ref: F. Wilcoxon, Individual comparisons by ranking methods, 1945.
    """
    gaps = [b - a for a, b in zip(ours, theirs, strict=True) if a != b]
    if len(gaps) < FEWEST_PAIRS:
        return False
    # Twice the mean rank is whole also for ties.
    sizes = sorted(abs(gap) for gap in gaps)
    ranks = [sizes.index(abs(gap)) * 2 + 1 + sizes.count(abs(gap)) for gap in gaps]
    ways = [1] + [0] * sum(ranks)
    for rank in ranks:
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    plus = sum(rank for rank, gap in zip(ranks, gaps, strict=True) if gap > 0)
    rarer = min(plus, sum(ranks) - plus)
    return bool(2 * sum(ways[: rarer + 1]) <= level * 2 ** len(ranks))
