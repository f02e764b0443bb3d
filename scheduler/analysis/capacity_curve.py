"""CapacityCurve: the hit rate of an LRU cache at every capacity, exact, from one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.analysis.stack_distances import StackDistances
from scheduler.analysis.touches import TouchRule
from scheduler.report.metrics import ratio
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["CapacityCurve", "Int64s", "Sample", "capacity_curve", "curve_of"]

Int64s = NDArray[np.int64]

SUFFICIENT_SHARE = 0.95
"""What `CapacityCurve.sufficient_pages` asks of the ceiling."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Of which pages an estimated curve was made, and how far it may be off."""

    rate: float
    seed: int
    sampled_pages: int
    """Distinct pages in the sample."""
    capacities: Int64s
    """Pages, rising."""
    standard_errors: NDArray[np.float64]
    """Of the cold hit rate at each of the capacities, as a share."""

    def standard_error(self, capacity_pages: int) -> float:
        """Return that of the nearest capacities, the larger of two."""
        at = int(np.searchsorted(self.capacities, capacity_pages))
        near = self.standard_errors[max(at - 1, 0) : at + 1]
        return float(near.max()) if near.size else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class CapacityCurve:
    """Hit tokens by capacity: points, and straight lines of whole numbers between them.

    ``capacities`` (pages) rise from 0; between two neighbours each page more adds the same
    number of hit tokens, beyond the last one more pages add nothing. The second half is the
    last 50 % of the requests, over a cache that the others warmed.
    """

    page_size: int
    last_token: bool
    """Whether one token of each prompt had to be computed."""
    cached_output_requests: int
    """Requests whose recorded answer stays cached; 0: prompts alone are counted."""
    requests: int
    prompt_tokens: int
    second_half_prompt_tokens: int
    longest_pages: int
    """Pages that the longest request touches."""
    distinct_pages: int
    """Different pages that were touched: no cache can fill more."""
    capacities: Int64s
    hit_tokens: Int64s
    second_half_hit_tokens: Int64s
    sample: Sample | None = None
    """None: exact."""

    def hit_tokens_at(self, capacity_pages: int | None) -> int:
        """Return the hit tokens of all requests; None is unbounded. Cost: O(log points)."""
        return _at(self.capacities, self.hit_tokens, capacity_pages)

    def second_half_hit_tokens_at(self, capacity_pages: int | None) -> int:
        """Return the hit tokens of the second half; None is unbounded. Cost: O(log points)."""
        return _at(self.capacities, self.second_half_hit_tokens, capacity_pages)

    def hit_rate(self, capacity_pages: int | None) -> float | None:
        """Return the share of prompt tokens that hit, from an empty cache; None for no tokens."""
        return ratio(self.hit_tokens_at(capacity_pages), self.prompt_tokens)

    def second_half_hit_rate(self, capacity_pages: int | None) -> float | None:
        """Return the hit rate of the last 50 % of the requests, over a warm cache."""
        return ratio(self.second_half_hit_tokens_at(capacity_pages), self.second_half_prompt_tokens)

    @property
    def ceiling_hit_rate(self) -> float | None:
        """Hit rate of an unbounded cache in arrival order."""
        return self.hit_rate(None)

    def pages_for(self, share: float) -> int | None:
        """Return the smallest capacity that reaches this share of the ceiling.

        None where nothing hits at any capacity.
        """
        most = int(self.hit_tokens[-1])
        if not most:
            return None
        wanted = min(share * most, most)
        low, high = 0, int(self.capacities[-1])
        while low < high:
            middle = (low + high) // 2
            if self.hit_tokens_at(middle) >= wanted:
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def sufficient_pages(self) -> int | None:
        """Smallest capacity that reaches 95 % of the ceiling."""
        return self.pages_for(SUFFICIENT_SHARE)

    @property
    def saturated_pages(self) -> int | None:
        """Smallest capacity that reaches the ceiling: more adds nothing."""
        return self.pages_for(1.0)

    def knee(self) -> int | None:
        """Return the capacity where the curve is farthest above its chord, over log capacity.

        The chord runs from the pages of the longest request to ``saturated_pages``; below it
        not every request fits. None where nothing hits; the saturated capacity where that is
        no longer than the longest request, or where the curve is nowhere above the chord.

        Ref: V. Satopaa et al., Finding a "Kneedle" in a Haystack (2011), without smoothing.
        """
        end, start = self.saturated_pages, max(self.longest_pages, 1)
        if end is None or end <= start:
            return end
        # On a line of hits over log capacity lies no maximum but at its ends.
        between = (self.capacities > start) & (self.capacities < end)
        pages = np.concatenate(([start], self.capacities[between], [end]))
        ends = [self.hit_tokens_at(start)], [self.hit_tokens_at(end)]
        hits = np.concatenate((ends[0], self.hit_tokens[between], ends[1])).astype(np.float64)
        if hits[-1] == hits[0]:
            return start
        right = np.log(pages / start) / np.log(end / start)
        above = (hits - hits[0]) / (hits[-1] - hits[0]) - right
        best = int(np.argmax(above))
        return int(pages[best]) if above[best] > 0 else end

    def as_dict(self) -> dict[str, object]:
        """Return everything for JSON: numbers, lists, None."""
        sample = self.sample
        return {
            "page_size": self.page_size,
            "last_token": self.last_token,
            "cached_output_requests": self.cached_output_requests,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "second_half_prompt_tokens": self.second_half_prompt_tokens,
            "longest_pages": self.longest_pages,
            "distinct_pages": self.distinct_pages,
            "ceiling_hit_rate": self.ceiling_hit_rate,
            "second_half_ceiling_hit_rate": self.second_half_hit_rate(None),
            "knee_pages": self.knee(),
            "sufficient_pages": self.sufficient_pages,
            "saturated_pages": self.saturated_pages,
            "capacities_pages": self.capacities.tolist(),
            "hit_tokens": self.hit_tokens.tolist(),
            "second_half_hit_tokens": self.second_half_hit_tokens.tolist(),
            "sample": None
            if sample is None
            else {
                "rate": sample.rate,
                "seed": sample.seed,
                "sampled_pages": sample.sampled_pages,
                "capacities_pages": sample.capacities.tolist(),
                "standard_errors": sample.standard_errors.tolist(),
            },
        }


def capacity_curve(
    requests: Iterable[Request],
    page_size: int,
    *,
    last_token: bool = True,
    cached_outputs: bool = False,
) -> CapacityCurve:
    """Read the requests once, every sample one, in arrival order, and return the curve.

    At every capacity it equals `scheduler.lookup.lookup_replay` with LRU eviction and the same
    ``last_token`` and cached outputs.

    Cost: `StackDistances.add` a request, then O(runs log runs).
    Raises: ConfigError for a page size below 1; KeyKindError for mixed kinds of keys.
    """
    rule = TouchRule(page_size, last_token=last_token, cached_outputs=cached_outputs)
    distances = StackDistances(rule)
    for request in each_sample(requests):
        distances.add(request)
    return curve_of(distances)


def curve_of(distances: StackDistances) -> CapacityCurve:
    """Return the curve of the requests so far. Cost: O(runs log runs)."""
    rule = distances.rule
    prompts = _ints(distances.prompt_tokens)
    half = len(prompts) // 2
    capacities, hits, second = _points(distances, half)
    return CapacityCurve(
        page_size=rule.page_size,
        last_token=rule.last_token,
        cached_output_requests=distances.answers,
        requests=len(prompts),
        prompt_tokens=int(prompts.sum()),
        second_half_prompt_tokens=int(prompts[half:].sum()),
        longest_pages=max(distances.touched_pages, default=0),
        distinct_pages=distances.distinct_pages,
        capacities=capacities,
        hit_tokens=hits,
        second_half_hit_tokens=second,
    )


def _points(distances: StackDistances, half: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return capacities and the hit tokens there, of all requests and of the second half.

    A run of k whole pages below a stack of ``above`` pages adds page size * clip(C - above,
    0, k) hit tokens at capacity C: the slope rises at ``above`` and falls at ``above`` + k.
    """
    page = distances.rule.page_size
    request, first = _ints(distances.run_request), _ints(distances.run_first)
    pages, above = _ints(distances.run_pages), _ints(distances.run_above)
    usable = _ints(distances.usable_tokens)[request]
    whole = np.clip(usable // page - first, 0, pages)
    left = np.clip(usable - page * (first + whole), 0, page)
    left[whole == pages] = 0  # a partial page, if any, is in a later run
    turns = np.concatenate((above, above + whole, above + whole, above + whole + 1))
    slopes = np.concatenate((np.full_like(above, page), np.full_like(above, -page), left, -left))
    second = np.where(np.tile(request >= half, 4), slopes, 0)
    turns = turns[bends := slopes != 0]
    at, place = np.unique(np.concatenate(([0], turns)), return_inverse=True)
    capacities = at.astype(np.int64)
    place = place[1:]
    return (
        capacities,
        _climb(capacities, place, slopes[bends]),
        _climb(capacities, place, second[bends]),
    )


def _climb(capacities: Int64s, place: NDArray[np.intp], bends: Int64s) -> Int64s:
    """Return the hits at each capacity from the changes of slope."""
    changes = np.zeros(len(capacities), dtype=np.int64)
    np.add.at(changes, place, bends)
    steps = np.cumsum(changes)[:-1] * np.diff(capacities)
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(steps)))


def _at(capacities: Int64s, hits: Int64s, capacity_pages: int | None) -> int:
    """Return the hits at a capacity, which may lie between two points."""
    if capacity_pages is None or capacity_pages >= capacities[-1]:
        return int(hits[-1])
    at = int(np.searchsorted(capacities, capacity_pages, side="right"))
    if at == 0:
        return 0
    low, high = int(capacities[at - 1]), int(capacities[at])
    rise = int(hits[at]) - int(hits[at - 1])
    return int(hits[at - 1]) + rise * (capacity_pages - low) // (high - low)


def _ints(values: object) -> Int64s:
    return np.asarray(values, dtype=np.int64)
