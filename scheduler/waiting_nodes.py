"""The pieces of the waiting tree: trie nodes, waiting requests, and the lazy heaps they are in."""

from __future__ import annotations

from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from scheduler.policies import SortKey

__all__ = [
    "CACHED",
    "PENDING",
    "UNCACHED",
    "Entry",
    "Item",
    "LazyHeap",
    "Node",
    "Residency",
    "Waiting",
]

# A heap may hold this many stale entries more than live ones.
_SLACK_ENTRIES = 8


class Residency(Enum):
    """Where the pages of a node are; it only gets weaker down a path."""

    CACHED = "cached"
    PENDING = "pending"
    """An admitted request is computing them and will publish them."""
    UNCACHED = "uncached"


CACHED, PENDING, UNCACHED = Residency


class Waiting:
    """One waiting request, at the node where its usable prefix ends."""

    __slots__ = ("best", "data", "node", "seq", "tick", "tokens", "within")

    def __init__(self, seq: int, node: Node, data: bytes, tokens: int, within: SortKey) -> None:
        self.seq = seq
        self.node = node
        self.data = data
        self.tokens = tokens
        self.within = within
        self.tick = 0
        self.best: Waiting | None = self

    def retire(self) -> None:
        """Let go of what is large: stale heap entries may still name this object."""
        self.data = b""
        self.best = None


class LazyHeap:
    """A heap of nodes and requests; an entry counts only while its item carries its tick.

    An item is listed in at most one heap, once: listing it anew makes its older entry
    stale. Stale entries go when they come to the top, and all at once when they outnumber
    the live ones.
    """

    __slots__ = ("entries", "live")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.live = 0

    def push(self, key: SortKey, item: Item, tick: int) -> None:
        """List ``item`` under ``key``; ``tick`` is new and above 0. Cost: O(log), amortised."""
        if not item.tick:
            self.live += 1
        item.tick = tick
        heappush(self.entries, (key, tick, item))
        if len(self.entries) > 2 * self.live + _SLACK_ENTRIES:
            self._compact()

    def drop(self, item: Item) -> None:
        """Take ``item`` off the list, if it is on it. Cost: O(1), amortised."""
        if not item.tick:
            return
        item.tick = 0
        self.live -= 1
        if len(self.entries) > 2 * self.live + _SLACK_ENTRIES or not self.live:
            self._compact()

    def top(self) -> Item | None:
        """Return the listed item with the smallest key."""
        entries = self.entries
        while entries:
            _, tick, item = entries[0]
            if item.tick == tick:
                return item
            heappop(entries)
        return None

    def _compact(self) -> None:
        self.entries = [entry for entry in self.entries if entry[2].tick == entry[1]]
        heapify(self.entries)


class Node(LazyHeap):
    """A span of pages that waiting requests, or pending ones, share; and a heap.

    The heap lists the requests whose usable prefix ends here, and each UNCACHED child that
    has a request, by its best.
    """

    __slots__ = (
        "anchors",
        "best",
        "children",
        "count",
        "data",
        "depth",
        "ends",
        "own",
        "owners",
        "parent",
        "residency",
        "tick",
    )

    def __init__(self, parent: Node | None, data: bytes, depth: int, residency: Residency) -> None:
        super().__init__()
        self.parent = parent
        self.children: dict[bytes, Node] = {}
        """By their first page."""
        self.data = data
        """Some key that runs through this node: its span is parent.depth to depth in there."""
        self.depth = depth
        """Pages from the root to the end of this node."""
        self.residency = residency
        self.owners = 0
        """Admitted requests that are computing this node's pages."""
        self.ends = 0
        """Those of them whose last full page is the last one here."""
        self.anchors = 0
        """Admitted requests that have yet to publish what follows this node."""
        self.count = 0
        """Waiting requests at or below this node."""
        self.own = 0
        """Waiting requests at this node."""
        self.best: Waiting | None = None
        """The first of its heap."""
        self.tick = 0

    @property
    def pages(self) -> int:
        """Pages of the node's own span."""
        return self.depth - self.parent.depth if self.parent is not None else 0


Item: TypeAlias = Node | Waiting
Entry: TypeAlias = tuple[SortKey, int, Item]
