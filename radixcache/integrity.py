"""The invariants of a RadixCache, one function each; ``check()`` runs them all."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from radixcache.errors import IntegrityError
from radixcache.eviction_heap import EvictionHeap
from radixcache.results import CacheSize
from radixcache.tree import NO_CHILDREN, Node, RadixTree, Root

__all__ = ["check_tree"]


def check_tree(
    tree: RadixTree,
    heap: EvictionHeap,
    *,
    size: CacheSize,
    live_pins: int,
    taken: dict[int, int],
    tick: int,
) -> None:
    """Verify shape, page ids, sizes, pins and heap of a cache."""
    if NO_CHILDREN:
        raise IntegrityError("the children of all leaves are not empty")
    nodes = list(tree.nodes())
    for node in nodes:
        _check_shape(node, tree.page_bytes, tick)
    _check_roots(tree)
    for above in (*tree.roots.values(), *nodes):
        _check_links(above, tree.page_bytes)
    _check_ids(nodes)
    _check_sizes(nodes, size)
    _check_pins(nodes, live_pins, taken)
    _check_heap(nodes, heap)


def _check_roots(tree: RadixTree) -> None:
    """A root is empty, unpinned and has a child."""
    for namespace, root in tree.roots.items():
        if type(root) is not Root or root.namespace != namespace:
            raise IntegrityError(f"{namespace}: wrong root")
        if not root.children:
            raise IntegrityError(f"{namespace}: a root without children was kept")
        if root.edge or root.pages or root.lock_ref or root.parent is not None:
            raise IntegrityError(f"{namespace}: the root holds an edge, pages, a pin or a parent")


def _check_links(node: Node, page_bytes: int) -> None:
    """Children hang under their first page and point back."""
    if not node.children and node.children is not NO_CHILDREN:
        raise IntegrityError(f"{node!r} is a leaf with an empty dict of its own")
    for first_page, child in node.children.items():
        if child.parent is not node:
            raise IntegrityError(f"{child!r} does not point back to {node!r}")
        if child.edge[:page_bytes] != first_page:
            raise IntegrityError(f"{child!r} hangs under another first page")


def _check_shape(node: Node, page_bytes: int, tick: int) -> None:
    """An edge is a positive number of pages, each with its id."""
    if not node.edge:
        raise IntegrityError(f"{node!r} has an empty edge")
    if len(node.edge) != len(node.pages) * page_bytes:
        raise IntegrityError(f"{node!r} has {len(node.edge)} bytes for pages of {page_bytes} bytes")
    if not 0 <= node.created <= node.tick <= tick:
        raise IntegrityError(
            f"{node!r} was made at {node.created}, touched at {node.tick}, now is {tick}"
        )


def _check_ids(nodes: list[Node]) -> None:
    """No page is held twice, no node id given twice."""
    pages = list(chain.from_iterable(node.pages for node in nodes))
    if len(set(pages)) != len(pages):
        twice = [page for page, count in Counter(pages).items() if count > 1]
        raise IntegrityError(f"pages {twice[:8]} are held at more than one place of the tree")
    if len({node.id for node in nodes}) != len(nodes):
        raise IntegrityError("two nodes have one id")


def _check_sizes(nodes: list[Node], size: CacheSize) -> None:
    """The counters equal the walk."""
    evictable = sum(len(node.pages) for node in nodes if not node.lock_ref)
    protected = sum(len(node.pages) for node in nodes if node.lock_ref)
    if size != (evictable, protected):
        raise IntegrityError(f"the counters say {size}, the walk {evictable} and {protected}")


def _check_pins(nodes: list[Node], live_pins: int, taken: dict[int, int]) -> None:
    """A lock_ref is the pins that end here plus those of the children; all pins are found."""
    found = 0
    for node in nodes:
        own = node.lock_ref - sum(child.lock_ref for child in node.children.values())
        least = taken.get(node.id, 0)
        if own < least:
            raise IntegrityError(f"{node!r} has {own} own pins, inc_lock_ref alone took {least}")
        found += own
    if found != live_pins:
        raise IntegrityError(f"{live_pins} pins are alive, the lock_refs say {found}")
    gone = sorted(taken.keys() - {node.id for node in nodes})
    if gone:
        raise IntegrityError(f"nodes {gone[:8]} were locked by inc_lock_ref and are gone")


def _check_heap(nodes: list[Node], heap: EvictionHeap) -> None:
    """Each evictable leaf has one live entry, at or before its place in the order."""
    misplaced = heap.misplaced()
    if misplaced is not None:
        raise IntegrityError(f"the heap is out of order at {misplaced[:3]}")
    inside = {id(entry) for entry in heap}
    leaves = [node for node in nodes if not node.children and not node.lock_ref]
    if len(leaves) != heap.leaves:
        raise IntegrityError(f"{len(leaves)} leaves are evictable, {heap.leaves} were counted")
    for node in leaves:
        entry = node.entry
        if entry is None or id(entry) not in inside or entry[3] is not node:
            raise IntegrityError(f"{node!r} is not in the heap")
        need, rank = heap.need(node), heap.policy.rank(node)
        if entry[0] > need or (entry[0] == need and rank < entry[1]):
            raise IntegrityError(
                f"{node!r} waits in the heap at {entry[:2]}, behind its rank {(need, rank)}: "
                "its rank fell and rank_fell was not called"
            )
