"""What a case needs: a cache and a pool, driven as a scheduler would, checked each time."""

from __future__ import annotations

from collections import Counter

from radixcache import Namespace, PagePool, PrefixHandle, PrefixKey, RadixCache


class Driver:
    """Finished requests, pins and evictions in a few words; pages are conserved by id."""

    def __init__(self, page_size: int, *, capacity_pages: int = 64, policy: str = "lru") -> None:
        self.cache = RadixCache(page_size, policy=policy)
        self.pool = PagePool(capacity_pages)

    def check(self) -> None:
        self.cache.check()
        self.pool.check()
        held = Counter(page for node in self.cache._tree.nodes() for page in node.pages)
        assert held.keys() <= self.pool.in_use()

    def insert(self, *tokens: int, space: Namespace | None = None) -> int:
        """A finished request: it matched, computed the rest, and hands all over."""
        key = PrefixKey(tokens, space or Namespace.of())
        hit = self.cache.match_prefix(key)
        row = hit.pages + self.pool.allocate(
            -(-len(tokens) // self.cache.page_size) - len(hit.pages)
        )
        result = self.cache.insert(key, row)
        self.pool.free(result.duplicate_pages)
        self.pool.free(row[result.cached_tokens // self.cache.page_size :])
        self.cache.release(result.handle)
        self.check()
        return result.cached_tokens

    def matched(self, *tokens: int, space: Namespace | None = None) -> int:
        found = self.cache.match_prefix(PrefixKey(tokens, space or Namespace.of()))
        self.check()
        return found.prefix_tokens

    def lock(self, *tokens: int) -> PrefixHandle:
        handle = self.cache.match(PrefixKey(tokens))
        self.check()
        return handle

    def unlock(self, handle: PrefixHandle) -> None:
        self.cache.release(handle)
        self.check()

    def use(self, *tokens: int) -> None:
        self.unlock(self.lock(*tokens))

    def evict(self, num_pages: int) -> int:
        gone = self.cache.evict(num_pages)
        self.pool.free(gone)
        self.check()
        return len(gone)
