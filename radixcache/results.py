"""What crosses the cache contract: handles, sizes and small result tuples."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple, Protocol, TypeAlias

from radixcache.errors import HandleError
from radixcache.key import Namespace

__all__ = [
    "CacheSize",
    "Dropped",
    "HandleOwner",
    "InsertResult",
    "PageIds",
    "Peek",
    "PrefixHandle",
]

PageIds: TypeAlias = "array[int]"
"""Page ids in an ``array('i')``."""


class HandleOwner(Protocol):
    """What a handle needs of the cache that made it."""

    @property
    def generation(self) -> int:
        """Number of resets done so far."""
        ...

    def pages_of(self, node: Any) -> PageIds:
        """Return the page ids of the pinned path that ends at ``node``."""
        ...


class PrefixHandle:
    """A pin on one cached path; keep it as long as its pages are read, then release it.

    Made by ``match`` and ``insert`` only. A handle of no tokens pins nothing.
    """

    __slots__ = (
        "_node",
        "_owner",
        "_pages",
        "_released",
        "generation",
        "namespace",
        "prefix_tokens",
    )

    def __init__(
        self,
        owner: HandleOwner,
        node: Any,
        prefix_tokens: int,
        generation: int,
        namespace: Namespace,
    ) -> None:
        self._owner = owner
        self._node = node
        self._pages: PageIds | None = None
        self._released = False
        self.prefix_tokens = prefix_tokens
        """Tokens of the pinned path."""
        self.generation = generation
        """Number of resets of its cache when it was made."""
        self.namespace = namespace

    @property
    def released(self) -> bool:
        """Whether the handle was given back."""
        return self._released

    @property
    def pages(self) -> PageIds:
        """The page ids of the path from its start; do not change the array.

        Cost: O(pages) at the first look, O(1) afterwards.

        Raises:
            HandleError: the handle was released, or its cache was reset by force.

        """
        if self._released:
            raise HandleError("this handle was released: read its pages before that")
        if self.generation != self._owner.generation:
            raise HandleError("the cache was reset since this handle was made: match again")
        if self._pages is None:
            self._pages = self._owner.pages_of(self._node) if self._node else array("i")
        return self._pages

    def __repr__(self) -> str:
        state = "released" if self._released else "pinned"
        return f"PrefixHandle({self.prefix_tokens} tokens, {state})"


class Peek(NamedTuple):
    """The longest cached prefix of a key, measured without any effect."""

    prefix_tokens: int
    unpinned_pages: int
    """Pages of that prefix that a pin would move from evictable to protected."""


class InsertResult(NamedTuple):
    """What became of the pages given to ``insert``."""

    cached_tokens: int
    """Tokens of the key that the cache holds now; pages beyond stay the caller's."""
    duplicate_pages: PageIds
    """Given pages where the cache holds another id: the caller's to free."""
    handle: PrefixHandle
    """Pins the whole inserted path."""


class CacheSize(NamedTuple):
    """Cached pages without and with a pin at or below them."""

    evictable_pages: int
    protected_pages: int

    @property
    def total_pages(self) -> int:
        """All cached pages."""
        return self.evictable_pages + self.protected_pages


class Dropped(NamedTuple):
    """What a reset or a dropped namespace gave back."""

    done: bool
    """False: something is pinned, and nothing was changed."""
    pages: PageIds
    """Pages nobody pins: free them now."""
    pinned_pages: PageIds
    """Forced reset: pages of live handles, to be freed when their requests end."""
