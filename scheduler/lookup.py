"""Lookup replay: requests in arrival order against a cache, no queue, no engine, no time.

This is what a cache simulator answers. Each request matches its whole key, pins the match,
evicts what it lacks room for, caches its missing pages and lets go. When nothing more can be
evicted the rest of the request is not cached. Hit tokens are min(page size * matched pages,
prompt tokens): without the last-token rule unless asked for. Outputs are cached when asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from radixcache import EvictionPolicy, Node, PageIds, PrefixKey
from radixcache.errors import KeyKindError
from scheduler.lookup_cache import HitCounts, LookupCache, last_token_cap
from scheduler.optimal import computed_key
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["LookupResult", "OptimalEviction", "lookup_replay"]

_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class LookupResult:
    """What a lookup replay found, and by which definition."""

    policy: str
    capacity_pages: int | None
    """None: unbounded."""
    page_size: int
    last_token: bool
    """Whether one token of each prompt had to be computed."""
    cached_outputs: bool
    """Whether recorded outputs were cached too."""
    requests: int
    prompt_tokens: int
    hit_tokens: int
    second_half_prompt_tokens: int
    second_half_hit_tokens: int
    evicted_pages: int
    uncached_pages: int
    """Pages that found no room because their own request's path filled the cache."""

    @property
    def cold_hit_rate(self) -> float | None:
        """Hit rate over all requests, from an empty cache; None for no tokens."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def second_half_hit_rate(self) -> float | None:
        """Hit rate of the last 50 % of the requests, over a cache warmed by the others."""
        if not self.second_half_prompt_tokens:
            return None
        return self.second_half_hit_tokens / self.second_half_prompt_tokens


class OptimalEviction(EvictionPolicy):
    """Farthest next use first: the best any policy can do for a fixed order of whole lookups.

    With the last-token rule it comes close, no more: a page may be needed next by a prompt
    that has to compute it anyway.

    ``next_use[page]`` is when the page is needed next; whoever uses a page renews it before
    the page's pin is released. A page's next use is never before its parent's, so the
    farthest is always at the end of a leaf, and of equals on one path the deepest goes first.

    Ref: L. A. Belady, A study of replacement algorithms (1966), on the leaves of a tree.
    """

    name = "optimal"
    rank_can_fall = True

    def __init__(self, next_use: array[int] | None = None) -> None:
        self.next_use = array("q") if next_use is None else next_use

    def rank(self, node: Node) -> int:
        """Return the next use of the last page, negated."""
        return -self.next_use[node.pages[-1]]

    def shared_tail_pages(self, node: Node) -> int:
        """Return how many last pages are needed next at the same time."""
        pages, next_use = node.pages, self.next_use
        last = next_use[pages[-1]]
        count = 1
        while count < len(pages) and next_use[pages[-1 - count]] == last:
            count += 1
        return count

    def renew(self, next_use: array[int], pages: PageIds) -> None:
        """Write the next use of each page of a path, which is pinned still."""
        table = self.next_use
        for page, use in zip(pages, next_use, strict=False):
            if page >= len(table):
                table.extend([_NEVER] * (page + 1 - len(table)))
            table[page] = use


def lookup_replay(
    requests: Iterable[Request],
    page_size: int,
    *,
    capacity_pages: int | None = None,
    policy: str | EvictionPolicy = "lru",
    last_token: bool = False,
    cache_outputs: bool = False,
) -> LookupResult:
    """Replay the requests in the order given and return the hit rates.

    A request for several samples counts as many requests, one after another.
    ``capacity_pages`` None is unbounded. ``policy="optimal"`` evicts the page with the
    farthest next use, and for that reads all requests first. With ``cache_outputs`` a request
    also leaves its recorded output, as its ``cache_output`` says, to the requests after it.

    Cost: O(nodes on one path + pages cached) a request; memory 16 bytes a request beside the
    cache, for ``optimal`` the requests and 8 bytes a page of each.
    Raises: ConfigError for a capacity below one page; KeyKindError for mixed kinds of keys.
    """
    requests = each_sample(requests)
    uses: Sequence[array[int]] = ()
    optimal: OptimalEviction | None = None
    if policy == "optimal":
        requests = list(requests)
        uses = _next_uses(requests, page_size, last_token, cache_outputs)
        policy = optimal = OptimalEviction()
    cache = LookupCache(
        page_size, capacity_pages=capacity_pages, policy=policy, last_token=last_token
    )
    hits = HitCounts()
    for index, request in enumerate(requests):
        whole = computed_key(request) if cache_outputs else None
        renew = None if optimal is None else partial(optimal.renew, uses[index])
        hit = cache.serve(request, whole, renew)
        hits.add(request.prompt_tokens, hit)
    return LookupResult(
        policy=policy if isinstance(policy, str) else policy.name,
        capacity_pages=capacity_pages,
        page_size=page_size,
        last_token=last_token,
        cached_outputs=cache_outputs,
        requests=len(hits),
        prompt_tokens=hits.prompt_tokens(),
        hit_tokens=hits.hit_tokens(),
        second_half_prompt_tokens=hits.prompt_tokens(second_half=True),
        second_half_hit_tokens=hits.hit_tokens(second_half=True),
        evicted_pages=cache.evicted_pages,
        uncached_pages=cache.uncached_pages,
    )


def _next_uses(
    requests: Sequence[Request], page_size: int, last_token: bool, cache_outputs: bool
) -> Sequence[array[int]]:
    """Return for each page of each request the index of the next request that can hit it."""
    keys = [request.key for request in requests]
    if cache_outputs:
        keys = [computed_key(request) or request.key for request in requests]
    paths = _number_pages(keys, page_size)
    seen: dict[int, int] = {}
    for index in range(len(requests) - 1, -1, -1):
        path = paths[index]
        usable = len(requests[index].key) // page_size
        if last_token:
            usable = min(usable, last_token_cap(requests[index], page_size) // page_size)
        uses = array("q", [seen.get(prefix, _NEVER) for prefix in path])
        for prefix in path[:usable]:
            seen[prefix] = index
        paths[index] = uses
    return paths


def _number_pages(keys: Sequence[PrefixKey], page_size: int) -> list[array[int]]:
    """Return each key's page prefixes as numbers, equal exactly for equal prefixes."""
    numbers: dict[object, int] = {}
    paths = []
    for key in keys:
        if key.layout != keys[0].layout:
            raise KeyKindError(f"a {key.kind.value} key among {keys[0].kind.value} keys")
        width = key.kind.page_bytes(page_size)
        data = key.data
        parent: object = key.namespace
        path = array("q")
        for at in range(0, len(data) // width * width, width):
            number = numbers.setdefault((parent, data[at : at + width]), len(numbers))
            path.append(number)
            parent = number
        paths.append(path)
    return paths
