"""PrefixTrie: how many prompts share which prefix, token by token, in bounded memory.

Lossy counting on a compressed trie: when the trie outgrows its limit, the rarest prefixes go,
and ``missed_requests`` says by how much any count may be too small since.

Ref: G. S. Manku, R. Motwani, Approximate frequency counts over data streams (VLDB 2002).
"""

from __future__ import annotations

from radixcache import KeyKind, Namespace, PrefixKey, common_bytes
from radixcache.errors import ConfigError, KeyKindError

__all__ = ["DEFAULT_LIMIT_BYTES", "PrefixTrie", "TrieNode"]

DEFAULT_LIMIT_BYTES = 128 * 1024 * 1024
_NODE_BYTES = 400
"""What a node costs beyond its data: the object, its dict and its bytes header."""


class TrieNode:
    """A stretch of tokens that follow each other in the same requests."""

    __slots__ = ("children", "data", "requests")

    def __init__(self, data: bytes, requests: int) -> None:
        self.data = data
        self.children: dict[bytes, TrieNode] = {}
        self.requests = requests
        """Requests whose prompt goes on through the whole stretch."""

    def split(self, at: int, unit_bytes: int) -> None:
        """Keep data[:at]; one child takes the rest and everything below."""
        rest = TrieNode(self.data[at:], self.requests)
        rest.children = self.children
        self.data = self.data[:at]
        self.children = {rest.data[:unit_bytes]: rest}


class PrefixTrie:
    """Count the requests of every prefix while prompts come in, in any order.

    Cost: ``add`` O(bytes of the key compared + nodes on its path), pruning O(nodes) for each
    half of the limit that fills. Memory: the distinct tokens, at most ``limit_bytes`` and one
    key. Raises: ConfigError for a limit below 1; KeyKindError for mixed kinds of keys.
    """

    __slots__ = (
        "_bytes", "_limit_bytes", "kind", "layout", "missed_requests", "roots", "unit_bytes",
        "unit_tokens",
    )  # fmt: skip

    def __init__(self, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        if limit_bytes < 1:
            raise ConfigError(f"limit_bytes is {limit_bytes}: give at least 1 byte")
        self.roots: dict[Namespace, TrieNode] = {}
        self.kind = KeyKind.TOKENS
        self.layout: int | None = None
        self.unit_bytes = self.kind.unit_bytes
        """Bytes of one token, or of one block id."""
        self.unit_tokens = 1
        self.missed_requests = 0
        """How much a count may be too small; 0: all are exact."""
        self._bytes = 0
        self._limit_bytes = limit_bytes

    def add(self, key: PrefixKey) -> None:
        """Count a prompt."""
        if self.layout is None:
            self.kind, self.layout = key.kind, key.layout
            self.unit_bytes, self.unit_tokens = key.unit_bytes, key.page_size
        elif key.layout != self.layout:
            raise KeyKindError(f"a {key.kind.value} key among keys of another kind")
        node = self.roots.get(key.namespace)
        if node is None:
            node = self.roots[key.namespace] = TrieNode(b"", 0)
        node.requests += 1
        data, unit = key.data, self.unit_bytes
        at, stop = 0, len(data)
        while at < stop:
            child = node.children.get(data[at : at + unit])
            if child is None:
                node.children[data[at : at + unit]] = TrieNode(data[at:], 1)
                self._bytes += stop - at + _NODE_BYTES
                break
            shared = common_bytes(child.data, data, at, stop, unit)
            if shared < len(child.data):
                child.split(shared, unit)
                self._bytes += _NODE_BYTES
            child.requests += 1
            at += shared
            node = child
        if self._bytes > self._limit_bytes:
            self._prune()

    def _prune(self) -> None:
        """Drop the rarest prefixes until half of the limit is free."""
        floor = 0
        while self._bytes > self._limit_bytes // 2:
            floor = max(1, 2 * floor)
            for root in self.roots.values():
                self._drop(root, floor)
            if not any(root.children for root in self.roots.values()):
                break
        self.missed_requests += floor

    def _drop(self, root: TrieNode, floor: int) -> None:
        """Drop the subtrees of at most ``floor`` requests below a root."""
        stack = [root]
        while stack:
            node = stack.pop()
            for first, child in list(node.children.items()):
                if child.requests > floor:
                    stack.append(child)
                    continue
                del node.children[first]
                doomed = [child]
                while doomed:
                    gone = doomed.pop()
                    self._bytes -= len(gone.data) + _NODE_BYTES
                    doomed.extend(gone.children.values())
