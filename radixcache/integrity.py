"""The invariants of a RadixCache, one function each; ``check()`` runs them all."""

from __future__ import annotations

from collections import Counter

from radixcache.errors import IntegrityError
from radixcache.eviction_heap import EvictionHeap
from radixcache.results import CacheSize
from radixcache.tree import Node, RadixTree, Root

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
    nodes = list(tree.nodes())
    _check_roots(tree)
    for node in nodes:
        _check_shape(node, tree.page_bytes, tick)
    _check_ids(nodes)
    _check_sizes(nodes, size)
    _check_pins(nodes, live_pins, taken)
    _check_heap(nodes, heap)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise IntegrityError(message)


def _check_roots(tree: RadixTree) -> None:
    """A root is empty, unpinned and has a child."""
    for namespace, root in tree.roots.items():
        _require(type(root) is Root and root.namespace == namespace, f"{namespace}: wrong root")
        _require(bool(root.children), f"{namespace}: a root without children was kept")
        _require(
            not root.edge and not root.pages and not root.lock_ref and root.parent is None,
            f"{namespace}: the root holds an edge, pages, a pin or a parent",
        )
        _check_links(root, tree.page_bytes)


def _check_links(node: Node, page_bytes: int) -> None:
    """Children hang under their first page and point back."""
    for first_page, child in node.children.items():
        _require(child.parent is node, f"{child!r} does not point back to {node!r}")
        _require(child.edge[:page_bytes] == first_page, f"{child!r} hangs under another first page")


def _check_shape(node: Node, page_bytes: int, tick: int) -> None:
    """An edge is a positive number of pages, each with its id."""
    _require(bool(node.edge), f"{node!r} has an empty edge")
    _require(
        len(node.edge) == len(node.pages) * page_bytes,
        f"{node!r} has {len(node.edge)} bytes for pages of {page_bytes} bytes",
    )
    _require(
        0 <= node.created <= node.tick <= tick,
        f"{node!r} was made at {node.created}, touched at {node.tick}, now is {tick}",
    )
    _check_links(node, page_bytes)


def _check_ids(nodes: list[Node]) -> None:
    """No page is held twice, no node id given twice."""
    pages = Counter(page for node in nodes for page in node.pages)
    twice = [page for page, count in pages.items() if count > 1]
    _require(not twice, f"pages {twice[:8]} are held at more than one place of the tree")
    _require(len({node.id for node in nodes}) == len(nodes), "two nodes have one id")


def _check_sizes(nodes: list[Node], size: CacheSize) -> None:
    """The counters equal the walk."""
    evictable = sum(len(node.pages) for node in nodes if not node.lock_ref)
    protected = sum(len(node.pages) for node in nodes if node.lock_ref)
    walk = CacheSize(evictable, protected)
    _require(size == walk, f"the counters say {size}, the walk {walk}")


def _check_pins(nodes: list[Node], live_pins: int, taken: dict[int, int]) -> None:
    """A lock_ref is the pins that end here plus those of the children; all pins are found."""
    found = 0
    alive = {node.id for node in nodes}
    for node in nodes:
        own = node.lock_ref - sum(child.lock_ref for child in node.children.values())
        least = taken.get(node.id, 0)
        _require(own >= least, f"{node!r} has {own} own pins, inc_lock_ref alone took {least}")
        found += own
    _require(found == live_pins, f"{live_pins} pins are alive, the lock_refs say {found}")
    gone = sorted(taken.keys() - alive)
    _require(not gone, f"nodes {gone[:8]} were locked by inc_lock_ref and are gone")


def _check_heap(nodes: list[Node], heap: EvictionHeap) -> None:
    """Each evictable leaf has one live entry, at or before its place in the order."""
    entries = list(heap)
    order = [entry[:4] for entry in entries]
    for position in range(1, len(order)):
        _require(order[(position - 1) // 2] <= order[position], "the heap is out of order")
    inside = {id(entry) for entry in entries}
    leaves = [node for node in nodes if not node.children and not node.lock_ref]
    _require(len(leaves) == heap.leaves, f"{len(leaves)} evictable leaves, not {heap.leaves}")
    for node in leaves:
        entry = node.entry
        _require(entry is not None and id(entry) in inside, f"{node!r} is not in the heap")
        assert entry is not None
        _require(entry[4] is node, f"{node!r} has the entry of another node")
        need, rank = heap.need(node), heap.policy.rank(node)
        _require(
            entry[0] < need or (entry[0] == need and not rank < entry[1]),
            f"{node!r} waits in the heap at {entry[:2]}, behind its rank {(need, rank)}: "
            "its rank fell and rank_fell was not called",
        )
