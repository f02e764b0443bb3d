"""PageLedger: free, cached, promised and not yet returnable pages of one pool."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Protocol

from radixcache import PageIds, PrefixCache, PrefixHandle
from scheduler.admission import Supply

__all__ = ["PageLedger", "Pool"]


class Pool(Protocol):
    """What the scheduler needs of a page pool."""

    @property
    def capacity_pages(self) -> int:
        """All pages."""
        ...

    @property
    def free_pages(self) -> int:
        """Pages nobody has."""
        ...

    def allocate(self, num_pages: int) -> PageIds:
        """Hand out pages, or raise OutOfPagesError."""
        ...

    def free(self, pages: Iterable[int]) -> None:
        """Take pages back."""
        ...


class PageLedger:
    """Hands out pages, evicting only the shortfall, and takes them back when it is safe.

    A page that a batch in flight may still read or write is *deferred*: it returns to the
    pool, or its pin to the cache, when the last such batch completes.
    """

    __slots__ = (
        "_deferred_handles",
        "_deferred_pages",
        "cache",
        "completed_id",
        "evicted_pages",
        "pool",
        "publications",
        "reserved_pages",
    )

    def __init__(self, cache: PrefixCache, pool: Pool) -> None:
        self.cache = cache
        self.pool = pool
        self.reserved_pages = 0
        """Promised to running requests and not allocated yet."""
        self.evicted_pages = 0
        self.publications = 0
        """Inserts into the cache so far; each may pin pages that nobody pinned."""
        self.completed_id = -1
        """The last batch that completed."""
        self._deferred_pages: dict[int, PageIds] = {}
        self._deferred_handles: dict[int, list[PrefixHandle]] = {}

    @property
    def supply(self) -> Supply:
        """Where pages can come from now."""
        return Supply(self.pool.free_pages, self.cache.size.evictable_pages, self.reserved_pages)

    @property
    def obtainable_pages(self) -> int:
        """Pages that can be allocated now, whoever they are promised to."""
        return self.pool.free_pages + self.cache.size.evictable_pages

    @property
    def anything_deferred(self) -> bool:
        """Whether pages or pins return when a batch in flight completes."""
        return bool(self._deferred_pages or self._deferred_handles)

    def can_take(self, promised: int, extra: int) -> bool:
        """Whether pages can be had: ``promised`` ones of the taker, ``extra`` beyond."""
        obtainable = self.obtainable_pages
        if promised + extra > obtainable:
            return False
        return not extra or extra <= obtainable - self.reserved_pages

    def take(self, num_pages: int, promised: int) -> PageIds:
        """Allocate, evicting the shortfall; ``promised`` of the pages were reserved.

        The caller asked ``can_take``. Cost: O(pages) and the eviction.
        """
        short = num_pages - self.pool.free_pages
        if short > 0:
            gone = self.cache.evict(short)
            self.evicted_pages += len(gone)
            self.pool.free(gone)
        self.reserved_pages -= promised
        assert self.reserved_pages >= 0
        return self.pool.allocate(num_pages)

    def give_back(self, pages: PageIds, last_batch_id: int) -> None:
        """Free pages once the batch ``last_batch_id`` has completed."""
        if not pages:
            return
        if last_batch_id <= self.completed_id:
            self.pool.free(pages)
        else:
            self._deferred_pages.setdefault(last_batch_id, array("i")).extend(pages)

    def unpin(self, handle: PrefixHandle, last_batch_id: int) -> None:
        """Release a pin once the batch ``last_batch_id`` has completed."""
        if last_batch_id <= self.completed_id:
            self.cache.release(handle)
        else:
            self._deferred_handles.setdefault(last_batch_id, []).append(handle)

    def settle(self, batch_id: int) -> None:
        """Note that a batch has completed: return what waited for it."""
        self.completed_id = batch_id
        pages = self._deferred_pages.pop(batch_id, None)
        if pages is not None:
            self.pool.free(pages)
        for handle in self._deferred_handles.pop(batch_id, ()):
            self.cache.release(handle)

    def deferred(self) -> PageIds:
        """Return the ids of all deferred pages."""
        out = array("i")
        for pages in self._deferred_pages.values():
            out.extend(pages)
        return out
