"""PagePool: hands out page ids, takes them back, and finds a double free."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from radixcache.errors import ConfigError, IntegrityError, OutOfPagesError, PageError
from radixcache.results import PageIds

__all__ = ["PagePool"]


class PagePool:
    """The ids ``0 .. capacity_pages - 1``, each free or in use; the last freed goes out first.

    >>> pool = PagePool(4)
    >>> pages = pool.allocate(3)
    >>> list(pages), pool.free_pages
    ([0, 1, 2], 1)
    >>> pool.free(pages[1:])
    >>> list(pool.allocate(1))
    [1]

    """

    __slots__ = ("_free", "_fresh", "_in_use", "capacity_pages")

    def __init__(self, capacity_pages: int) -> None:
        if type(capacity_pages) is not int or not 0 < capacity_pages < 2**31:
            raise ConfigError(f"capacity_pages is {capacity_pages!r}: give 1 to 2**31 - 1")
        self.capacity_pages = capacity_pages
        # Given back; a stack: its end goes out next.
        self._free = array("i")
        # The first id never handed out: memory follows use, not capacity.
        self._fresh = 0
        self._in_use: set[int] = set()

    @property
    def free_pages(self) -> int:
        """Number of free pages."""
        return len(self._free) + self.capacity_pages - self._fresh

    def allocate(self, num_pages: int) -> PageIds:
        """Hand out ``num_pages`` ids. Cost: O(num_pages).

        Raises:
            OutOfPagesError: fewer are free; nothing was handed out.
            PageError: the number is no int, or negative.

        """
        if type(num_pages) is not int or num_pages < 0:
            raise PageError(f"num_pages is {num_pages!r}: give an int of at least 0")
        if num_pages > self.free_pages:
            raise OutOfPagesError(
                f"{num_pages} pages were asked for and {self.free_pages} of "
                f"{self.capacity_pages} are free: evict or wait"
            )
        if not num_pages:
            return array("i")
        taken = self._free[-num_pages:]
        del self._free[-num_pages:]
        taken.reverse()
        start = self._fresh
        self._fresh += num_pages - len(taken)
        taken.extend(range(start, self._fresh))
        self._in_use.update(taken)
        return taken

    def free(self, pages: Iterable[int]) -> None:
        """Take ids back, all or none. Cost: O(pages).

        Raises:
            PageError: an id is not in use, or given twice.

        """
        given = list(pages)
        ids = set(given)
        if len(ids) != len(given) or not ids <= self._in_use:
            wrong = sorted(ids - self._in_use)[:8]
            reason = f"pages {wrong} are not in use" if wrong else "a page was given twice"
            raise PageError(f"{reason} among {given[:16]}: free each page once")
        self._in_use -= ids
        given.reverse()
        self._free.extend(given)

    def in_use(self) -> frozenset[int]:
        """Return the ids that are handed out. Cost: O(pages in use)."""
        return frozenset(self._in_use)

    def check(self) -> None:
        """Verify that each id is free or in use, exactly once. Cost: O(ids ever handed out).

        Raises:
            IntegrityError: it is not so.

        """
        free = set(self._free)
        whole = free.isdisjoint(self._in_use) and free | self._in_use == set(range(self._fresh))
        if not whole or len(free) != len(self._free) or self._fresh > self.capacity_pages:
            raise IntegrityError(
                f"{len(self._free)} free and {len(self._in_use)} used ids are not the "
                f"{self._fresh} that were ever handed out of {self.capacity_pages}"
            )
