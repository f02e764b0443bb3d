"""OptimalReplay: what optimal eviction hits for this order, at one capacity after another.

Evicting the farthest next hit first, deepest first on ties, never takes a page before what lies
behind it. When request i comes, every page of its path that is cached and that it can hit has i
as its next hit; so for each coming request it is enough to count the cached pages that it will
hit: R[i] is its hit. Pages that are hit no more go before all others and need no count, since a
request leaves room for capacity - its own pages of the rest, whatever they are.

No eviction does better where requests can hit whatever they touch, as by the lookup definition.
Where a request touches pages that it has to compute itself (its last one, or an answer), they
are kept for the hit after it although it brings them anyway, as in the lookup replay; so there
another choice can do slightly better.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from radixcache.errors import ConfigError
from scheduler.analysis.stack_distances import StackDistances
from scheduler.report.metrics import ratio

__all__ = ["OptimalHits", "OptimalReplay"]


@dataclass(frozen=True, slots=True)
class OptimalHits:
    """What optimal eviction hits at one capacity; compare with `CapacityCurve`."""

    capacity_pages: int
    hit_tokens: int
    second_half_hit_tokens: int
    prompt_tokens: int
    second_half_prompt_tokens: int

    @property
    def hit_rate(self) -> float | None:
        """Hit rate over all requests, from an empty cache; None for no tokens."""
        return ratio(self.hit_tokens, self.prompt_tokens)

    @property
    def second_half_hit_rate(self) -> float | None:
        """Hit rate of the last 50 % of the requests, over a cache warmed by the others."""
        return ratio(self.second_half_hit_tokens, self.second_half_prompt_tokens)


class _Use(NamedTuple):
    """Pages of one path that the same request can hit next."""

    request: int
    first: int
    """Place of the first on the path."""
    pages: int


class OptimalReplay:
    """Replays what `StackDistances` found, with optimal eviction.

    At every capacity it equals `scheduler.lookup.lookup_replay` with ``policy="optimal"``.

    Cost: O(runs) to make; `hits` O(requests + runs * log requests) a capacity. Memory some
    200 bytes a run.
    """

    def __init__(self, distances: StackDistances) -> None:
        self._pages = distances.touched_pages.tolist()
        self._usable_tokens = distances.usable_tokens.tolist()
        self._prompt_tokens = distances.prompt_tokens
        self._page_size = distances.rule.page_size
        self._uses = _next_uses(distances)
        usable = distances.usable_pages
        self._kept = [
            # Pages of the path that are cached for a later request, and not hit by this one.
            [
                (use.request, use.first + use.pages - max(use.first, usable[number]))
                for use in uses
                if use.first + use.pages > usable[number]
            ]
            for number, uses in enumerate(self._uses)
        ]

    def ceiling_pages(self) -> int:
        """Return the smallest capacity that reaches the ceiling.

        Cost: one or two replays; 20 where pages that are touched before they are hit matter.
        """
        found, enough = self._serve(None)
        most = sum(found)
        low, high = 0, enough
        middle = enough - 1
        while low < high:
            if sum(self._serve(middle)[0]) < most:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        return high

    def hits(self, capacity_pages: int) -> OptimalHits:
        """Replay at one capacity. Raises: ConfigError below one page."""
        if capacity_pages < 1:
            raise ConfigError(f"capacity_pages is {capacity_pages}: give at least 1 page")
        found, _ = self._serve(capacity_pages)
        page = self._page_size
        tokens = [
            min(pages * page, usable)
            for pages, usable in zip(found, self._usable_tokens, strict=True)
        ]
        half = len(tokens) // 2
        return OptimalHits(
            capacity_pages=capacity_pages,
            hit_tokens=sum(tokens),
            second_half_hit_tokens=sum(tokens[half:]),
            prompt_tokens=sum(self._prompt_tokens),
            second_half_prompt_tokens=sum(self._prompt_tokens[half:]),
        )

    def _serve(self, capacity: int | None) -> tuple[list[int], int]:
        """Return the pages that each request hits, and how many lose nothing that is hit again."""
        coming = [0] * len(self._pages)  # cached pages by the request that hits them next
        cached = most = 0  # the sum of ``coming``, and the largest need
        latest: list[int] = []  # a heap of -request, for those with cached pages and others
        found = []
        for number, (pages, uses, kept) in enumerate(
            zip(self._pages, self._uses, self._kept, strict=True)
        ):
            hit = coming[number]
            found.append(hit)
            coming[number] = 0
            cached -= hit
            for request, count in kept:  # on the path too: neither evicted nor cached twice
                own = min(coming[request], count)
                coming[request] -= own
                cached -= own
            if cached:
                most = max(most, cached + pages)
            elif uses:  # what is not used again may lack room
                most = max(most, uses[-1].first + uses[-1].pages)
            if capacity is not None:
                room = max(capacity - pages, 0)
                while cached > room:
                    last = -latest[0]
                    taken = min(coming[last], cached - room)
                    coming[last] -= taken
                    cached -= taken
                    if not coming[last]:
                        heappop(latest)
            for request, first, count in uses:
                if capacity is not None and first + count > capacity:
                    count = max(capacity - first, 0)  # noqa: PLW2901  the rest found no room
                if count:
                    if not coming[request]:
                        heappush(latest, -request)
                    coming[request] += count
                    cached += count
        return found, most


def _next_uses(distances: StackDistances) -> list[list[_Use]]:
    """Return for each path which requests can hit its pages next, from the root on.

    A request that touches a page which it cannot hit hands on to the one after it.
    """
    uses: list[list[_Use]] = [[] for _ in range(len(distances))]
    usable = distances.usable_pages
    # Later requests first, so that what they hand on is known; a request's runs lie on
    # different paths, and each path gets its runs from the deepest to the root.
    for at in range(len(distances.run_request) - 1, -1, -1):
        request, first = distances.run_request[at], distances.run_first[at]
        stop = first + distances.run_pages[at]
        own = uses[distances.run_toucher[at]]
        cut = min(max(usable[request], first), stop)
        if cut < stop:
            handed = []
            for use in uses[request]:
                low, high = max(use.first, cut), min(use.first + use.pages, stop)
                if low < high:
                    handed.append(_Use(use.request, low, high - low))
            own[:0] = handed
        if first < cut:
            own.insert(0, _Use(request, first, cut - first))
    return uses
