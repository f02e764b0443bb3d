"""Adapter of this project for a side-by-side harness of prefix caches.

The harness calls one method between two clock reads. ``match`` pins at once and ``insert``
pins the inserted path, so ``unlock`` gives both handles back.
"""

from __future__ import annotations

from array import array
from typing import Any

from radixcache import InsertResult, PrefixHandle, PrefixKey, RadixCache

__all__ = ["RadixCacheAdapter"]

_MAX_PAGES = 300_000
_SLOTS = array("i", range(_MAX_PAGES))


class RadixCacheAdapter:
    """radixcache.RadixCache with handles, namespaces and every check of its contract."""

    name = "radixcache"
    pages = (1, 16)
    has_lock = True
    self_evicting = False

    def __init__(self, page: int, capacity: int | None = None) -> None:
        self.page = page
        self.cache = RadixCache(page)
        self.inserted: InsertResult | None = None

    def key(self, arr: Any) -> tuple[PrefixKey, array[int]]:
        return PrefixKey(arr), _SLOTS[: len(arr) // self.page]

    def fullkey(self, prompt_key: Any, arr: Any, n_prompt: int) -> tuple[PrefixKey, array[int]]:
        return self.key(arr)

    def matched(self, handle: PrefixHandle) -> int:
        return handle.prefix_tokens

    def nodes(self) -> int:
        return sum(1 for _ in self.cache._tree.nodes())

    def begin(self, key: Any) -> Any:
        return key

    def match(self, key: tuple[PrefixKey, array[int]]) -> PrefixHandle:
        return self.cache.match(key[0])

    def indices(self, handle: PrefixHandle) -> array[int]:
        return handle.pages

    def lock(self, handle: PrefixHandle) -> PrefixHandle:
        return handle

    def encode(self, key: Any, handle: Any, req: Any) -> Any:
        return key

    def insert(self, key: tuple[PrefixKey, array[int]], handle: Any, req: Any) -> InsertResult:
        self.inserted = inserted = self.cache.insert(key[0], key[1])
        if handle is None:
            # The eviction benchmark builds a tree of unpinned leaves this way.
            self.cache.release(inserted.handle)
        return inserted

    def unlock(self, token: PrefixHandle) -> None:
        assert self.inserted is not None
        self.cache.release(token)
        self.cache.release(self.inserted.handle)

    def evict(self, tokens: int) -> array[int]:
        return self.cache.evict(-(-tokens // self.page))

    def size(self) -> int:
        return self.cache.evictable_size() + self.cache.protected_size()
