"""A slow, obvious prefix cache: one record a page, everything found by scanning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from radixcache import Namespace

Tokens = tuple[int, ...]


@dataclass
class Page:
    page_id: int
    created: int
    tick: int
    priority: int
    hits: int = 0


RANKS: dict[str, Callable[[Page], Any]] = {
    "lru": lambda page: page.tick,
    "lfu": lambda page: (page.hits, page.tick),
    "fifo": lambda page: page.created,
    "filo": lambda page: -page.created,
    "mru": lambda page: -page.tick,
    "slru": lambda page: (page.hits >= 2, page.tick),
    "priority": lambda page: (page.priority, page.tick),
}


@dataclass
class CacheModel:
    """Pages by (namespace, all tokens from the start to the page's end)."""

    page_size: int
    policy: str
    pages: dict[tuple[Namespace, Tokens], Page] = field(default_factory=dict)
    pins: list[tuple[Namespace, Tokens]] = field(default_factory=list)
    needed: list[tuple[Namespace, Tokens]] = field(default_factory=list)
    tick: int = 0
    rank_of_page: Callable[[int], Any] | None = None
    """Asked instead of ``RANKS`` where a policy reads more than a page of the model has."""

    def prefixes(self, tokens: Tokens, limit: int | None = None) -> list[Tokens]:
        end = len(tokens) if limit is None else min(len(tokens), limit)
        return [tokens[:stop] for stop in range(self.page_size, end + 1, self.page_size)]

    def cached(self, space: Namespace, tokens: Tokens, limit: int | None = None) -> list[Tokens]:
        found = []
        for prefix in self.prefixes(tokens, limit):
            if (space, prefix) not in self.pages:
                break
            found.append(prefix)
        return found

    def pinned(self, space: Namespace, prefix: Tokens) -> bool:
        return any(s == space and p[: len(prefix)] == prefix for s, p in self.pins)

    def is_needed(self, space: Namespace, prefix: Tokens) -> bool:
        return any(s == space and p[: len(prefix)] == prefix for s, p in self.needed)

    def protected_tokens(self, space: Namespace, tokens: Tokens) -> int:
        return sum(
            self.page_size for prefix in self.prefixes(tokens) if self.is_needed(space, prefix)
        )

    def page_ids(self, space: Namespace, tokens: Tokens) -> list[int]:
        return [self.pages[space, prefix].page_id for prefix in self.prefixes(tokens)]

    def touch(self, space: Namespace, tokens: Tokens, limit: int | None, hits: int) -> Tokens:
        """Touch the cached prefix and return it."""
        self.tick += 1
        found = self.cached(space, tokens, limit)
        for prefix in found:
            self.pages[space, prefix].tick = self.tick
            self.pages[space, prefix].hits += hits
        return found[-1] if found else ()

    def insert(
        self, space: Namespace, tokens: Tokens, ids: list[int], limit: int | None, priority: int
    ) -> tuple[Tokens, list[int]]:
        """Return the path that is cached now and the duplicates."""
        self.touch(space, tokens, limit, 0)
        duplicates = []
        path: Tokens = ()
        for prefix, page_id in zip(self.prefixes(tokens, limit), ids, strict=False):
            path = prefix
            page = self.pages.get((space, prefix))
            if page is None:
                self.pages[space, prefix] = Page(page_id, self.tick, self.tick, priority)
                continue
            page.priority = max(page.priority, priority)
            if page.page_id != page_id:
                duplicates.append(page_id)
        return path, duplicates

    def leaves(self) -> list[tuple[Namespace, Tokens]]:
        parents = {(space, prefix[: -self.page_size]) for space, prefix in self.pages}
        return [place for place in self.pages if place not in parents and not self.pinned(*place)]

    def evict(self, num_pages: int) -> list[int]:
        out = []
        while len(out) < num_pages and (leaves := self.leaves()):
            place = min(leaves, key=lambda p: (self.is_needed(*p), self.rank(self.pages[p])))
            out.append(self.pages.pop(place).page_id)
        return out

    def rank(self, page: Page) -> Any:
        if self.rank_of_page is not None:
            return self.rank_of_page(page.page_id)
        return RANKS[self.policy](page)

    def evictable(self) -> int:
        return sum(not self.pinned(*place) for place in self.pages)

    def drop(self, space: Namespace | None, force: bool) -> tuple[list[int], list[int]] | None:
        """Return free and pinned page ids, or None if refused."""
        gone = [place for place in self.pages if space is None or place[0] == space]
        pinned = [self.pages[place].page_id for place in gone if self.pinned(*place)]
        if pinned and not force:
            return None
        free = [self.pages[place].page_id for place in gone if not self.pinned(*place)]
        for place in gone:
            del self.pages[place]
        self.pins = [pin for pin in self.pins if space is not None and pin[0] != space]
        return free, pinned
