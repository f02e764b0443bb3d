"""EvictionHeap: the evictable leaves in the order of their policy, kept across evictions.

An entry is ``(need, rank, node id, node)``; nodes are never compared, since one id is one node.
``node.entry`` is a node's live entry; any other is stale and skipped when it surfaces. An entry
may lag behind its node, but only towards the front: it is ranked again at the top, where it
goes back if it grew. So a touch costs nothing, and the top is always the true minimum.

Entries that come in order, as ages do, wait in a run beside the heap: a queue, read at its
front, which costs O(1) and no cache misses. The top is the smaller of the two fronts.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, pairwise
from typing import Any, TypeAlias

from radixcache.eviction import EvictionPolicy
from radixcache.key import Namespace
from radixcache.results import PageIds
from radixcache.tree import Node, Root, path_of

__all__ = ["EvictionHeap", "ProtectedTokens"]

Entry: TypeAlias = tuple[Any, ...]
Path: TypeAlias = tuple[Root, bytes]
ProtectedTokens: TypeAlias = Callable[[Namespace, bytes], int]
"""How many leading tokens of a packed key somebody still needs."""

_SLACK = 64


class EvictionHeap:
    """The candidates of eviction; pages that are needed go last, whatever their rank."""

    __slots__ = (
        "_can_fall",
        "_entries",
        "_page_bytes",
        "_page_size",
        "_protected",
        "_rank",
        "_run",
        "_shared_tail_pages",
        "_top_in_run",
        "leaves",
        "on_drop",
        "on_evict",
        "on_release",
        "policy",
    )

    def __init__(
        self,
        policy: EvictionPolicy,
        page_size: int,
        page_bytes: int,
        protected: ProtectedTokens | None,
    ) -> None:
        self.policy = policy
        self.leaves = 0
        """Number of evictable leaves; whoever pins one takes it off."""
        self._rank = policy.rank
        self._shared_tail_pages = _hook(policy, "shared_tail_pages")
        self._can_fall = getattr(policy, "rank_can_fall", True)
        self._page_size = page_size
        self._page_bytes = page_bytes
        self._protected = protected
        self._entries: list[Entry] = []
        self._run: deque[Entry] = deque()
        """Entries that nothing needs, each after the one before."""
        self._top_in_run = False
        self.on_release: Callable[[Node, int], bool] | None = _hook(policy, "on_release")
        self.on_evict: Callable[[Node, int], None] | None = _hook(policy, "on_evict")
        self.on_drop: Callable[[Node], None] | None = _hook(policy, "on_drop")
        """The hooks that the policy overrides; None for the others."""
        start = _hook(policy, "start")
        if start is not None:
            start(page_size)

    def __len__(self) -> int:
        """Return the number of entries, stale ones too.

        At most ``2 * leaves + 64`` after each push and each eviction.
        """
        return len(self._entries) + len(self._run)

    def __iter__(self) -> Iterator[Entry]:
        return chain(self._run, self._entries)

    def misplaced(self) -> Entry | None:
        """Return an entry that comes before one it should follow, or None."""
        entries = self._entries
        for before, entry in pairwise(self._run):
            if before[:3] > entry[:3]:
                return entry
        for position in range(1, len(entries)):
            if entries[(position - 1) // 2][:3] > entries[position][:3]:
                return entries[position]
        return None

    def offer(self, leaf: Node) -> None:
        """Take a node that has just become an evictable leaf. Cost: O(log leaves)."""
        self.leaves = leaves = self.leaves + 1
        entry = leaf.entry
        if entry is None:
            run = self._run
            leaf.entry = entry = (0, self._rank(leaf), leaf.id, leaf)
            if run and entry < run[-1]:
                heappush(self._entries, entry)
            else:
                run.append(entry)
            if len(run) + len(self._entries) > 2 * leaves + _SLACK:
                self.drop_stale()
        # A live entry serves again unless the rank, or the need, may be smaller by now.
        elif entry[0] or self._can_fall:
            self.refresh(leaf)

    def refresh(self, leaf: Node) -> None:
        """Rank an evictable leaf anew, if its entry may lie too far back."""
        rank = self._rank(leaf)
        entry = leaf.entry
        if entry is not None and not entry[0] and not rank < entry[1]:
            return
        leaf.entry = entry = (0, rank, leaf.id, leaf)
        heappush(self._entries, entry)
        self.drop_stale()

    def best(self) -> tuple[Node, int, Path | None]:
        """Return the leaf that goes first, how many of its last pages go, and its path.

        The path is None where nobody had to know it. The leaf stays at the top. Cost:
        O(log leaves), amortised over the touches since; with protection O(path) more.
        """
        entries, run = self._entries, self._run
        while True:
            from_run = bool(run) and not (entries and entries[0] < run[0])
            entry = run[0] if from_run else entries[0]
            need_then, rank_then, _, node = entry
            stale = node.entry is not entry
            if stale or node.lock_ref or node.children:
                if from_run:
                    run.popleft()
                else:
                    heappop(entries)
                if not stale:
                    node.entry = None
            else:
                self._top_in_run = from_run
                rank = self._rank(node)
                path: Path | None = None
                need, loose = 0, len(node.pages)
                if self._protected is not None:
                    path = path_of(node)
                    need, loose = self._need(path, loose)
                same = rank is rank_then or not (rank < rank_then or rank_then < rank)
                if same and need == need_then:
                    if self._shared_tail_pages is not None:
                        loose = min(loose, max(1, self._shared_tail_pages(node)))
                    return node, loose, path
                self._replace_top(node, need, rank)

    def rerank_best(self) -> None:
        """Rank the leaf at the top again: its last page is another one now."""
        node: Node = (self._run if self._top_in_run else self._entries)[0][3]
        self._replace_top(node, 0, self._rank(node))

    def remove_best(self) -> None:
        """Drop the leaf at the top: it is gone."""
        entry = self._run.popleft() if self._top_in_run else heappop(self._entries)
        entry[3].entry = None
        self.leaves -= 1

    def protect(self, protected: ProtectedTokens | None) -> None:
        """Ask ``protected`` from now on. Cost: O(leaves)."""
        self._protected = protected
        self.rerank_all()

    def rerank_all(self) -> None:
        """Rank every candidate anew. Cost: O(leaves)."""
        entries = [self._new_entry(entry[3]) for entry in self._live(self)]
        self._run.clear()
        heapify(entries)
        self._entries[:] = entries

    def drop(self, nodes: Iterable[Node]) -> tuple[PageIds, PageIds]:
        """Forget nodes that leave all at once; return their pages, unpinned and pinned."""
        pages, pinned = array("i"), array("i")
        for node in nodes:
            (pinned if node.lock_ref else pages).extend(node.pages)
            node.entry = None
            if self.on_drop is not None:
                self.on_drop(node)
            if not node.lock_ref and not node.children:
                self.leaves -= 1
        return pages, pinned

    def clear(self) -> None:
        """Forget everything; the nodes must be gone."""
        self._entries.clear()
        self._run.clear()
        self.leaves = 0

    def need(self, leaf: Node) -> int:
        """Return 1 if the leaf's last page is needed, else 0."""
        return 0 if self._protected is None else self._need(path_of(leaf), len(leaf.pages))[0]

    def _need(self, path: Path, size: int) -> tuple[int, int]:
        """Return whether a leaf's last page is needed, and how many last pages are alike."""
        assert self._protected is not None
        root, data = path
        tokens = self._protected(root.namespace, data)
        loose = len(data) // self._page_bytes + -tokens // self._page_size
        return (0, min(loose, size)) if loose > 0 else (1, size)

    def _replace_top(self, node: Node, need: int, rank: Any) -> None:
        node.entry = entry = (need, rank, node.id, node)
        if not self._top_in_run:
            heapreplace(self._entries, entry)
            return
        run = self._run
        run.popleft()
        if need or (run and entry < run[-1]):
            heappush(self._entries, entry)
        else:
            run.append(entry)

    def _new_entry(self, node: Node) -> Entry:
        node.entry = entry = (0, self._rank(node), node.id, node)
        return entry

    def _live(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries of evictable leaves; forget the others."""
        kept: list[Entry] = []
        for entry in entries:
            node: Node = entry[3]
            if node.entry is not entry:
                continue
            if node.lock_ref or node.children:
                node.entry = None
            else:
                kept.append(entry)
        return kept

    def drop_stale(self) -> None:
        """Rebuild when most entries are stale. Cost: O(1), amortised."""
        if len(self._run) + len(self._entries) > 2 * self.leaves + _SLACK:
            self._run = deque(self._live(self._run))
            self._entries[:] = self._live(self._entries)
            heapify(self._entries)


def _hook(policy: EvictionPolicy, name: str) -> Any:
    """Return a hook of the policy, or None where it is the one that does nothing."""
    hook = getattr(policy, name, None)
    idle = getattr(hook, "__func__", None) is getattr(EvictionPolicy, name)
    return None if idle else hook
