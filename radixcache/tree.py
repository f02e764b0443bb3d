"""Node and RadixTree: the structure of the cached prefixes, without any policy.

All offsets are bytes of packed key; an edge is a whole number of pages. Nothing recurses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

from radixcache.key import Namespace
from radixcache.results import PageIds

__all__ = ["NO_CHILDREN", "Node", "RadixTree", "Root", "pages_of", "path_of"]


class Node:
    """A span of cached pages below its parent's. Policies read it and change nothing."""

    __slots__ = (
        "children",
        "created",
        "edge",
        "entry",
        "hits",
        "id",
        "lock_ref",
        "pages",
        "parent",
        "priority",
        "tick",
    )

    edge: bytes
    """Packed units of the span."""
    pages: PageIds
    """Its page ids, in order."""
    children: dict[bytes, Node]
    """By the packed units of their first page; ``NO_CHILDREN`` of a leaf."""
    parent: Node | None
    """None for a root, and once the node has left the tree."""
    lock_ref: int
    """Live pins that end at this node or below it."""
    tick: int
    """When it was last matched or inserted."""
    hits: int
    """How often it was matched."""
    created: int
    """The tick at which its pages came."""
    priority: int
    """The largest priority it was inserted with."""
    id: int
    """Grows with the order of making; unique in its cache."""
    entry: tuple[Any, ...] | None
    """Its live entry in the eviction heap, if any."""

    def __init__(
        self, node_id: int, edge: bytes, pages: PageIds, parent: Node | None, tick: int
    ) -> None:
        self.edge = edge
        self.pages = pages
        self.children = NO_CHILDREN
        self.parent = parent
        self.lock_ref = 0
        self.tick = tick
        self.hits = 0
        self.created = tick
        self.priority = 0
        self.id = node_id
        self.entry = None

    def __repr__(self) -> str:
        return f"Node {self.id} ({len(self.pages)} pages, lock_ref {self.lock_ref})"


NO_CHILDREN: Final[dict[bytes, Node]] = {}
"""The children of every leaf; it stays empty. A dict each would be a tenth of the memory."""


class Root(Node):
    """The empty node above all of a namespace; never pinned, never evicted."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: Namespace) -> None:
        super().__init__(0, b"", array("i"), None, 0)
        self.namespace = namespace


class RadixTree:
    """The nodes of all namespaces; a root lives as long as it has a child."""

    __slots__ = ("_last_id", "page_bytes", "roots")

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.roots: dict[Namespace, Root] = {}
        self._last_id = 0

    def root(self, namespace: Namespace) -> Root:
        """Return the namespace's root, made if it has none; give it a child at once."""
        root = self.roots.get(namespace)
        if root is None:
            root = self.roots[namespace] = Root(namespace)
        return root

    def attach(self, parent: Node, edge: bytes, pages: PageIds, tick: int) -> Node:
        """Add a leaf below ``parent``, which has no child with that first page."""
        self._last_id += 1
        node = Node(self._last_id, edge, pages, parent, tick)
        siblings = parent.children
        if siblings:
            siblings[edge[: self.page_bytes]] = node
        else:
            parent.children = {edge[: self.page_bytes]: node}
        return node

    def detach(self, leaf: Node) -> Node | None:
        """Take a leaf out; return its parent if that is a leaf now. A bare root goes too."""
        parent = leaf.parent
        assert parent is not None
        assert not leaf.children
        siblings = parent.children
        del siblings[leaf.edge[: self.page_bytes]]
        leaf.parent = None
        if siblings:
            return None
        parent.children = NO_CHILDREN
        if type(parent) is Root:
            del self.roots[parent.namespace]
            return None
        return parent

    def trim(self, leaf: Node, num_pages: int) -> None:
        """Cut pages, but not all of them, off a leaf's tail. Cost: O(edge), one copy."""
        assert 0 < num_pages < len(leaf.pages)
        leaf.edge = leaf.edge[: -num_pages * self.page_bytes]
        del leaf.pages[-num_pages:]

    def _split_node(self, node: Node, num_bytes: int) -> Node:
        """Put a new node above ``node`` that takes its first ``num_bytes``; return the new one.

        The lower part keeps identity, children and heap entry, so handles stay right. Cost:
        O(edge), independent of the number of descendants.
        """
        page_bytes = self.page_bytes
        edge = node.edge
        cut = num_bytes // page_bytes
        assert 0 < num_bytes < len(edge)
        assert num_bytes % page_bytes == 0
        parent = node.parent
        assert parent is not None
        self._last_id += 1
        upper = Node(self._last_id, edge[:num_bytes], node.pages[:cut], parent, node.tick)
        upper.lock_ref = node.lock_ref
        upper.hits = node.hits
        upper.created = node.created
        upper.priority = node.priority
        upper.children = {edge[num_bytes : num_bytes + page_bytes]: node}
        parent.children[edge[:page_bytes]] = upper
        node.parent = upper
        node.edge = edge[num_bytes:]
        del node.pages[:cut]
        return upper

    def deepest(self, namespace: Namespace, data: bytes) -> Node | None:
        """Return the deepest node that has its first page on a packed key, if any."""
        node: Node | None = self.roots.get(namespace)
        if node is None:
            return None
        offset = 0
        while child := node.children.get(data[offset : offset + self.page_bytes]):
            node = child
            if not data.startswith(node.edge, offset):
                break
            offset += len(node.edge)
        return node if node.parent is not None else None

    def nodes(self, namespace: Namespace | None = None) -> Iterator[Node]:
        """Yield all nodes but the roots, parents first; of one namespace if given."""
        if namespace is None:
            stack: list[Node] = list(self.roots.values())
        else:
            stack = [self.roots[namespace]] if namespace in self.roots else []
        while stack:
            node = stack.pop()
            if node.parent is not None:
                yield node
            stack.extend(node.children.values())


def path_of(node: Node) -> tuple[Root, bytes]:
    """Return the root above a node and the packed key from there to the node's end."""
    edges: list[bytes] = []
    while node.parent is not None:
        edges.append(node.edge)
        node = node.parent
    assert type(node) is Root
    edges.reverse()
    return node, b"".join(edges)


def pages_of(node: Node) -> PageIds:
    """Return the page ids from the root to a node's end."""
    spans: list[PageIds] = []
    while node.parent is not None:
        spans.append(node.pages)
        node = node.parent
    out = array("i")
    for span in reversed(spans):
        out.extend(span)
    return out
