"""Replicas: several caches and a router that sends each request to one of them.

Routes: ``prefix`` to the longest cached prefix; ``cache-aware`` the same where that is more than
0.3 of the prompt, else to the least loaded; ``session`` where the session's first request went;
``round-robin`` in turn. Least loaded is where the fewest prompt tokens were sent so far, the
first of equals; ties of prefixes and first requests of sessions go there too. The router knows
each cache exactly and at once. Those of servers estimate it, and also look at queues.

Ref: ``cache_aware`` of the SGLang and vLLM routers, whose ``cache-threshold`` is 0.3 (GPUStack
operator documentation, Model Deployment Routing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from radixcache import PrefixKey
from scheduler.lookup_cache import LookupCache
from scheduler.request import Request

__all__ = ["ROUTES", "Fleet", "Route"]

Route = Literal["cache-aware", "prefix", "session", "round-robin"]
ROUTES: tuple[Route, ...] = ("cache-aware", "prefix", "session", "round-robin")
CACHE_THRESHOLD = 0.3
"""Share of a prompt that has to be cached for ``cache-aware`` to go there."""


class Fleet:
    """Caches behind one router; one cache needs no route.

    Cost of a request: its lookup; by prefix also one look into each cache. Memory: the caches,
    and with ``session`` a place a session.
    """

    def __init__(self, caches: Sequence[LookupCache], route: Route | None) -> None:
        self._caches = caches
        self._route = route
        self._homes: dict[str, int] = {}
        self._served = 0
        self.routed_tokens = [0] * len(caches)
        """Prompt tokens that each replica was sent."""
        self.computed_tokens = [0] * len(caches)
        """Prompt tokens that each replica had to compute."""

    @property
    def sessions(self) -> int:
        """Sessions that the route ``session`` has placed."""
        return len(self._homes)

    @property
    def evicted_pages(self) -> int:
        """Pages evicted in all caches."""
        return sum(cache.evicted_pages for cache in self._caches)

    @property
    def uncached_pages(self) -> int:
        """Pages that found no room because their own request's path filled a cache."""
        return sum(cache.uncached_pages for cache in self._caches)

    def serve(self, request: Request, whole: PrefixKey | None) -> int:
        """Route a request, look it up there, and return the hit tokens."""
        place = self._place(request)
        hit = self._caches[place].serve(request, whole)
        self._served += 1
        self.routed_tokens[place] += request.prompt_tokens
        self.computed_tokens[place] += request.prompt_tokens - hit
        return hit

    def _place(self, request: Request) -> int:
        """Return the index of the cache for a request."""
        if self._route == "round-robin":
            return self._served % len(self._caches)
        if self._route == "session":
            if request.session_id is None:
                return self._least_loaded(range(len(self._caches)))
            home = self._homes.get(request.session_id)
            if home is None:
                home = self._least_loaded(range(len(self._caches)))
                self._homes[request.session_id] = home
            return home
        if len(self._caches) == 1:
            return 0
        found = [cache.prefix_tokens(request) for cache in self._caches]
        longest = max(found)
        if self._route == "cache-aware" and longest <= CACHE_THRESHOLD * request.prompt_tokens:
            return self._least_loaded(range(len(self._caches)))
        return self._least_loaded([at for at, tokens in enumerate(found) if tokens == longest])

    def _least_loaded(self, places: Sequence[int]) -> int:
        return min(places, key=self.routed_tokens.__getitem__)
