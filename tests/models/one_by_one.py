"""Serve prompts one at a time through a real cache and pool; count what was computed."""

from __future__ import annotations

from collections.abc import Sequence

from radixcache import EvictionPolicy, PagePool, PrefixKey, RadixCache
from tests.models.optimal_model import Ask

__all__ = ["OneByOne", "Shuffled", "pages_of"]


class Shuffled(EvictionPolicy):
    """Evict in an order that has nothing to do with use, one page at a time."""

    name = "shuffled"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def rank(self, node: object) -> int:
        mixed = node.id * 7919 + len(node.pages) * 104_729 + self._seed  # type: ignore[attr-defined]
        return mixed * 2_654_435_761 % 2**32

    def shared_tail_pages(self, node: object) -> int:
        del node
        return 1


def pages_of(ask: Ask, page: int) -> int:
    return -(-len(ask.prompt) // page)


class OneByOne:
    """A cache that serves one request at a time, the match pinned before anything goes."""

    def __init__(self, page: int, capacity: int, policy: str | EvictionPolicy = "lru") -> None:
        self.page = page
        self.cache = RadixCache(page, policy=policy)
        self.pool = PagePool(capacity)

    def matched(self, ask: Ask) -> int:
        return self.cache.peek(PrefixKey(ask.prompt), ask.cap(self.page)).prefix_tokens

    def warm(self, tokens: Sequence[int]) -> None:
        self.serve(Ask(tuple(tokens)))

    def serve(self, ask: Ask, *, keep_output: bool = False) -> int:
        """Return the prompt tokens that had to be computed."""
        page, cache, pool = self.page, self.cache, self.pool
        computed = ask.computed() if keep_output else ask.prompt
        key = PrefixKey(computed)
        handle = cache.match(key, ask.cap(page))
        row = handle.pages[:]
        need = -(-len(computed) // page) - len(row)
        pool.free(cache.evict(max(0, need - pool.free_pages)))
        row += pool.allocate(need)
        full = len(computed) // page
        stored = cache.insert(key, row[:full])
        pool.free(stored.duplicate_pages)
        pool.free(row[full:])
        hit = handle.prefix_tokens
        cache.release(handle)
        cache.release(stored.handle)
        assert pool.free_pages + cache.size.total_pages == pool.capacity_pages
        return len(ask.prompt) - hit

    def serve_longest_match_first(self, asks: Sequence[Ask]) -> int:
        """Serve all, re-matched before each pick; fewest uncached tokens, then arrival, on ties."""
        waiting = list(enumerate(asks))
        computed = 0
        while waiting:
            best = min(
                waiting,
                key=lambda each: (
                    -self.matched(each[1]),
                    len(each[1].prompt) - self.matched(each[1]),
                    each[0],
                ),
            )
            waiting.remove(best)
            computed += self.serve(best[1])
        return computed
