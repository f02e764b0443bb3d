"""Lookup replay: requests in arrival order against a cache, no queue, no engine, no time.

This is what a cache simulator answers. Each request matches its whole key, pins the match,
evicts what it lacks room for, caches its missing pages and lets go. When nothing more can be
evicted the rest of the request is not cached. Hit tokens are min(page size * matched pages,
prompt tokens): without the last-token rule unless asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from radixcache import EvictionPolicy, Node, PageIds, PrefixKey, RadixCache
from radixcache.errors import ConfigError, KeyKindError
from scheduler.request import Request

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
    """Farthest next use first: the best any policy can do for a fixed order.

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


class _PageSupply:
    """Page ids from 0 on, returned ones first."""

    __slots__ = ("_limit", "_next", "_spare")

    def __init__(self, capacity_pages: int | None) -> None:
        self._limit = _NEVER if capacity_pages is None else capacity_pages
        self._next = 0
        self._spare = array("i")

    @property
    def free_pages(self) -> int:
        return self._limit - self._next + len(self._spare)

    def take(self, count: int) -> PageIds:
        """Return ``count`` ids; there must be as many."""
        spare = self._spare
        taken = spare[len(spare) - min(count, len(spare)) :]
        del spare[len(spare) - len(taken) :]
        fresh = count - len(taken)
        taken.extend(range(self._next, self._next + fresh))
        self._next += fresh
        return taken

    def give_back(self, pages: PageIds) -> None:
        self._spare.extend(pages)


def lookup_replay(
    requests: Iterable[Request],
    page_size: int,
    *,
    capacity_pages: int | None = None,
    policy: str | EvictionPolicy = "lru",
    last_token: bool = False,
) -> LookupResult:
    """Replay the requests in the order given and return the hit rates.

    ``capacity_pages`` None is unbounded. ``policy="optimal"`` evicts the page with the
    farthest next use, and for that reads all requests first. Outputs are not cached.

    Cost: O(nodes on one path + pages cached) a request; memory 16 bytes a request beside the
    cache, for ``optimal`` the requests and 8 bytes a page of each.
    Raises: ConfigError for a capacity below one page; KeyKindError for mixed kinds of keys.
    """
    if capacity_pages is not None and capacity_pages < 1:
        raise ConfigError(f"capacity_pages is {capacity_pages}: give at least 1 page, or None")
    uses: Sequence[array[int]] | None = None
    if policy == "optimal":
        requests = list(requests)
        uses = _next_uses(requests, page_size, last_token)
        policy = OptimalEviction()
    replay = _Replay(page_size, capacity_pages, policy, last_token)
    for index, request in enumerate(requests):
        replay.serve(request, None if uses is None else uses[index])
    return replay.result()


class _Replay:
    """One pass over the requests."""

    def __init__(
        self,
        page_size: int,
        capacity_pages: int | None,
        policy: str | EvictionPolicy,
        last_token: bool,
    ) -> None:
        self._page_size = page_size
        self._capacity_pages = capacity_pages
        self._policy = policy
        self._last_token = last_token
        self._supply = _PageSupply(capacity_pages)
        self._cache: RadixCache | None = None
        self._prompt_tokens = array("q")
        self._hit_tokens = array("q")
        self._evicted_pages = 0
        self._uncached_pages = 0

    def serve(self, request: Request, next_use: array[int] | None) -> None:
        """Match, make room, cache, let go; note the hit."""
        cache = self._cache
        if cache is None:
            cache = self._cache = RadixCache(
                self._page_size, kind=request.key.kind, policy=self._policy
            )
        page, key, prompt_tokens = self._page_size, request.key, request.prompt_tokens
        cap = _cap(request, page) if self._last_token else None
        handle = cache.match(key)
        matched = handle.prefix_tokens // page
        hit = min(handle.prefix_tokens, prompt_tokens if cap is None else cap)
        missing = len(key) // page - matched
        if missing:
            room = self._supply.free_pages
            if room < missing:
                evicted = cache.evict(missing - room)
                self._evicted_pages += len(evicted)
                self._supply.give_back(evicted)
                room += len(evicted)
                if room < missing:
                    self._uncached_pages += missing - room
                    missing = room
        if missing:
            pages = handle.pages + self._supply.take(missing)
            stored = cache.insert(key, pages, (matched + missing) * page)
            assert not stored.duplicate_pages
            cache.release(handle)
            handle = stored.handle
        if next_use is not None:
            self._renew(handle.pages, next_use)
        cache.release(handle)
        self._prompt_tokens.append(prompt_tokens)
        self._hit_tokens.append(hit)

    def result(self) -> LookupResult:
        """Add up the halves."""
        half = len(self._prompt_tokens) // 2
        policy = self._policy
        return LookupResult(
            policy=policy if isinstance(policy, str) else policy.name,
            capacity_pages=self._capacity_pages,
            page_size=self._page_size,
            last_token=self._last_token,
            requests=len(self._prompt_tokens),
            prompt_tokens=sum(self._prompt_tokens),
            hit_tokens=sum(self._hit_tokens),
            second_half_prompt_tokens=sum(self._prompt_tokens[half:]),
            second_half_hit_tokens=sum(self._hit_tokens[half:]),
            evicted_pages=self._evicted_pages,
            uncached_pages=self._uncached_pages,
        )

    def _renew(self, pages: PageIds, next_use: array[int]) -> None:
        """Write the next use of each page of a path, which is pinned still."""
        assert isinstance(self._policy, OptimalEviction)
        table = self._policy.next_use
        for page, use in zip(pages, next_use, strict=False):
            if page >= len(table):
                table.extend([_NEVER] * (page + 1 - len(table)))
            table[page] = use


def _cap(request: Request, page_size: int) -> int:
    """Return the usable prefix under the last-token rule and the request's own cap."""
    cap = max(request.prompt_tokens - 1, 0)
    if request.max_match_tokens is not None:
        cap = min(cap, request.max_match_tokens)
    return cap // page_size * page_size


def _next_uses(
    requests: Sequence[Request], page_size: int, last_token: bool
) -> Sequence[array[int]]:
    """Return for each page of each request the index of the next request that can hit it."""
    paths = _number_pages([request.key for request in requests], page_size)
    seen: dict[int, int] = {}
    for index in range(len(requests) - 1, -1, -1):
        path = paths[index]
        usable = len(path)
        if last_token:
            usable = min(usable, _cap(requests[index], page_size) // page_size)
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
