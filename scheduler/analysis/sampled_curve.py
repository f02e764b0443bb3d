"""A capacity curve from a sample of the pages, with its standard error; for huge traces.

A page is in the sample when a hash of its whole prefix is below a threshold, so one page is
always in or always out. Distances among sampled pages are 1/rate times too short. Of the
touches of sampled pages the misses are counted, not the hits: hits crowd on few hot pages, one
of which in or out of the sample moves their sum by points, while no page misses often.

    hit tokens(C) = usable tokens - missed tokens of the sample(C) / rate

The standard error adds up two parts: which pages were drawn (Horvitz-Thompson, one draw a page)
and how far distances are off (a distance d is known to within sqrt(d (1 - rate) / rate) pages).

Ref: C. A. Waldspurger et al., Efficient MRC construction with SHARDS (FAST 2015).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from radixcache.errors import ConfigError
from scheduler.analysis.capacity_curve import CapacityCurve, Int64s, Sample
from scheduler.analysis.prefix_hashes import prefix_hashes
from scheduler.analysis.stack_distances import PagesByRequest
from scheduler.analysis.touches import Touch, TouchRule
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["SampledDistances", "sampled_curve"]

_ERROR_POINTS = 64
_NEVER = 2**62
"""Distance of a page that was not touched before."""


class SampledDistances:
    """The distances of sampled pages; the place of `StackDistances` for huge traces.

    Cost: `add` `prefix_hashes` and O(sampled pages * log requests). Memory: some 200 bytes a
    sampled distinct page, 20 bytes a touch of one and 24 bytes a request; no prompt is kept.
    Raises: ConfigError for a rate that is not above 0 and at most 1.
    """

    def __init__(self, rule: TouchRule, *, rate: float, seed: int = 0) -> None:
        if not 0 < rate <= 1:
            raise ConfigError(f"sampling rate is {rate}: give a share above 0 and at most 1")
        self.rule = rule
        self.rate = rate
        self._seed = seed
        self._threshold = np.uint64(min(int(rate * 2.0**64), 2**64 - 1))
        self._numbers: dict[int, int] = {}
        self._touchers = array("q")
        self._pages = PagesByRequest()
        self._longest = self._answers = 0
        self._prompt_tokens, self._usable_tokens = array("q"), array("q")
        self._page, self._request, self._tokens = array("I"), array("I"), array("I")
        self._distance = array("q")

    def add(self, request: Request) -> None:
        """Look the sampled pages of the next request up and touch them."""
        touch = self.rule.touch(request)
        number, size = len(self._prompt_tokens), self.rule.page_size
        pages, numbers, touchers = self._pages, self._numbers, self._touchers
        before, sampled = len(numbers), self._sampled(touch)
        toucher, nearest = -1, 0  # of the run of pages we are in, and its first distance less 1
        for place, identity in sampled:
            page = numbers.get(identity)
            distance = _NEVER
            if page is None:
                page = numbers[identity] = len(numbers)
                touchers.append(number)
            else:
                if touchers[page] != toucher:
                    toucher = touchers[page]
                    nearest = before - pages.up_to(toucher)
                nearest += 1
                distance = nearest
                touchers[page] = number
                pages.take(toucher, 1)
            if place < touch.usable_pages:
                self._page.append(page)
                self._request.append(number)
                self._distance.append(distance)
                self._tokens.append(min(max(touch.usable_tokens - place * size, 0), size))
        pages.append(len(sampled))
        self._answers += touch.answered
        self._longest = max(self._longest, touch.pages)
        self._prompt_tokens.append(touch.prompt_tokens)
        self._usable_tokens.append(touch.usable_tokens)

    def curve(self) -> CapacityCurve:
        """Return the estimate of the requests so far. Cost: O(touches log touches).

        Raises: ConfigError where the sample holds no page at all.
        """
        rule, rate = self.rule, self.rate
        prompts = np.asarray(self._prompt_tokens, dtype=np.int64)
        usable = np.asarray(self._usable_tokens, dtype=np.int64)
        half = len(prompts) // 2
        if not self._tokens and usable.any():
            raise ConfigError(
                f"sampling rate {rate:g} draws none of the pages that could hit: give a higher rate"
            )
        away, tokens = self._pages_away(), np.asarray(self._tokens, dtype=np.int64)
        second = np.asarray(self._request, dtype=np.int64) >= half
        steps = away[away < _NEVER]
        capacities = np.unique(np.concatenate(([0], steps - 1, steps)))
        hits = _estimate(capacities, away, tokens, int(usable.sum()), rate)
        return CapacityCurve(
            page_size=rule.page_size,
            last_token=rule.last_token,
            cached_output_requests=self._answers,
            requests=len(prompts),
            prompt_tokens=int(prompts.sum()),
            second_half_prompt_tokens=int(prompts[half:].sum()),
            longest_pages=self._longest,
            distinct_pages=round(len(self._numbers) / rate),
            capacities=capacities,
            hit_tokens=hits,
            second_half_hit_tokens=_estimate(
                capacities, away[second], tokens[second], int(usable[half:].sum()), rate
            ),
            sample=self._errors(capacities, hits, int(prompts.sum())),
        )

    def _sampled(self, touch: Touch) -> list[tuple[int, int]]:
        """Return the sampled pages of a path: place and identity, a hash of the whole prefix."""
        hashes = prefix_hashes(
            touch.data, touch.page_bytes, touch.pages, touch.namespace, self._seed
        )
        (places,) = np.nonzero(hashes <= self._threshold)
        return list(zip(places.tolist(), hashes[places].tolist(), strict=True))

    def _pages_away(self) -> Int64s:
        """Return each touch's distance among all pages: itself, and the rest scaled up."""
        distance = np.asarray(self._distance, dtype=np.int64)
        scaled = 1 + np.ceil((distance - 1) / self.rate)
        return np.where(distance == _NEVER, _NEVER, scaled).astype(np.int64)

    def _errors(self, capacities: Int64s, hits: Int64s, prompt_tokens: int) -> Sample:
        """Return the standard errors at capacities up to the largest distance."""
        rate, away = self.rate, self._pages_away()
        page, tokens = np.asarray(self._page), np.asarray(self._tokens, dtype=np.float64)
        most = max(int(capacities[-1]), 1)
        at = np.unique(np.geomspace(1, most, _ERROR_POINTS).astype(np.int64))
        errors = np.zeros(len(at))
        for place, capacity in enumerate(at.tolist()):
            missed = np.bincount(page, weights=tokens * (away > capacity)) if page.size else page
            drawn = (1 - rate) / rate**2 * float(np.square(missed).sum())
            off = np.sqrt(capacity * (1 - rate) / rate)
            low, high = np.interp([capacity - off, capacity + off], capacities, hits)
            errors[place] = np.sqrt(drawn + ((high - low) / 2) ** 2) / max(prompt_tokens, 1)
        return Sample(rate, self._seed, len(self._numbers), at, errors)


def sampled_curve(
    requests: Iterable[Request],
    page_size: int,
    *,
    rate: float,
    seed: int = 0,
    last_token: bool = True,
    cached_outputs: bool = False,
) -> CapacityCurve:
    """Read the requests once, every sample one, in arrival order, and estimate the curve.

    The same seed gives the same sample. At a rate of 1 it equals
    `scheduler.analysis.capacity_curve.capacity_curve`.

    Cost: `SampledDistances.add` a request.
    """
    rule = TouchRule(page_size, last_token=last_token, cached_outputs=cached_outputs)
    distances = SampledDistances(rule, rate=rate, seed=seed)
    for request in each_sample(requests):
        distances.add(request)
    return distances.curve()


def _estimate(
    capacities: Int64s, away: Int64s, tokens: Int64s, usable_tokens: int, rate: float
) -> Int64s:
    """Return usable tokens - sampled misses / rate, at least 0, at each capacity; 0 at 0."""
    order = np.argsort(away, kind="stable")
    so_far = np.concatenate(([0], np.cumsum(tokens[order])))
    found = so_far[np.searchsorted(away[order], capacities, side="right")]
    missed: NDArray[np.float64] = (so_far[-1] - found) / rate
    hits = np.maximum(np.rint(usable_tokens - missed), 0).astype(np.int64)
    hits[0] = 0
    return hits
