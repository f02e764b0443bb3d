"""Eviction policies: each ranks a leaf, and the leaf of the smallest rank goes first."""

from __future__ import annotations

from typing import Any, ClassVar

from radixcache.tree import Node

__all__ = [
    "FIFO",
    "FILO",
    "LFU",
    "LRU",
    "MRU",
    "SLRU",
    "EvictionPolicy",
    "Priority",
    "Random",
]

_ALL_64_BITS = 2**64 - 1


class EvictionPolicy:
    """The order of eviction. Make your own by giving ``rank``; pass the class or an instance.

    A rank is read when a leaf becomes a candidate and again when it is about to go, so it
    may grow at any time. A rank that falls while a leaf stays a candidate must be told by
    ``cache.rank_fell``. Ranks of one policy compare with each other; equal ranks go by
    node id. A rank depends on the node and the policy's own state, never on chance.

    A policy that learns overrides ``on_release``, ``on_evict`` and ``on_drop``; the cache
    looks once, when it is made, and never calls a hook that is not overridden. Hooks read
    nodes, change nothing of them and never call the cache. Only ``on_release`` may change
    the rank of leaves that are candidates already, and says so by returning True.
    """

    name: ClassVar[str] = "custom"
    rank_can_fall: ClassVar[bool] = True
    """Whether a node's rank can be smaller than when it was last a candidate."""

    def rank(self, node: Node) -> Any:
        """Return the rank of the node's last page; the smallest is evicted first."""
        raise NotImplementedError

    def shared_tail_pages(self, node: Node) -> int:
        """Return how many pages at the node's end have that rank; then it is ranked again."""
        return len(node.pages)

    def start(self, page_size: int) -> None:
        """Get ready for one cache; called once, before anything else."""

    def on_release(self, end: Node, leaves: int) -> bool:
        """Learn from a path that has just lost its last pin at its end.

        That is a request which finished, was aborted or was retracted; publishing a part of
        a prompt is none. The end may be ranked anew for it, and all nodes above it. Before
        a page can be evicted, some path through it was released.

        Return whether other candidates changed their rank too: then all ``leaves`` of them
        are ranked again, at O(leaves); return True rarely enough for that.
        """
        return False

    def on_evict(self, leaf: Node, num_pages: int) -> None:
        """Learn that the leaf's last ``num_pages`` pages are about to be evicted."""

    def on_drop(self, node: Node) -> None:
        """Forget the node's pages: a reset or the drop of its namespace takes them."""


class LRU(EvictionPolicy):
    """Least recently used first.

    Ref: SGLang ``mem_cache/evict_policy.py``, LRUStrategy.
    """

    name = "lru"
    rank_can_fall = False

    def rank(self, node: Node) -> int:
        """Return when it was last touched."""
        return node.tick


class LFU(EvictionPolicy):
    """Least often matched first, then least recently used.

    Ref: SGLang ``mem_cache/evict_policy.py``, LFUStrategy.
    """

    name = "lfu"
    rank_can_fall = False

    def rank(self, node: Node) -> tuple[int, int]:
        """Return hits, then the last touch."""
        return node.hits, node.tick


class FIFO(EvictionPolicy):
    """Oldest first, however often it is used.

    Ref: SGLang ``mem_cache/evict_policy.py``, FIFOStrategy.
    """

    name = "fifo"
    rank_can_fall = False

    def rank(self, node: Node) -> int:
        """Return when its pages came."""
        return node.created


class FILO(EvictionPolicy):
    """Newest first.

    Ref: SGLang ``mem_cache/evict_policy.py``, FILOStrategy.
    """

    name = "filo"
    rank_can_fall = False

    def rank(self, node: Node) -> int:
        """Return when its pages came, negated."""
        return -node.created


class MRU(EvictionPolicy):
    """Most recently used first.

    Ref: SGLang ``mem_cache/evict_policy.py``, MRUStrategy.
    """

    name = "mru"
    rank_can_fall = True

    def rank(self, node: Node) -> int:
        """Return when it was last touched, negated."""
        return -node.tick


class SLRU(EvictionPolicy):
    """Never or once matched first, each segment by age.

    Ref: SGLang ``mem_cache/evict_policy.py``, SLRUStrategy, with its threshold of 2 hits.
    """

    name = "slru"
    rank_can_fall = False

    def rank(self, node: Node) -> tuple[bool, int]:
        """Return whether it is in the protected segment, then the last touch."""
        return node.hits >= 2, node.tick


class Priority(EvictionPolicy):
    """Lowest priority first, then least recently used.

    Ref: SGLang ``mem_cache/evict_policy.py``, PriorityStrategy.
    """

    name = "priority"
    rank_can_fall = False

    def rank(self, node: Node) -> tuple[int, int]:
        """Return the priority, then the last touch."""
        return node.priority, node.tick


class Random(EvictionPolicy):
    """Leaves in an order without reason, the same one for the same ``seed``: a baseline.

    A leaf draws its number when it is touched and keeps it until the next touch.

    Ref: the finalizer of SplitMix64; Steele, Lea and Flood, Fast splittable pseudorandom
    number generators (OOPSLA 2014).
    """

    name = "random"
    rank_can_fall = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def rank(self, node: Node) -> int:
        """Return 64 bits mixed from the seed, the node's id and its last touch."""
        return _mixed(_mixed(_mixed(self.seed) + node.id) + node.tick)


def _mixed(number: int) -> int:
    number = (number + 0x9E3779B97F4A7C15) & _ALL_64_BITS
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _ALL_64_BITS
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _ALL_64_BITS
    return number ^ (number >> 31)
