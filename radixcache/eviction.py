"""Eviction policies: each ranks a leaf, and the leaf of the smallest rank goes first."""

from __future__ import annotations

from typing import Any, ClassVar

from radixcache.errors import ConfigError
from radixcache.tree import Node

__all__ = [
    "EVICTION_POLICIES",
    "FIFO",
    "FILO",
    "LFU",
    "LRU",
    "MRU",
    "SLRU",
    "EvictionPolicy",
    "Priority",
    "make_policy",
]


class EvictionPolicy:
    """The order of eviction. Make your own by giving ``rank``; pass the class or an instance.

    A rank is read when a leaf becomes a candidate and again when it is about to go, so it
    may grow at any time. A rank that falls while a leaf stays a candidate must be told by
    ``cache.rank_fell``. Ranks of one policy compare with each other; equal ranks go by
    node id. A rank depends on the node and the policy's own state, never on chance.
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


EVICTION_POLICIES: dict[str, type[EvictionPolicy]] = {
    policy.name: policy for policy in (LRU, LFU, FIFO, FILO, MRU, SLRU, Priority)
}
"""The built-in policies by name."""


def make_policy(policy: str | type[EvictionPolicy] | EvictionPolicy) -> EvictionPolicy:
    """Return the policy of a name, an instance of a class, or the instance given.

    Raises:
        ConfigError: the name is unknown, or it is no policy.

    """
    if isinstance(policy, str):
        if policy not in EVICTION_POLICIES:
            known = ", ".join(sorted(EVICTION_POLICIES))
            raise ConfigError(f"unknown eviction policy {policy!r}: use one of {known}")
        return EVICTION_POLICIES[policy]()
    if isinstance(policy, type):
        policy = policy()
    if not callable(getattr(policy, "rank", None)):
        raise ConfigError(f"{policy!r} is no eviction policy: give it rank(node)")
    return policy
