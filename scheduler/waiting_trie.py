"""PromptTrie: the waiting prompts by namespace, where their pages are, and who is next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count

from radixcache import Namespace, common_bytes
from scheduler.policies import SchedulePolicy, SortKey
from scheduler.waiting_nodes import (
    CACHED,
    PENDING,
    UNCACHED,
    Entry,
    LazyHeap,
    Node,
    Residency,
    Waiting,
)

__all__ = ["PromptTrie"]


class PromptTrie:
    """Tries of page-aligned prompts, with the residency of each node and the order of requests.

    A request belongs to its deepest ancestor that is not UNCACHED: its *group*. All of a
    group have the same rank depth, so the group is ranked by the best of them alone, and a
    node that changes its residency moves all requests below it at once.

    Residency changes come as chains: nodes of one path, the upper first. h is the number
    of nodes on a path.
    """

    __slots__ = (
        "_across",
        "_page_size",
        "_ticks",
        "changes",
        "groups",
        "matched_pages",
        "open_pages",
        "page_bytes",
        "roots",
    )

    def __init__(self, page_size: int, page_bytes: int, policy: SchedulePolicy) -> None:
        self._page_size = page_size
        self.page_bytes = page_bytes
        self._across = policy.across
        self._ticks = count(1)
        self.roots: dict[Namespace, Node] = {}
        self.groups = LazyHeap()
        """The nodes that are not UNCACHED and have a request, by the key of their best."""
        self.changes = 0
        """Changes of who waits, or of where a page is that somebody waits for."""
        self.matched_pages = 0
        """Cached pages of all waiting requests."""
        self.open_pages = 0
        """Distinct UNCACHED pages that waiting requests need."""

    # -- structure ---------------------------------------------------------------------

    def root(self, namespace: Namespace) -> Node:
        """Return the namespace's root, made when it is missing."""
        root = self.roots.get(namespace)
        if root is None:
            root = self.roots[namespace] = Node(None, b"", 0, CACHED)
        return root

    def follow(self, node: Node, data: bytes, limit: int) -> tuple[Node, int] | None:
        """Return the child of ``node`` on the path of ``data``, and how far that runs along it.

        The depth is in pages and at most ``limit``; None when no child has the next page.
        """
        width = self.page_bytes
        start = node.depth * width
        child = node.children.get(data[start : start + width])
        if child is None:
            return None
        high = child.depth if child.depth < limit else limit
        if child.data is data:
            return child, high
        span = child.data[start : high * width]
        return child, node.depth + common_bytes(span, data, start, len(data), width) // width

    def path_to(self, node: Node, data: bytes, pages: int, cached_pages: Callable[[], int]) -> Node:
        """Return the node that ends ``pages`` deep on the path of ``data`` from ``node`` on.

        Makes what is missing; ``cached_pages`` is asked when the cache may hold some of it.
        """
        while node.depth < pages:
            step = self.follow(node, data, pages)
            if step is None:
                cached = cached_pages() if node.residency is CACHED else 0
                if cached > node.depth:
                    node = self._attach(node, data, cached, CACHED)
                return node if node.depth == pages else self._attach(node, data, pages, UNCACHED)
            child, depth = step
            node = child if depth == child.depth else self.split(child, depth)
        return node

    def path_from(self, end: Node, start: int, cut: int) -> list[Node]:
        """Return the nodes from depth ``start`` to ``end``, cut in two at ``cut`` if need be."""
        nodes: list[Node] = []
        node = end
        while node.depth > start:
            parent = node.parent
            assert parent is not None
            nodes.append(node)
            if parent.depth < cut < node.depth:
                parent = self.split(node, cut)
            node = parent
        nodes.reverse()
        return nodes

    def split(self, node: Node, depth: int) -> Node:
        """Cut ``node`` in two at ``depth``; return the upper part, the lower stays ``node``."""
        parent = node.parent
        assert parent is not None
        assert parent.depth < depth < node.depth
        upper = self._attach(parent, node.data, depth, node.residency)
        upper.owners, upper.count = node.owners, node.count
        upper.children[self._first_page(node.data, depth)] = node
        node.parent = upper
        if node.residency is UNCACHED and node.best is not None:
            parent.drop(node)
            upper.push(node.best.within, node, next(self._ticks))
            upper.best = node.best
            parent.push(node.best.within, upper, next(self._ticks))
        return upper

    def tidy(self, node: Node, namespace: Namespace) -> None:
        """Remove what is dead, and join what needs no cut any more, from ``node`` to the root."""
        while (parent := node.parent) is not None:
            if not node.own and len(node.children) < 2:
                self.tidy_one(node)
            node = parent
        if not node.children and not node.own and self.roots.get(namespace) is node:
            del self.roots[namespace]

    def tidy_one(self, node: Node) -> None:
        """Remove ``node`` if nobody needs it; give it to its only child if nothing ends here.

        Does nothing when it is not in the trie any more.
        """
        parent = node.parent
        assert parent is not None
        first = self._first_page(node.data, parent.depth)
        if parent.children.get(first) is not node:
            return
        if not node.children:
            if not node.own and not node.owners:
                del parent.children[first]
        elif len(node.children) == 1 and not node.own and not node.ends:
            (child,) = node.children.values()
            if child.residency is node.residency and child.owners == node.owners:
                parent.children[first] = child
                child.parent = parent
                if node.residency is UNCACHED:
                    parent.drop(node)
                    node.drop(child)
                    self.settle(child)

    def _attach(self, parent: Node, data: bytes, depth: int, residency: Residency) -> Node:
        node = Node(parent, data, depth, residency)
        parent.children[self._first_page(data, parent.depth)] = node
        return node

    def _first_page(self, data: bytes, depth: int) -> bytes:
        return data[depth * self.page_bytes : (depth + 1) * self.page_bytes]

    # -- requests ----------------------------------------------------------------------

    def hang(self, waiting: Waiting) -> None:
        """Put a request at its node. Cost: O(h log n)."""
        node: Node | None = waiting.node
        self.changes += 1
        waiting.node.own += 1
        waiting.node.push(waiting.within, waiting, next(self._ticks))
        self.settle_up(waiting.node)
        while node is not None:
            node.count += 1
            if node.count == 1 and node.residency is UNCACHED:
                self.open_pages += node.pages
            if node.residency is CACHED:
                self.matched_pages += node.pages
            node = node.parent

    def take(self, waiting: Waiting) -> Node:
        """Take a request off; return its deepest CACHED ancestor. Cost: O(h log n)."""
        node: Node | None = waiting.node
        self.changes += 1
        waiting.node.own -= 1
        waiting.node.drop(waiting)
        self.settle_up(waiting.node)
        frontier = None
        while node is not None:
            node.count -= 1
            if node.data is waiting.data and node.count:
                # Nodes must not keep the keys of requests that are gone alive.
                below = next(iter(node.children.values()), None) or node.best
                node.data = node.data if below is None else below.data
            if not node.count and node.residency is UNCACHED:
                self.open_pages -= node.pages
            if node.residency is CACHED:
                self.matched_pages -= node.pages
                frontier = frontier or node
            node = node.parent
        assert frontier is not None
        return frontier

    # -- residency ---------------------------------------------------------------------

    def strengthen(self, chain: Sequence[Node], residency: Residency) -> None:
        """Make a chain PENDING (from UNCACHED) or CACHED. Cost: O(its nodes · log n)."""
        moved = []
        self.changes += bool(chain and chain[0].count)
        for node in chain:
            if residency is CACHED:
                self.matched_pages += node.count * node.pages
            if node.residency is UNCACHED:
                if node.count:
                    self.open_pages -= node.pages
                assert node.parent is not None
                node.parent.drop(node)
                moved.append(node)
            node.residency = residency
        for node in reversed(moved):
            self.settle(node)
        if moved and moved[0].parent is not None:
            self.settle(moved[0].parent)

    def weaken(self, chain: Sequence[Node]) -> None:
        """Make a chain PENDING where it has owners, else UNCACHED. Cost: as ``strengthen``."""
        moved = []
        self.changes += bool(chain and chain[0].count)
        for node in chain:
            if node.residency is CACHED:
                self.matched_pages -= node.count * node.pages
            if node.owners:
                node.residency = PENDING
                continue
            self.groups.drop(node)
            node.residency = UNCACHED
            if node.count:
                self.open_pages += node.pages
            moved.append(node)
        for node in reversed(moved):
            self.settle(node)
        if moved and moved[0].parent is not None:
            self.settle_up(moved[0].parent)

    # -- order -------------------------------------------------------------------------

    def settle(self, node: Node) -> bool:
        """Find the best of ``node`` anew and list it where it belongs; tell whether it moved."""
        top = node.top()
        best = None if top is None else top.best
        if best is node.best and (node.tick or best is None):
            return False
        node.best = best
        if node.residency is not UNCACHED:
            if best is None:
                self.groups.drop(node)
            else:
                self.groups.push(self.rank(node, best.within), node, next(self._ticks))
        else:
            assert node.parent is not None
            if best is None:
                node.parent.drop(node)
            else:
                node.parent.push(best.within, node, next(self._ticks))
        return True

    def settle_up(self, node: Node) -> None:
        """Settle ``node`` and its ancestors as far as the change is felt."""
        while self.settle(node) and node.residency is UNCACHED:
            assert node.parent is not None
            node = node.parent

    def rank(self, group: Node, within: SortKey) -> SortKey:
        """Return the key among all groups of a request of ``group``."""
        return self._across(group.depth * self._page_size, within)

    def ranked_groups(self) -> Iterator[Node]:
        """Yield the groups, the one with the best request first. Cost: O(log) each, amortised.

        Nothing may change while it runs.
        """
        entries = self.groups.entries
        frontier = [(entries[0][0], 0)] if entries else []
        while frontier:
            _, place = heappop(frontier)
            _, tick, item = entries[place]
            if item.tick == tick:
                assert type(item) is Node
                yield item
            for below in range(2 * place + 1, min(2 * place + 3, len(entries))):
                heappush(frontier, (entries[below][0], below))

    def ranked(self) -> Iterator[tuple[Node, Waiting]]:
        """Yield (group, request) in exact order. Cost: O(log) each, amortised.

        A best-first search through the heaps as the trees they are; nothing may change
        while it runs.
        """
        entries = self.groups.entries
        return self._search(entries[0][0], None, entries) if entries else iter(())

    def ranked_in(self, group: Node) -> Iterator[tuple[Node, Waiting]]:
        """Yield (group, request) of one group in exact order. Cost: as ``ranked``."""
        entries = group.entries
        return self._search(self.rank(group, entries[0][0]), group, entries)

    def _search(
        self, first: SortKey, group: Node | None, entries: list[Entry]
    ) -> Iterator[tuple[Node, Waiting]]:
        serial = count()
        # (key, tie, group or None for the heap of groups, heap, place in it)
        frontier = [(first, -1, group, entries, 0)]
        while frontier:
            key, _, group, entries, place = heappop(frontier)
            for below in range(2 * place + 1, min(2 * place + 3, len(entries))):
                found = entries[below][0]
                found = found if group is None else self.rank(group, found)
                heappush(frontier, (found, next(serial), group, entries, below))
            _, tick, item = entries[place]
            if item.tick != tick:
                continue
            if type(item) is Node:
                heappush(frontier, (key, next(serial), group or item, item.entries, 0))
            else:
                assert type(item) is Waiting
                assert group is not None
                yield group, item
