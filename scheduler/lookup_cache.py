"""LookupCache: a cache that is asked in arrival order and owns its pages; with prefixes that stay.

It serves a whole request at once: what a cache simulator does, without a queue or time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from radixcache import (
    EvictionPolicy,
    Namespace,
    PageIds,
    PrefixHandle,
    PrefixKey,
    RadixCache,
    ResidencyObserver,
)
from radixcache.errors import ConfigError
from scheduler.request import Request

__all__ = [
    "HitCounts",
    "LookupCache",
    "distinct_pages",
    "last_token_cap",
    "usable_tokens",
    "whole_pages",
]

_UNBOUNDED = 2**62


class HitCounts:
    """Prompt and hit tokens of the requests of a replay, in the order they were served.

    Memory: 16 bytes a request.
    """

    __slots__ = ("_hit", "_prompt")

    def __init__(self) -> None:
        self._prompt = array("q")
        self._hit = array("q")

    def __len__(self) -> int:
        return len(self._prompt)

    def add(self, prompt_tokens: int, hit_tokens: int) -> None:
        """Note one request."""
        self._prompt.append(prompt_tokens)
        self._hit.append(hit_tokens)

    def prompt_tokens(self, *, second_half: bool = False) -> int:
        """Return the sum over all requests, or over the last 50 % of them."""
        return sum(self._prompt[len(self) // 2 :] if second_half else self._prompt)

    def hit_tokens(self, *, second_half: bool = False) -> int:
        """Return the sum over all requests, or over the last 50 % of them."""
        return sum(self._hit[len(self) // 2 :] if second_half else self._hit)


class _PageSupply:
    """Page ids from 0 on, returned ones first."""

    __slots__ = ("_limit", "_next", "_spare")

    def __init__(self, capacity_pages: int | None) -> None:
        self._limit = _UNBOUNDED if capacity_pages is None else capacity_pages
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


class LookupCache:
    """One cache of a lookup replay, asked for one request after the other.

    ``pins`` are prefixes that are never evicted: a page of them stays from the moment that
    the first request has computed it. They must fit, see ``distinct_pages``. ``observer`` is
    told what the cache takes and gives up.

    Raises: ConfigError for a capacity below one page, or below the pages of the pins.
    """

    def __init__(
        self,
        page_size: int,
        *,
        capacity_pages: int | None = None,
        policy: str | EvictionPolicy = "lru",
        last_token: bool = False,
        pins: Sequence[PrefixKey] = (),
        observer: ResidencyObserver | None = None,
    ) -> None:
        if capacity_pages is not None:
            if capacity_pages < 1:
                raise ConfigError(
                    f"capacity_pages is {capacity_pages}: give at least 1 page, or None"
                )
            pinned = distinct_pages(pins, page_size)
            if pinned > capacity_pages:
                raise ConfigError(
                    f"the pinned prefixes take {pinned:,} pages and the cache has "
                    f"{capacity_pages:,}: pin less, or give more capacity"
                )
        self._page_size = page_size
        self._policy = policy
        self._last_token = last_token
        self._supply = _PageSupply(capacity_pages)
        self._cache: RadixCache | None = None
        self._observer = observer
        self._pins: dict[Namespace, list[_Pin]] = {}
        for key in pins:
            self._pins.setdefault(key.namespace, []).append(_Pin(key))
        self.evicted_pages = 0
        self.uncached_pages = 0
        """Pages that found no room because their own request's path filled the cache."""

    def prefix_tokens(self, request: Request) -> int:
        """Return what the request would hit now; changes nothing."""
        if self._cache is None:
            return 0
        found = self._cache.peek(request.key).prefix_tokens
        return min(found, usable_tokens(request, self._page_size, self._last_token))

    def serve(
        self,
        request: Request,
        whole: PrefixKey | None = None,
        renew: Callable[[PageIds], None] | None = None,
    ) -> int:
        """Match, make room, cache, let go; return the hit tokens.

        ``whole`` is the key of prompt and output where the output is cached too. ``renew``
        is called with the pages of its path while they are pinned.
        """
        page, key = self._page_size, request.key if whole is None else whole
        cache = self._cache
        if cache is None:
            cache = self._cache = RadixCache(page, kind=key.kind, policy=self._policy)
            if self._observer is not None:
                cache.add_observer(self._observer)
        handle = cache.match(key)
        matched = handle.prefix_tokens // page
        hit = min(handle.prefix_tokens, usable_tokens(request, page, self._last_token))
        missing = len(key) // page - matched
        if missing:
            missing = self._make_room(cache, missing)
        if missing:
            pages = handle.pages + self._supply.take(missing)
            stored = cache.insert(key, pages, (matched + missing) * page)
            assert not stored.duplicate_pages
            cache.release(handle)
            handle = stored.handle
        if renew is not None:
            renew(handle.pages)
        if self._pins:
            self._pin(cache, key, handle)
        cache.release(handle)
        return hit

    def _make_room(self, cache: RadixCache, missing: int) -> int:
        """Evict what is too little; return how many of the missing pages fit now."""
        room = self._supply.free_pages
        if room >= missing:
            return missing
        evicted = cache.evict(missing - room)
        self.evicted_pages += len(evicted)
        self._supply.give_back(evicted)
        room += len(evicted)
        if room >= missing:
            return missing
        self.uncached_pages += missing - room
        return room

    def _pin(self, cache: RadixCache, key: PrefixKey, stored: PrefixHandle) -> None:
        """Pin as much as a cached path has of the prefixes to be pinned."""
        waiting = self._pins.get(key.namespace)
        if not waiting:
            return
        page = self._page_size
        for pin in waiting:
            shared = min(key.common_prefix_tokens(pin.key, page), stored.prefix_tokens)
            if shared <= pin.held_tokens:
                continue
            longer = cache.insert(pin.key, stored.pages[: shared // page], shared)
            if pin.handle is not None:
                cache.release(pin.handle)
            pin.handle, pin.held_tokens = longer.handle, shared
        waiting[:] = [pin for pin in waiting if pin.held_tokens < len(pin.key) // page * page]


class _Pin:
    """A prefix that stays, and how much of it is cached."""

    __slots__ = ("handle", "held_tokens", "key")

    def __init__(self, key: PrefixKey) -> None:
        self.key = key
        self.held_tokens = 0
        self.handle: PrefixHandle | None = None


def distinct_pages(keys: Sequence[PrefixKey], page_size: int) -> int:
    """Return how many pages hold the whole pages of all keys, shared ones once.

    Cost: O(keys squared).
    """
    pages = 0
    for index, key in enumerate(keys):
        shared = 0
        for earlier in keys[:index]:
            if earlier.namespace == key.namespace:
                shared = max(shared, key.common_prefix_tokens(earlier, page_size))
        pages += len(key) // page_size - shared // page_size
    return pages


def whole_pages(capacity_tokens: int, page_size: int) -> int:
    """Return the whole pages of a capacity. Raises: ConfigError for less than one."""
    if capacity_tokens < page_size:
        raise ConfigError(
            f"capacity is {capacity_tokens} tokens, less than a page of {page_size}: give more"
        )
    return capacity_tokens // page_size


def usable_tokens(request: Request, page_size: int, last_token: bool) -> int:
    """Return the longest prefix that the request may hit."""
    if last_token:
        return min(last_token_cap(request, page_size), len(request.key) // page_size * page_size)
    return min(request.prompt_tokens, len(request.key) // page_size * page_size)


def last_token_cap(request: Request, page_size: int) -> int:
    """Return the usable prefix under the last-token rule and the request's own cap."""
    cap = max(request.prompt_tokens - 1, 0)
    if request.max_match_tokens is not None:
        cap = min(cap, max(request.max_match_tokens, 0))
    return cap // page_size * page_size
