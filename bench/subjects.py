"""What is measured side by side: one small adapter for each prefix cache.

Everything between two clock reads is one call of an adapter. Keys are made beforehand in each
cache's own form, since an engine makes them once a request; where a cache hashes per request,
``begin`` does it and is measured.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Any, ClassVar

from radixcache import Namespace, PrefixCache, PrefixKey, RadixCache

__all__ = ["ContractSubject", "Observed", "Ours", "Subject", "contract_subject"]

_MOST_PAGES = 300_000
_SLOTS = array("i", range(_MOST_PAGES))


class Subject:
    """A prefix cache with an engine's calls around it."""

    name: ClassVar[str] = "?"
    clock: ClassVar[Callable[[], float]] = time.thread_time
    has_loop: ClassVar[bool] = True
    """Whether it owns slots and evicts: without that there is no whole request."""
    pages: ClassVar[tuple[int, ...]] = (1, 16)
    has_lock: ClassVar[bool] = True
    self_evicting: ClassVar[bool] = False

    def __init__(self, page_size: int, capacity_tokens: int | None = None) -> None:
        raise NotImplementedError

    def key(self, tokens: Any) -> Any:
        """Return a prompt in the cache's own form. Not measured."""
        raise NotImplementedError

    def fullkey(self, prompt_key: Any, tokens: Any, prompt_tokens: int) -> Any:
        """Return prompt and output in the cache's own form. Not measured."""
        return self.key(tokens)

    def begin(self, key: Any) -> Any:
        """Take a request in: hash it, if the cache works on hashes."""
        return key

    def match(self, request: Any) -> Any:
        """Find the longest cached prefix."""
        raise NotImplementedError

    def matched(self, handle: Any) -> int:
        """Return its length. Not measured."""
        raise NotImplementedError

    def lock(self, handle: Any) -> Any:
        """Pin what was found."""
        return handle

    def encode(self, full: Any, handle: Any, request: Any) -> Any:
        """Make what ``insert`` takes of the finished request."""
        return full

    def insert(self, full: Any, handle: Any, request: Any) -> Any:
        """Cache prompt and output."""
        raise NotImplementedError

    def unlock(self, token: Any) -> None:
        """Give the pin back."""

    def evict(self, tokens: int) -> Any:
        """Make room for tokens."""

    def size(self) -> int:
        """Return the cached tokens."""
        return 0


class ContractSubject(Subject):
    """Any cache that keeps this project's contract, with handles and every check of it."""

    namespace: ClassVar[Namespace] = Namespace()

    def __init__(self, page_size: int, capacity_tokens: int | None = None) -> None:
        self.page = page_size
        self.cache = self.make(page_size)
        self._inserted: Any = None

    def make(self, page_size: int) -> PrefixCache:
        """Return a new cache."""
        raise NotImplementedError

    def key(self, tokens: Any) -> tuple[PrefixKey, array[int]]:
        return PrefixKey(tokens, self.namespace), _SLOTS[: len(tokens) // self.page]

    def match(self, request: Any) -> Any:
        return self.cache.match(request[0])

    def matched(self, handle: Any) -> int:
        return int(handle.prefix_tokens)

    def indices(self, handle: Any) -> Any:
        return handle.pages

    def insert(self, full: Any, handle: Any, request: Any) -> Any:
        self._inserted = inserted = self.cache.insert(full[0], full[1])
        if handle is None:
            # Nothing was matched before: leave an unpinned leaf.
            self.cache.release(inserted.handle)
        return inserted

    def unlock(self, token: Any) -> None:
        self.cache.release(token)
        self.cache.release(self._inserted.handle)

    def evict(self, tokens: int) -> Any:
        return self.cache.evict(-(-tokens // self.page))

    def size(self) -> int:
        return self.cache.size.total_pages * self.page

    def nodes(self) -> int | None:
        tree = getattr(self.cache, "_tree", None)
        return None if tree is None else sum(1 for _ in tree.nodes())


class Ours(ContractSubject):
    """radixcache.RadixCache."""

    name = "radixcache"
    cache: RadixCache

    def make(self, page_size: int) -> PrefixCache:
        return RadixCache(page_size)

    def size(self) -> int:
        return self.cache.evictable_size() + self.cache.protected_size()


class _Nobody:
    """Hears every event and does nothing."""

    def on_stored(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        pass

    def on_removed(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        pass

    def on_cleared(self, namespace: Namespace | None) -> None:
        pass


class Observed(Ours):
    """The same in a namespace of its own, its events told to an observer."""

    name = "radixcache, observed"
    namespace = Namespace("tenant", ("adapter", 3), "salt")

    def make(self, page_size: int) -> PrefixCache:
        cache = RadixCache(page_size)
        cache.add_observer(_Nobody())
        return cache


def contract_subject(name: str, factory: Callable[[int], PrefixCache]) -> type[ContractSubject]:
    """Return a subject for any cache with the contract; ``factory`` takes a page size."""
    return type(
        "Given", (ContractSubject,), {"name": name, "make": lambda _, page_size: factory(page_size)}
    )
