"""NullCache: never hits. The baseline without reuse, behind the same contract."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from radixcache.arguments import (
    check_count,
    check_priority,
    check_shape,
    foreign_handle,
    page_table,
    usable_units,
    wrong_kind,
)
from radixcache.key import KeyKind, Namespace, PrefixKey, checked
from radixcache.observers import Observers
from radixcache.protocol import ResidencyObserver
from radixcache.results import CacheSize, Dropped, InsertResult, PageIds, Peek, PrefixHandle

__all__ = ["NullCache"]


class NullCache:
    """A prefix cache that keeps nothing: every page stays the caller's.

    It refuses the same wrong arguments as ``RadixCache``. Cost: O(1) for every call, but
    ``insert`` reads the page ids.
    """

    __slots__ = ("_generation", "_layout", "_observers", "kind", "page_size")

    def __init__(self, page_size: int, *, kind: KeyKind = KeyKind.TOKENS) -> None:
        check_shape(page_size, kind)
        self.page_size = page_size
        self.kind = kind
        self._layout = kind.layout(page_size)
        self._generation = 0
        self._observers = Observers()

    @property
    def size(self) -> CacheSize:
        """Return no pages."""
        return CacheSize(0, 0)

    @property
    def generation(self) -> int:
        """Number of resets done so far."""
        return self._generation

    def peek(self, key: PrefixKey, limit_tokens: int | None = None) -> Peek:
        """Return nothing found."""
        self._usable_pages(key, limit_tokens)
        return Peek(0, 0)

    def match(self, key: PrefixKey, limit_tokens: int | None = None) -> PrefixHandle:
        """Return a handle of no tokens."""
        self._usable_pages(key, limit_tokens)
        return PrefixHandle(self, None, 0, self._generation, key.namespace)

    def release(self, handle: PrefixHandle) -> None:
        """Mark the handle released."""
        if getattr(handle, "_owner", None) is not self:
            raise foreign_handle(handle)
        handle._released = True

    def insert(
        self,
        key: PrefixKey,
        pages: Sequence[int],
        limit_tokens: int | None = None,
        priority: int = 0,
    ) -> InsertResult:
        """Keep nothing: 0 tokens are cached, no page is a duplicate."""
        page_table(pages, self._usable_pages(key, limit_tokens))
        check_priority(priority)
        return InsertResult(
            0, array("i"), PrefixHandle(self, None, 0, self._generation, key.namespace)
        )

    def evict(self, num_pages: int) -> PageIds:
        """Return no pages."""
        check_count(num_pages)
        return array("i")

    def reset(self, force: bool = False) -> Dropped:
        """Start a new generation; nothing is ever pinned, so it is always done."""
        self._generation += 1
        dropped = Dropped(True, array("i"), array("i"))
        self._observers.cleared(None, dropped)
        return dropped

    def drop_namespace(self, namespace: Namespace) -> Dropped:
        """Return that it is done: there was nothing."""
        dropped = Dropped(True, array("i"), array("i"))
        self._observers.cleared(checked(namespace), dropped)
        return dropped

    def add_observer(self, observer: ResidencyObserver) -> None:
        """Tell ``observer`` of resets; nothing is ever stored."""
        self._observers.add(observer)

    def remove_observer(self, observer: ResidencyObserver) -> None:
        """Tell ``observer`` no longer."""
        self._observers.remove(observer)

    def check(self) -> None:
        """Verify nothing: there is nothing that could be wrong."""

    def pages_of(self, node: Any) -> PageIds:
        """Return no pages."""
        return array("i")

    def _usable_pages(self, key: PrefixKey, limit_tokens: int | None) -> int:
        if not isinstance(key, PrefixKey) or key.layout != self._layout:
            raise wrong_kind(key, self.kind, self.page_size)
        pages = len(key) // self.page_size
        if limit_tokens is None:
            return pages
        return min(pages, usable_units(limit_tokens, self.page_size))
