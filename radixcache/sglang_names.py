"""SGLang's names on RadixCache, for people who come from there."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from radixcache.errors import LockError
from radixcache.eviction_heap import EvictionHeap
from radixcache.key import Namespace, PrefixKey
from radixcache.packing import common_bytes
from radixcache.results import PageIds
from radixcache.tree import Node, RadixTree, Root, pages_of

__all__ = ["MatchedPrefix", "SglangNames"]


class MatchedPrefix(NamedTuple):
    """What ``match_prefix`` found; nothing is pinned."""

    prefix_tokens: int
    last_node: Node | None
    """The deepest matched node, for ``inc_lock_ref``; None if nothing matched."""
    pages: PageIds


class SglangNames:
    """Lock a node by hand and count in tokens. ``match`` and ``release`` are the safer way.

    Ref: SGLang ``mem_cache/radix_cache.py``; unlike there, unlocking too often raises.
    """

    # The part of RadixCache's state that these names read.
    __slots__ = (
        "_evictable",
        "_heap",
        "_live_pins",
        "_page_bytes",
        "_protected",
        "_roots",
        "_taken",
        "_tick",
        "_tree",
        "page_size",
    )

    page_size: int
    _evictable: int
    _heap: EvictionHeap
    _live_pins: int
    _page_bytes: int
    _protected: int
    _roots: dict[Namespace, Root]
    _taken: dict[int, int]
    _tick: int
    _tree: RadixTree

    def match_prefix(self, key: PrefixKey) -> MatchedPrefix:
        """Find the longest cached prefix and touch it; pin nothing and count no hit.

        As in SGLang it splits and refreshes, so mere looking changes eviction: use ``peek``
        to look and ``match`` to pin. ``last_node`` is right until the next eviction.
        """
        end = self._end(key, None)
        self._tick += 1
        node: Node | None = self._roots.get(key.namespace)
        offset = 0
        last: Node | None = None
        while node is not None and offset < end:
            node = node.children.get(key.data[offset : offset + self._page_bytes])
            if node is None:
                break
            part = len(node.edge)
            if offset + part > end or not key.data.startswith(node.edge, offset):
                part = common_bytes(node.edge, key.data, offset, end, self._page_bytes)
                node = self._tree._split_node(node, part)
            node.tick = self._tick
            if not node.children and not node.lock_ref:
                self._heap.refresh(node)
            offset += part
            last = node
        tokens = offset // self._page_bytes * self.page_size
        return MatchedPrefix(tokens, last, array("i") if last is None else pages_of(last))

    def inc_lock_ref(self, node: Node | None) -> None:
        """Pin the path that ends at a node of ``match_prefix``; None is nothing to pin.

        Raises:
            LockError: the node has left the tree.

        """
        if node is None:
            return
        self._require_alive(node)
        refs = node.lock_ref
        moved = 0
        step = node
        while step.parent is not None:
            if not step.lock_ref:
                moved += len(step.pages)
            step.lock_ref += 1
            step = step.parent
        if not refs:
            self._pinned(node, moved)
        self._live_pins += 1
        self._taken[node.id] = self._taken.get(node.id, 0) + 1

    def dec_lock_ref(self, node: Node | None) -> None:
        """Give back one ``inc_lock_ref`` of the same node.

        Raises:
            LockError: it was given back as often as taken; pins of handles do not count.

        """
        if node is None:
            return
        self._require_alive(node)
        count = self._taken.get(node.id, 0)
        if not count:
            raise LockError(f"{node!r} was not locked by inc_lock_ref, or unlocked already")
        if count == 1:
            del self._taken[node.id]
        else:
            self._taken[node.id] = count - 1
        self._unpin(node)

    def evictable_size(self) -> int:
        """Return the cached tokens without a pin."""
        return self._evictable * self.page_size

    def protected_size(self) -> int:
        """Return the cached tokens with a pin at or below them."""
        return self._protected * self.page_size

    def _require_alive(self, node: Node) -> None:
        if not isinstance(node, Node):
            raise LockError(f"{node!r} is no node of match_prefix: give its last_node")
        step = node
        while step.parent is not None:
            step = step.parent
        if type(step) is not Root or self._roots.get(step.namespace) is not step:
            raise LockError(f"{node!r} has left the cache: match again")

    def _end(self, key: PrefixKey, limit_tokens: int | None) -> int:
        raise NotImplementedError

    def _pinned(self, node: Node, moved: int) -> None:
        raise NotImplementedError

    def _unpin(self, node: Node) -> None:
        raise NotImplementedError
