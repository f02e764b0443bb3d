"""RadixCache: the prefix cache. Tree, eviction heap, pins, sizes and events in one place."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from radixcache.arguments import (
    check_count,
    check_priority,
    check_shape,
    foreign_handle,
    page_table,
    usable_units,
    wrong_kind,
)
from radixcache.eviction import EvictionPolicy
from radixcache.eviction_heap import EvictionHeap, ProtectedTokens
from radixcache.eviction_registry import make_policy
from radixcache.integrity import check_tree
from radixcache.key import DEFAULT_NAMESPACE, KeyKind, Namespace, PrefixKey, checked
from radixcache.observers import Observers
from radixcache.packing import common_bytes
from radixcache.protocol import ResidencyObserver
from radixcache.results import CacheSize, Dropped, InsertResult, PageIds, Peek, PrefixHandle
from radixcache.sglang_names import SglangNames
from radixcache.tree import Node, RadixTree, pages_of, path_of

__all__ = ["RadixCache"]

# Makes a named tuple without a Python frame: a third of the time of calling its class.
_made = tuple.__new__


class RadixCache(SglangNames):
    """A prefix cache of whole pages in a radix tree; see ``PrefixCache`` for the contract.

    ``kind`` is the kind of keys it holds. ``policy`` orders eviction: a name of
    ``EVICTION_POLICIES``, a class or an instance. ``protected_tokens`` makes eviction spare
    what is still needed: it is asked how many leading tokens of a path somebody needs, and
    those pages go only when nothing else is left; tell ``rank_fell`` when a need ends.

    Recency is a tick of the cache: a match or insert gives all nodes of its path the same
    one. Two threads must not call it at once.

    >>> cache = RadixCache(page_size=2)
    >>> inserted = cache.insert(PrefixKey([1, 2, 3, 4]), pages=[0, 1])
    >>> cache.release(inserted.handle)
    >>> handle = cache.match(PrefixKey([1, 2, 3, 9]))
    >>> handle.prefix_tokens, list(handle.pages), cache.size
    (2, [0], CacheSize(evictable_pages=1, protected_pages=1))
    >>> cache.release(handle)
    >>> list(cache.evict(2))
    [1, 0]

    """

    __slots__ = ("_generation", "_layout", "_observers", "kind")

    def __init__(
        self,
        page_size: int,
        *,
        kind: KeyKind = KeyKind.TOKENS,
        policy: str | type[EvictionPolicy] | EvictionPolicy = "lru",
        protected_tokens: ProtectedTokens | None = None,
    ) -> None:
        check_shape(page_size, kind)
        self.page_size = page_size
        self.kind = kind
        self._layout = kind.layout(page_size)
        self._page_bytes = kind.page_bytes(page_size)
        self._tree = RadixTree(self._page_bytes)
        self._roots = self._tree.roots
        self._heap = EvictionHeap(
            make_policy(policy), page_size, self._page_bytes, protected_tokens
        )
        self._observers = Observers()
        self._evictable = 0
        self._protected = 0
        self._generation = 0
        self._tick = 0
        self._live_pins = 0
        # Pins taken by inc_lock_ref, by node id, so that they never steal a handle's.
        self._taken: dict[int, int] = {}

    @property
    def size(self) -> CacheSize:
        """Cached pages, evictable and protected."""
        return _made(CacheSize, (self._evictable, self._protected))

    @property
    def generation(self) -> int:
        """Number of resets done so far."""
        return self._generation

    @property
    def policy(self) -> EvictionPolicy:
        """The eviction policy."""
        return self._heap.policy

    # ------------------------------------------------------------------ looking

    def peek(self, key: PrefixKey, limit_tokens: int | None = None) -> Peek:
        """Measure the longest cached prefix without any effect."""
        end = self._end(key, limit_tokens)
        node: Node | None = self._roots.get(key.namespace)
        if node is None:
            return Peek(0, 0)
        data = key.data
        page_bytes = self._page_bytes
        offset = unpinned = 0
        after = page_bytes
        while after <= end:
            node = node.children.get(data[offset:after])
            if node is None:
                break
            edge = node.edge
            stop = offset + len(edge)
            if stop > end or not data.startswith(edge, offset):
                part = common_bytes(edge, data, offset, end, page_bytes)
                offset += part
                if not node.lock_ref:
                    unpinned += part // page_bytes
                break
            if not node.lock_ref:
                unpinned += len(node.pages)
            offset = stop
            after = stop + page_bytes
        return _made(Peek, (offset // page_bytes * self.page_size, unpinned))

    def match(self, key: PrefixKey, limit_tokens: int | None = None) -> PrefixHandle:
        """Pin the longest cached prefix, touch it and count a hit on it."""
        end = self._end(key, limit_tokens)
        self._tick = tick = self._tick + 1
        namespace = key.namespace
        node: Node | None = self._roots.get(namespace)
        if node is None:
            return self._nothing(namespace)
        data = key.data
        page_bytes = self._page_bytes
        offset = loose_bytes = 0
        after = page_bytes
        refs = 1
        while after <= end:
            child = node.children.get(data[offset:after])
            if child is None:
                break
            edge = child.edge
            size = len(edge)
            stop = offset + size
            if stop > end or not data.startswith(edge, offset):
                size = common_bytes(edge, data, offset, end, page_bytes)
                child = self._tree._split_node(child, size)
                stop = offset + size
            child.tick = tick
            child.hits += 1
            refs = child.lock_ref
            child.lock_ref = refs + 1
            if not refs:
                loose_bytes += size
            node = child
            offset = stop
            after = stop + page_bytes
        if not offset:
            return PrefixHandle(self, None, 0, self._generation, namespace)
        if not refs:
            self._pinned(node, loose_bytes // page_bytes)
        self._live_pins += 1
        tokens = offset // page_bytes * self.page_size
        return PrefixHandle(self, node, tokens, self._generation, namespace)

    def release(self, handle: PrefixHandle) -> None:
        """Give a pin back; again, or after a reset, it does nothing."""
        if getattr(handle, "_owner", None) is not self:
            raise foreign_handle(handle)
        leaf = node = handle._node
        handle._released = True
        handle._node = handle._pages = None
        if node is None or handle.generation != self._generation:
            return
        moved = 0
        parent = node.parent
        while parent is not None:
            refs = node.lock_ref - 1
            node.lock_ref = refs
            if not refs:
                moved += len(node.pages)
            node = parent
            parent = node.parent
        self._live_pins -= 1
        if leaf.lock_ref:
            return
        self._evictable += moved
        self._protected -= moved
        heap = self._heap
        if heap.on_release is not None and heap.on_release(leaf, heap.leaves):
            heap.rerank_all()
        if not leaf.children:
            heap.offer(leaf)

    # ------------------------------------------------------------------ changing

    def insert(
        self,
        key: PrefixKey,
        pages: Sequence[int],
        limit_tokens: int | None = None,
        priority: int = 0,
    ) -> InsertResult:
        """Cache the whole pages of a key, touch its path and pin it."""
        end = self._end(key, limit_tokens)
        page_bytes = self._page_bytes
        table = page_table(pages, end // page_bytes)
        check_priority(priority)
        self._tick = tick = self._tick + 1
        namespace = key.namespace
        data, duplicates = key.data, array("i")
        if not end:
            return InsertResult(0, duplicates, self._nothing(namespace))
        node: Node = self._roots.get(namespace) or self._tree.root(namespace)
        offset = loose_pages = first_page = 0
        after, refs = page_bytes, 1
        while after <= end:
            child = node.children.get(data[offset:after])
            if child is None:
                break
            edge = child.edge
            stop = offset + len(edge)
            if stop > end or not data.startswith(edge, offset):
                part = common_bytes(edge, data, offset, end, page_bytes)
                child = self._tree._split_node(child, part)
                stop = offset + part
            child.tick = tick
            if child.priority < priority:  # noqa: PLR1730  max() costs more than the rest
                child.priority = priority
            held = child.pages
            last_page = first_page + len(held)
            given = table[first_page:last_page]
            if given != held:
                duplicates.extend([a for a, b in zip(given, held, strict=True) if a != b])
            refs = child.lock_ref
            child.lock_ref = refs + 1
            if not refs:
                loose_pages += last_page - first_page
            node = child
            offset = stop
            after = stop + page_bytes
            first_page = last_page
        if not refs:
            self._pinned(node, loose_pages)
        self._live_pins += 1
        tokens = end // page_bytes * self.page_size
        if offset < end:
            adopted = table[first_page : end // page_bytes]
            node = self._tree.attach(node, data[offset:end], adopted, tick)
            node.priority, node.lock_ref = priority, 1
            self._protected += len(adopted)
            if self._observers.active:
                self._observers.stored(namespace, data, first_page * self.page_size, tokens)
        handle = PrefixHandle(self, node, tokens, self._generation, namespace)
        result = _made(InsertResult, (tokens, duplicates, handle))
        return result if self._observers.fault is None else self._observers.give_up(result)

    def evict(self, num_pages: int) -> PageIds:
        """Give up unpinned pages in the policy's order; deepest first within a leaf."""
        check_count(num_pages)
        left = min(num_pages, self._evictable)
        out = array("i")
        heap, tree = self._heap, self._tree
        on_evict, observed = heap.on_evict, self._observers.active
        while left:
            leaf, loose, path = heap.best()
            pages = leaf.pages
            taken = loose if loose < left else left
            if observed:
                root, data = path or path_of(leaf)
            if on_evict is not None:
                on_evict(leaf, taken)
            if taken == len(pages):
                pages.reverse()
                out.extend(pages)
                heap.remove_best()
                bare = tree.detach(leaf)
                if bare is not None and not bare.lock_ref:
                    heap.offer(bare)
            else:
                out.extend(pages[: -taken - 1 : -1])
                tree.trim(leaf, taken)
                if taken == loose:
                    heap.rerank_best()
            left -= taken
            self._evictable -= taken
            if observed:
                stop = len(data) // self._page_bytes * self.page_size
                start = stop - taken * self.page_size
                self._observers.removed(root.namespace, data, start, stop)
        heap.drop_stale()
        return out if self._observers.fault is None else self._observers.give_up(out)

    def reset(self, force: bool = False) -> Dropped:
        """Drop everything, unless something is pinned and ``force`` is not given."""
        if self._protected and not force:
            return Dropped(False, array("i"), array("i"))
        dropped = Dropped(True, *self._heap.drop(self._tree.nodes()))
        self._roots.clear()
        self._heap.clear()
        self._taken.clear()
        self._evictable = self._protected = self._live_pins = 0
        self._generation += 1
        self._observers.cleared(None, dropped)
        return dropped

    def drop_namespace(self, namespace: Namespace) -> Dropped:
        """Drop all of one namespace, unless something in it is pinned."""
        namespace = checked(namespace)
        root = self._roots.get(namespace)
        if root is not None and any(child.lock_ref for child in root.children.values()):
            return Dropped(False, array("i"), array("i"))
        dropped = Dropped(True, *self._heap.drop(self._tree.nodes(namespace)))
        self._evictable -= len(dropped.pages)
        self._roots.pop(namespace, None)
        self._observers.cleared(namespace, dropped)
        return dropped

    # ------------------------------------------------------------------ eviction order

    def set_protection(self, protected_tokens: ProtectedTokens | None) -> None:
        """Ask another function what is needed, or none. Cost: O(leaves)."""
        self._heap.protect(protected_tokens)

    def rank_fell(self, namespace: Namespace, key_bytes: bytes) -> None:
        """Say that a prefix is needed less, or its rank under the policy fell.

        A leaf that lies on the prefix is ranked anew; leaves beyond it rank by pages of
        their own. Cost: O(h) and a memory comparison of the prefix.
        """
        node = self._tree.deepest(namespace, key_bytes)
        if node is not None and not node.lock_ref and not node.children:
            self._heap.refresh(node)

    # ------------------------------------------------------------------ observers, check

    def add_observer(self, observer: ResidencyObserver) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers.add(observer)

    def remove_observer(self, observer: ResidencyObserver) -> None:
        """Tell ``observer`` no longer."""
        self._observers.remove(observer)

    def check(self) -> None:
        """Walk everything and verify every invariant."""
        check_tree(
            self._tree,
            self._heap,
            size=self.size,
            live_pins=self._live_pins,
            taken=self._taken,
            tick=self._tick,
        )

    def pages_of(self, node: Node) -> PageIds:
        """Return the page ids of the path that ends at ``node``. Cost: O(pages)."""
        return pages_of(node)

    # ------------------------------------------------------------------ inside

    def _end(self, key: PrefixKey, limit_tokens: int | None) -> int:
        """Return where the usable whole pages of a key end, in bytes."""
        if not isinstance(key, PrefixKey) or key.layout != self._layout:
            raise wrong_kind(key, self.kind, self.page_size)
        end = len(key.data)
        if limit_tokens is not None:
            limit = usable_units(limit_tokens, self.page_size) * self._page_bytes
            if limit < end:
                return limit
        return end - end % self._page_bytes

    def _nothing(self, namespace: Namespace) -> PrefixHandle:
        """Return a handle of no tokens."""
        return PrefixHandle(self, None, 0, self._generation, namespace)

    def _pinned(self, node: Node, moved: int) -> None:
        """Book the first pin of a path's end."""
        self._evictable -= moved
        self._protected += moved
        if not node.children:
            self._heap.leaves -= 1

    def _unpin(self, node: Node) -> None:
        self.release(PrefixHandle(self, node, 0, self._generation, DEFAULT_NAMESPACE))
