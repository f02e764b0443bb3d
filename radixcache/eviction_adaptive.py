"""Eviction policies that learn page by page: T-LRU and ARC."""

from __future__ import annotations

from collections import OrderedDict

from radixcache.errors import ConfigError
from radixcache.eviction import EvictionPolicy
from radixcache.prefix_marks import PrefixMarks
from radixcache.tree import Node, pages_of

__all__ = ["ARC", "TLRU"]

_SCANNED_PAGES = 32
_FLIP_COST = 16


class TLRU(EvictionPolicy):
    """Tail-optimized LRU: first what the slowest next turn can do without, then by last use.

    A conversation of L tokens whose next prompt adds about ``next_prompt_tokens`` holds its
    latency target if at most ``threshold_tokens`` have to be computed, so only its first
    L + next - threshold tokens must stay. Pages that start behind them are safe to evict and
    go first, least recently used first; when none is left, the others go in the same order.
    L is the length of a released path, prompt and published output, and stays L when its
    tail is evicted. A page shared by conversations is safe only if it is for all that used
    it since it was cached. It shortens the slowest first tokens, not the work: its hit rate
    may lie below LRU's. With a threshold of 0 it is LRU.

    Memory: one set entry a page that must stay.

    Ref: Zhang, Li, Moallemi and Peng, Tail-Optimized Caching for LLM Inference
    (arXiv 2510.15152), with one estimate of the next prompt for all; SGLang
    ``mem_cache/evict_policy.py``, TLRUStrategy.
    """

    name = "t-lru"
    rank_can_fall = True

    def __init__(self, threshold_tokens: int = 4096, next_prompt_tokens: int = 200) -> None:
        for name, value in (
            ("threshold_tokens", threshold_tokens),
            ("next_prompt_tokens", next_prompt_tokens),
        ):
            if value < 0:
                raise ConfigError(f"{name} is {value}: give 0 or more tokens")
        self.threshold_tokens = threshold_tokens
        self.next_prompt_tokens = next_prompt_tokens
        self._page_size = 0
        self._kept: set[int] = set()

    def start(self, page_size: int) -> None:
        """Take the page size of the one cache it serves."""
        if self._page_size:
            raise ConfigError(f"{self!r} serves a cache already: make one for each cache")
        self._page_size = page_size

    def rank(self, node: Node) -> tuple[bool, int]:
        """Return whether its last page must stay, then the last touch."""
        return node.pages[-1] in self._kept, node.tick

    def shared_tail_pages(self, node: Node) -> int:
        """Return how many last pages are alike, as far as it looked."""
        return _alike(node, self._kept)

    def on_release(self, end: Node, leaves: int) -> bool:
        """Keep the pages of the path that its next turn could not do without."""
        pages = pages_of(end)
        size = self._page_size
        tokens = len(pages) * size + self.next_prompt_tokens - self.threshold_tokens
        self._kept.update(pages[: max(0, -(-tokens // size))])
        return False

    def on_evict(self, leaf: Node, num_pages: int) -> None:
        """Forget the pages."""
        self._kept.difference_update(leaf.pages[-num_pages:])

    def on_drop(self, node: Node) -> None:
        """Forget the pages."""
        self._kept.difference_update(node.pages)


class ARC(EvictionPolicy):
    """Recency against frequency, balanced by what was evicted too early.

    Pages that one request used are *recent*, pages that two or more used are *frequent*; a
    request uses the pages of a path when its pin is the last to go. Evicted pages are
    remembered in one list of ghosts for each kind. A page that comes back from the recent
    ghosts moves the target, the number of recent pages to have, up by max(1, frequent ghosts
    / recent ghosts) pages, one from the frequent ghosts down by max(1, the inverse), and is
    frequent then. Above the target recent leaves go first, else frequent ones, each least
    recently used first.

    It is ARC with three changes. Only leaves can go, so a recent page may cover a frequent
    one and the other kind goes when a kind has no leaf. The kind that goes first is decided
    anew when a path is released, not page by page, and at most once in leaves / 16 releases,
    for it ranks all leaves again. The capacity is the largest number of pages seen.

    Memory: about 200 bytes a page of capacity, with at most as many ghosts as pages.

    Ref: Megiddo and Modha, ARC: A self-tuning, low overhead replacement cache (FAST 2003).
    """

    name = "arc"
    rank_can_fall = True

    def __init__(self) -> None:
        self.target_pages = 0.0
        """How many recent pages it aims at."""
        self._started = False
        self._marks = PrefixMarks()
        self._frequent: set[int] = set()
        self._recent_ghosts: OrderedDict[int, None] = OrderedDict()
        self._frequent_ghosts: OrderedDict[int, None] = OrderedDict()
        self._most_pages = 0
        self._recent_first = True
        self._releases = 0

    def start(self, page_size: int) -> None:
        """Serve one cache only."""
        if self._started:
            raise ConfigError(f"{self!r} serves a cache already: make one for each cache")
        self._started = True

    def rank(self, node: Node) -> tuple[bool, int]:
        """Return whether its last page is of the kind that stays, then the last touch."""
        return (node.pages[-1] in self._frequent) is self._recent_first, node.tick

    def shared_tail_pages(self, node: Node) -> int:
        """Return how many last pages are alike, as far as it looked."""
        return _alike(node, self._frequent)

    def on_release(self, end: Node, leaves: int) -> bool:
        """Count a use of each page, move the target, and decide who goes first."""
        pages, known = self._marks.learn(end)
        self._frequent.update(pages[:known])
        resident = len(self._marks.of_page)
        self._most_pages = max(self._most_pages, resident)
        for page in pages[known:]:
            if self._came_back(self._marks.of_page[page]):
                self._frequent.add(page)
        self._forget_old_ghosts()
        self._releases += 1
        recent_first = resident - len(self._frequent) > self.target_pages
        if recent_first is self._recent_first or self._releases * _FLIP_COST < leaves:
            return False
        self._recent_first = recent_first
        self._releases = 0
        return True

    def on_evict(self, leaf: Node, num_pages: int) -> None:
        """Remember the pages as ghosts."""
        marks = self._marks.of_page
        for page in reversed(leaf.pages[-num_pages:]):
            frequent = page in self._frequent
            ghosts = self._frequent_ghosts if frequent else self._recent_ghosts
            ghosts[marks.pop(page)] = None
            self._frequent.discard(page)
        self._forget_old_ghosts()

    def on_drop(self, node: Node) -> None:
        """Forget the pages."""
        self._marks.forget(node.pages)
        self._frequent.difference_update(node.pages)

    def _came_back(self, mark: int) -> bool:
        """Move the target if the prefix is a ghost; return whether it is one."""
        recent, frequent = self._recent_ghosts, self._frequent_ghosts
        if mark in recent:
            step = max(1.0, len(frequent) / len(recent))
            self.target_pages = min(self._most_pages, self.target_pages + step)
            del recent[mark]
            return True
        if mark in frequent:
            step = max(1.0, len(recent) / len(frequent))
            self.target_pages = max(0.0, self.target_pages - step)
            del frequent[mark]
            return True
        return False

    def _forget_old_ghosts(self) -> None:
        """Hold recent pages and ghosts to the capacity, and all together to twice that."""
        resident = len(self._marks.of_page)
        recent = resident - len(self._frequent)
        while self._recent_ghosts and recent + len(self._recent_ghosts) > self._most_pages:
            self._recent_ghosts.popitem(last=False)
        room = 2 * self._most_pages - resident - len(self._recent_ghosts)
        while len(self._frequent_ghosts) > room:
            self._frequent_ghosts.popitem(last=False)


def _alike(node: Node, chosen: set[int]) -> int:
    """Return how many last pages are all in the set, or all not; at most 32 are looked at."""
    tail = node.pages[-_SCANNED_PAGES:]
    last = tail[-1] in chosen
    count = 1
    while count < len(tail) and (tail[-1 - count] in chosen) is last:
        count += 1
    return count
