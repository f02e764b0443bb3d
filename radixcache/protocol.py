"""PrefixCache: the contract every cache keeps; ResidencyObserver: who is told of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from radixcache.key import KeyKind, Namespace, PrefixKey
from radixcache.results import CacheSize, Dropped, InsertResult, PageIds, Peek, PrefixHandle

__all__ = ["PrefixCache", "ResidencyObserver"]


class ResidencyObserver(Protocol):
    """Told of every change of what is cached, after the change.

    ``key_bytes`` holds the packed units of the key from its start to at least
    ``stop_tokens``. One call covers one contiguous span; parents are stored before and
    removed after their children. A split, a match and a peek tell nothing. An observer
    neither calls the cache nor raises: if it does raise, the call is carried out whole, the
    others are told, and ObserverError brings what would have been returned.
    """

    def on_stored(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """The pages of ``[start_tokens, stop_tokens)`` are cached now."""
        ...

    def on_removed(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """The pages of ``[start_tokens, stop_tokens)`` are cached no longer."""
        ...

    def on_cleared(self, namespace: Namespace | None) -> None:
        """Nothing of ``namespace`` (None: of any) is cached any longer."""
        ...


class PrefixCache(Protocol):
    """Finds, keeps and gives up the KV pages of prompt prefixes.

    Only whole pages are cached: every length in and out is floored to ``page_size``; a key
    shorter than a page matches 0 and is no error. A wrong argument raises and changes
    nothing. The cache never frees a page: it returns ids, and at all times
    free + evictable + protected + held by requests is the pool, by page id.

    h is the number of nodes on one path, n the key's length.
    """

    page_size: int
    """Tokens of a page."""
    kind: KeyKind
    """The kind of keys it holds."""

    @property
    def size(self) -> CacheSize:
        """Cached pages, evictable and protected. Cost: O(1)."""
        ...

    @property
    def generation(self) -> int:
        """Number of resets done so far."""
        ...

    def peek(self, key: PrefixKey, limit_tokens: int | None = None) -> Peek:
        """Measure the longest cached prefix of at most ``limit_tokens``; change nothing.

        Valid until the next call that changes the cache. Cost: O(h) and one memory
        comparison of the prefix.

        Raises:
            KeyKindError: a key of another kind than the cache holds.
            InvalidInputError: a negative limit.

        """
        ...

    def match(self, key: PrefixKey, limit_tokens: int | None = None) -> PrefixHandle:
        """Pin the longest cached prefix, touch it, and count one hit on it.

        Release the handle when its pages are no longer read. Cost and raises as ``peek``.
        """
        ...

    def release(self, handle: PrefixHandle) -> None:
        """Give one pin back; a second call, or one after a reset, does nothing.

        Cost: O(h), O(log leaves) when the path becomes evictable.

        Raises:
            HandleError: the handle was made by another cache.

        """
        ...

    def insert(
        self,
        key: PrefixKey,
        pages: Sequence[int],
        limit_tokens: int | None = None,
        priority: int = 0,
    ) -> InsertResult:
        """Cache the whole pages of ``key``, touch the path and pin it.

        ``pages`` names every full page of the key from its start, the matched ones too.
        The cache adopts the pages it lacks. The caller takes ``handle.pages`` as its table
        and frees ``duplicate_pages``; then it releases its older handle. Pages beyond
        ``cached_tokens`` stay its own. ``priority`` raises the path's priority and never
        lowers it. No hit is counted. An id must not be held by the cache twice, which costs
        too much to look for here: ``check`` finds it.

        Raises:
            PageError: too few pages, or ids that are no non-negative 32-bit ints.
            KeyKindError, InvalidInputError: as ``peek``.

        """
        ...

    def evict(self, num_pages: int) -> PageIds:
        """Give up min(``num_pages``, evictable) unpinned pages and return their ids.

        Leaves go in the policy's order, each from its tail, page by page; a parent is a
        candidate as soon as its last child is gone. Cost: O(log leaves) a leaf, amortised.

        Raises:
            InvalidInputError: a negative number.

        """
        ...

    def reset(self, force: bool = False) -> Dropped:
        """Drop everything; refuse while something is pinned, unless forced.

        After a forced reset the pinned pages come back apart, and handles made before it
        release to nothing. Cost: O(nodes).
        """
        ...

    def drop_namespace(self, namespace: Namespace) -> Dropped:
        """Drop one namespace; refuse while something in it is pinned. Cost: O(its nodes)."""
        ...

    def add_observer(self, observer: ResidencyObserver) -> None:
        """Tell ``observer`` of every change from now on."""
        ...

    def remove_observer(self, observer: ResidencyObserver) -> None:
        """Tell ``observer`` no longer.

        Raises:
            InvalidInputError: it was not told before.

        """
        ...

    def check(self) -> None:
        """Walk everything and verify every invariant. Cost: O(cached tokens).

        Raises:
            IntegrityError: one is broken, and where.

        """
        ...
