"""A lookup cache page by page: a page is the tuple of all tokens up to its end."""

from __future__ import annotations

from collections.abc import Iterable

from tests.models.optimal_model import Ask

__all__ = ["LookupModel"]

Page = tuple[int, ...]


class LookupModel:
    """LRU over leaves; ``pins`` name pages that stay once they are there."""

    def __init__(self, page_size: int, capacity_pages: int, pins: Iterable[Page] = ()) -> None:
        self.page_size = page_size
        self.capacity_pages = capacity_pages
        self.pinned = {page for pin in pins for page in self.path(pin)}
        self.touched: dict[Page, int] = {}
        self.now = 0
        self.evicted_pages = 0
        self.uncached_pages = 0

    def path(self, tokens: Page) -> list[Page]:
        """Return the whole pages of a key."""
        return [tokens[:end] for end in range(self.page_size, len(tokens) + 1, self.page_size)]

    def _held(self, path: list[Page]) -> int:
        return next((i for i, page in enumerate(path) if page not in self.touched), len(path))

    def prefix_tokens(self, ask: Ask, *, last_token: bool = False) -> int:
        """Return what a prompt would hit."""
        found = self._held(self.path(ask.prompt)) * self.page_size
        return min(found, ask.cap(self.page_size)) if last_token else found

    def serve(self, ask: Ask, *, last_token: bool = False, outputs: bool = False) -> int:
        """Look up, make room leaf by leaf, cache; return the hit."""
        self.now += 1
        hit = self.prefix_tokens(ask, last_token=last_token)
        path = self.path(ask.computed() if outputs else ask.prompt)
        held = self._held(path)
        missing = len(path) - held
        while len(self.touched) + missing > self.capacity_pages:
            parents = {page[: -self.page_size] for page in self.touched}
            loose = [
                page
                for page in self.touched
                if page not in path[:held] and page not in self.pinned and page not in parents
            ]
            if not loose:
                break
            # Pages of one request have one age: the deepest of a path is its only leaf.
            del self.touched[min(loose, key=self.touched.__getitem__)]
            self.evicted_pages += 1
        room = min(missing, self.capacity_pages - len(self.touched))
        self.uncached_pages += missing - room
        self.touched.update(dict.fromkeys(path[: held + room], self.now))
        return hit
