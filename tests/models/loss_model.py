"""Where the tokens of a prompt went, the slow and obvious way: every cached page in a set."""

from __future__ import annotations

from radixcache import Namespace, PrefixKey
from scheduler.lookup_cache import LookupCache
from scheduler.optimal import computed_key
from scheduler.request import Request

Prefix = tuple[Namespace, tuple[int, ...]]


class CachedPages:
    """The prefix of each cached page, by watching a cache."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.held: set[Prefix] = set()

    def prefixes(self, namespace: Namespace, data: bytes, start: int, stop: int) -> set[Prefix]:
        tokens = tuple(memoryview(data).cast("I").tolist())
        page = self.page_size
        return {(namespace, tokens[:end]) for end in range(start + page, stop + 1, page)}

    def on_stored(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        self.held |= self.prefixes(namespace, data, start, stop)

    def on_removed(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        self.held -= self.prefixes(namespace, data, start, stop)

    def on_cleared(self, namespace: Namespace | None) -> None:
        self.held = {one for one in self.held if namespace not in {None, one[0]}}

    def common_tokens(self, key: PrefixKey) -> int:
        """Compare with every cached page."""
        tokens = key.tokens()
        best = 0
        for namespace, prefix in self.held:
            if namespace == key.namespace:
                same = 0
                while same < min(len(prefix), len(tokens)) and prefix[same] == tokens[same]:
                    same += 1
                best = max(best, same)
        return best


def losses(
    requests: list[Request], page: int, capacity: int | None
) -> list[tuple[int, int, int, int, int, int]]:
    """Return hit, last token, alignment, in flight, evicted and compulsory of each request."""
    cached = CachedPages(page)
    cache = LookupCache(page, capacity_pages=capacity, last_token=True, observer=cached)
    ever: set[Prefix] = set()
    found = []
    for request in requests:
        n, tokens = request.prompt_tokens, tuple(request.key.tokens())
        m = cached.common_tokens(request.key)
        whole = m // page * page
        limit = n - 1 if request.max_match_tokens is None else min(n - 1, request.max_match_tokens)
        hit = min(whole, limit // page * page)
        seen = 0
        while seen + page <= n and (request.key.namespace, tokens[: seen + page]) in ever:
            seen += page
        evicted = max(0, seen - m)
        found.append((hit, whole - hit, m - whole, 0, evicted, n - m - evicted))
        left = computed_key(request)
        cache.serve(request, left)
        kept = (left or request.key).tokens()
        for end in range(page, len(kept) + 1, page):
            ever.add((request.key.namespace, tuple(kept[:end])))
    return found
