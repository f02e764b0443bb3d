"""check_trie: everything that is true of a waiting trie at all times, walked and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from radixcache.errors import IntegrityError
from scheduler.policies import SortKey
from scheduler.waiting_nodes import (
    CACHED,
    PENDING,
    UNCACHED,
    Item,
    LazyHeap,
    Node,
    Residency,
    Waiting,
)
from scheduler.waiting_trie import PromptTrie

__all__ = ["check_trie"]

_STRENGTH = list(Residency)


def check_trie(
    trie: PromptTrie, members: Mapping[int, Waiting], claims: Iterable[tuple[Node, Node]]
) -> None:
    """Raise IntegrityError when the trie disagrees with its requests and claims.

    ``claims`` are (last node before, last node of) what admitted requests have to publish.
    Cost: O(nodes + requests + claimed nodes).
    """
    owners: Counter[Node] = Counter()
    ends: Counter[Node] = Counter()
    anchors: Counter[Node] = Counter()
    for anchor, end in claims:
        ends[end] += 1
        anchors[anchor] += 1
        node = end
        while node.depth > anchor.depth:
            owners[node] += 1
            assert node.parent is not None
            node = node.parent
        _require(node is anchor, node, "a claim starts elsewhere")
        _require(node.residency is CACHED, node, "a claim hangs in the air")
    own = Counter(waiting.node for waiting in members.values())
    order = _parents_first(trie)
    counts = Counter(own)
    for node in reversed(order):
        if node.parent is not None:
            counts[node.parent] += counts[node]
    for node in order:
        _require(node.owners == owners[node], node, "wrong number of owners")
        _require(node.ends == ends[node], node, "wrong number of ends")
        _require(node.anchors == anchors[node], node, "wrong number of anchors")
        _require(node.own == own[node], node, "wrong number of own requests")
        _require(node.count == counts[node], node, "wrong number of requests below")
        _check_shape(trie, node)
        _check_order(trie, node)
    _check_sums(trie, order)
    for node in (*owners, *own, *anchors):
        _require(node in counts or node in owners, node, "not in the trie")
    listed = sum(node.residency is not UNCACHED and bool(node.tick) for node in order)
    _check_heap(trie.groups, listed, "the groups", lambda item: _rank(trie, item))


def _parents_first(trie: PromptTrie) -> list[Node]:
    order = list(trie.roots.values())
    for node in order:
        order += node.children.values()
    return order


def _require(truth: bool, node: Node, what: str) -> None:
    if not truth:
        raise IntegrityError(f"waiting trie, {node.residency.value} node at {node.depth}: {what}")


def _check_shape(trie: PromptTrie, node: Node) -> None:
    parent = node.parent
    if parent is None:
        _require(node.depth == 0 and node.residency is CACHED, node, "not a root")
        _require(bool(node.children or node.own), node, "an empty root is kept")
        return
    _require(parent.depth < node.depth, node, "it has no pages")
    step = trie.follow(parent, node.data, node.depth)
    _require(step == (node, node.depth), node, "listed under another page")
    _require(
        (parent.parent is None or parent.data[: _size(trie, parent)] == _above(trie, node)),
        node,
        "its data runs along another path than its parent's",
    )
    above, here = _STRENGTH.index(parent.residency), _STRENGTH.index(node.residency)
    _require(above <= here, node, f"below a {parent.residency.value} node")
    _require(bool(node.children or node.own or node.owners), node, "it is dead")
    _require(node.residency is not PENDING or node.owners > 0, node, "it has no owner")
    _require(node.residency is not UNCACHED or not node.owners, node, "it has an owner")
    if len(node.children) == 1 and not node.own and not node.ends:
        (child,) = node.children.values()
        joined = child.residency is node.residency and child.owners == node.owners
        _require(not joined, node, "an idle cut is kept")


def _size(trie: PromptTrie, node: Node) -> int:
    return node.depth * trie.page_bytes


def _above(trie: PromptTrie, node: Node) -> bytes:
    assert node.parent is not None
    return node.data[: _size(trie, node.parent)]


def _check_order(trie: PromptTrie, node: Node) -> None:
    below = (child for child in node.children.values() if child.residency is UNCACHED)
    live = [child.best for child in below if child.best is not None]
    listed = 0
    for _, tick, item in node.entries:
        if item.tick == tick:
            listed += 1
            if type(item) is Waiting:
                _require(item.node is node, node, "it lists a request of another node")
                live.append(item)
            else:
                assert type(item) is Node
                _require(item.parent is node, node, "it lists another node's child")
    _require(listed == len(live), node, f"{listed} are listed of {len(live)}")
    best = min(live, key=lambda waiting: waiting.within, default=None)
    _require(node.best is best, node, "another request is the best")
    _require(bool(node.tick) == (best is not None), node, "it is listed wrongly")
    _check_heap(node, listed, f"the heap of the node at {node.depth}", _within)


def _check_heap(heap: LazyHeap, live: int, name: str, key_of: Callable[[Item], SortKey]) -> None:
    entries = heap.entries
    if heap.live != live:
        raise IntegrityError(f"{name} counts {heap.live} live entries, not {live}")
    if len(entries) > 2 * live + 8:
        raise IntegrityError(f"{name} keeps {len(entries)} entries for {live} live ones")
    for place in range(1, len(entries)):
        if entries[place] < entries[(place - 1) // 2]:
            raise IntegrityError(f"{name} is no heap at entry {place}")
    for key, tick, item in entries:
        if item.tick == tick and key != key_of(item):
            raise IntegrityError(f"{name} lists an item under {key}, not {key_of(item)}")


def _within(item: Item) -> SortKey:
    assert item.best is not None
    return item.best.within


def _rank(trie: PromptTrie, item: Item) -> SortKey:
    assert type(item) is Node
    return trie.rank(item, _within(item))


def _check_sums(trie: PromptTrie, order: list[Node]) -> None:
    matched = sum(node.count * node.pages for node in order if node.residency is CACHED)
    uncached = (node for node in order if node.residency is UNCACHED)
    open_pages = sum(node.pages for node in uncached if node.count)
    if (matched, open_pages) != (trie.matched_pages, trie.open_pages):
        raise IntegrityError(
            f"the trie counts {trie.matched_pages} matched and {trie.open_pages} open pages, "
            f"not {matched} and {open_pages}"
        )
