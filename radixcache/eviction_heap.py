"""EvictionHeap: the evictable leaves in the order of their policy, kept across evictions.

An entry is ``(need, rank, node id, node)``; nodes are never compared, since one id is one node.
``node.entry`` is a node's live entry; any other is stale and skipped when it surfaces. An entry
may lag behind its node, but only towards the front: it is ranked again at the top, where it
goes back if it grew. So a touch costs nothing, and the top is always the true minimum.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeAlias

from radixcache.eviction import EvictionPolicy
from radixcache.key import Namespace
from radixcache.results import PageIds
from radixcache.tree import Node, path_of

__all__ = ["EvictionHeap", "ProtectedTokens"]

Entry: TypeAlias = tuple[Any, ...]
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
        "_shared_tail_pages",
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
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def offer(self, leaf: Node) -> None:
        """Take a node that has just become an evictable leaf. Cost: O(log leaves)."""
        self.leaves = leaves = self.leaves + 1
        entry = leaf.entry
        if entry is None:
            entries = self._entries
            leaf.entry = entry = (0, self._rank(leaf), leaf.id, leaf)
            heappush(entries, entry)
            if len(entries) > 2 * leaves + _SLACK:
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

    def best(self) -> tuple[Node, int]:
        """Return the leaf that goes first, and how many of its last pages go before the rest.

        It stays at the top. Cost: O(log leaves), amortised over the touches since; with
        protection O(path) more.
        """
        entries = self._entries
        while True:
            entry = entries[0]
            need_then, rank_then, _, node = entry
            if node.entry is not entry:
                heappop(entries)
            elif node.lock_ref or node.children:
                heappop(entries)
                node.entry = None
            else:
                rank = self._rank(node)
                need, loose = (0, len(node.pages)) if self._protected is None else self._need(node)
                same = rank is rank_then or not (rank < rank_then or rank_then < rank)
                if same and need == need_then:
                    if self._shared_tail_pages is not None:
                        loose = min(loose, max(1, self._shared_tail_pages(node)))
                    return node, loose
                self._replace_top(node, need, rank)

    def rerank_best(self) -> None:
        """Rank the leaf at the top again: its last page is another one now."""
        node: Node = self._entries[0][3]
        self._replace_top(node, 0, self._rank(node))

    def remove_best(self) -> None:
        """Drop the leaf at the top: it is gone."""
        heappop(self._entries)[3].entry = None
        self.leaves -= 1

    def protect(self, protected: ProtectedTokens | None) -> None:
        """Ask ``protected`` from now on. Cost: O(leaves)."""
        self._protected = protected
        self.rerank_all()

    def rerank_all(self) -> None:
        """Rank every candidate anew. Cost: O(leaves)."""
        self._entries[:] = [self._new_entry(entry[3]) for entry in self._live()]
        heapify(self._entries)

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
        self.leaves = 0

    def need(self, leaf: Node) -> int:
        """Return 1 if the leaf's last page is needed, else 0."""
        return 0 if self._protected is None else self._need(leaf)[0]

    def _need(self, leaf: Node) -> tuple[int, int]:
        """Return whether the last page is needed, and how many last pages are alike."""
        assert self._protected is not None
        root, data = path_of(leaf)
        tokens = self._protected(root.namespace, data)
        loose = len(data) // self._page_bytes + -tokens // self._page_size
        size = len(leaf.pages)
        return (0, min(loose, size)) if loose > 0 else (1, size)

    def _replace_top(self, node: Node, need: int, rank: Any) -> None:
        node.entry = entry = (need, rank, node.id, node)
        heapreplace(self._entries, entry)

    def _new_entry(self, node: Node) -> Entry:
        node.entry = entry = (0, self._rank(node), node.id, node)
        return entry

    def _live(self) -> list[Entry]:
        """Return the entries of evictable leaves; forget the others."""
        kept: list[Entry] = []
        for entry in self._entries:
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
        if len(self._entries) > 2 * self.leaves + _SLACK:
            self._entries[:] = self._live()
            heapify(self._entries)


def _hook(policy: EvictionPolicy, name: str) -> Any:
    """Return a hook of the policy, or None where it is the one that does nothing."""
    hook = getattr(policy, name, None)
    idle = getattr(hook, "__func__", None) is getattr(EvictionPolicy, name)
    return None if idle else hook
