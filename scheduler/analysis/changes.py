"""Changes of a what-if: each does one thing to the requests, or to the caches they meet.

A variation is a row of the answer: the edits of its requests in order, and its caches. A change
makes a variation of another one, so changes combine as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from radixcache.errors import ConfigError
from scheduler.analysis.edits import Edit
from scheduler.analysis.pins import Pins
from scheduler.analysis.replicas import ROUTES, Route

__all__ = ["Change", "PageSize", "Pin", "Replicas", "Variation", "variations_of"]

AS_IT_IS = "as it is"
TOGETHER = "all together"
MOST_REPLICAS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One row: what becomes of the requests, and the caches that serve them."""

    label: str
    page_size: int
    edits: tuple[Edit, ...] = ()
    pins: Pins | None = None
    replicas: int = 1
    route: Route | None = None
    """How a request finds its replica; None for one cache."""
    pooled: int = 1
    """How many replicas' memory the one cache has: the bound of so many replicas."""
    parts: tuple[str, ...] = ()
    """The labels of the changes that were combined."""


@dataclass(frozen=True, slots=True)
class PageSize:
    """Pages of so many tokens; a cache has as many as fit into the same tokens.

    Block ids become ids of several blocks: only groups of whole blocks are pages then.
    """

    tokens: int

    @property
    def label(self) -> str:
        """The name of its row."""
        return f"page size {self.tokens}"

    def applied(self, variation: Variation) -> Variation:
        """Return the variation with this change."""
        return replace(variation, page_size=self.tokens)


@dataclass(frozen=True, slots=True)
class Pin:
    """Prefixes that are never evicted, from the first request on that has computed them."""

    pins: Pins

    @property
    def label(self) -> str:
        """The name of its row."""
        return f"pin {self.pins.label}"

    def applied(self, variation: Variation) -> Variation:
        """Return the variation with this change."""
        return replace(variation, pins=self.pins)


@dataclass(frozen=True, slots=True)
class Replicas:
    """So many caches, each with the whole capacity, and a router in front of them."""

    count: int
    route: Route

    def __post_init__(self) -> None:
        """Reject what is no fleet."""
        if not 1 <= self.count <= MOST_REPLICAS or self.route not in ROUTES:
            raise ConfigError(
                f"{self.count} replicas by route {self.route!r}: give 1 to {MOST_REPLICAS}, and "
                f"one of {', '.join(ROUTES)}"
            )

    @property
    def label(self) -> str:
        """The name of its row."""
        return f"{self.count} replicas, {self.route}"

    def applied(self, variation: Variation) -> Variation:
        """Return the variation with this change."""
        return replace(variation, replicas=self.count, route=self.route)


Change: TypeAlias = PageSize | Pin | Replicas | Edit
"""What can be asked about."""


def _applied(change: Change, variation: Variation) -> Variation:
    """Return the variation with one more change."""
    if isinstance(change, PageSize | Pin | Replicas):
        return change.applied(variation)
    return replace(variation, edits=(*variation.edits, change))


def variations_of(
    page_size: int, changes: Sequence[Change], *, together: bool = True
) -> list[Variation]:
    """Return the rows: as it is, each change alone, and with ``together`` all of them at once.

    Of several changes of one kind (page sizes, routes) the first goes into the last row.
    Behind the replicas, and behind all together where those are in it, comes their bound: one
    cache with the memory of all of them.
    """
    base = Variation(label=AS_IT_IS, page_size=page_size)
    rows = [base, *(replace(_applied(change, base), label=change.label) for change in changes)]
    pools = {row.replicas: _pooled(row) for row in rows if row.route is not None}
    rows += pools.values()
    first: dict[type, Change] = {}
    for change in changes:
        first.setdefault(type(change), change)
    if together and len(first) > 1:
        whole = base
        for change in first.values():
            whole = _applied(change, whole)
        parts = tuple(change.label for change in first.values())
        rows.append(replace(whole, label=TOGETHER, parts=parts))
        if whole.route is not None:
            rows.append(_pooled(rows[-1]))
    return rows


def _pooled(row: Variation) -> Variation:
    """Return the bound of a row with replicas."""
    where = f"{row.label}, " if row.label == TOGETHER else ""
    return replace(
        row,
        label=f"{where}one cache of {row.replicas}x",
        replicas=1,
        route=None,
        pooled=row.replicas,
    )
