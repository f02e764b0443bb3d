"""format_tree: a readable dump of a RadixCache, for people who debug."""

from __future__ import annotations

from radixcache.packing import unpack_units
from radixcache.radix_cache import RadixCache
from radixcache.tree import Node

__all__ = ["format_tree"]

_PREVIEW_UNITS = 6


def format_tree(cache: RadixCache, max_nodes: int = 50) -> str:
    """Return the cache's nodes as indented lines, at most ``max_nodes`` of them.

    Children follow their parent in the order they came; what was left out is counted.
    Cost: O(nodes).

    >>> from radixcache import PrefixKey
    >>> cache = RadixCache(page_size=2)
    >>> handle = cache.insert(PrefixKey([1, 2, 3, 4]), [7, 8]).handle
    >>> print(format_tree(cache))
    RadixCache tokens, page size 2, lru: 0 evictable and 2 protected pages
    Namespace(extra_key=None, lora=None, cache_salt=None)
      1 2 3 4: pages 7 8, lock_ref 1, hits 0, tick 1

    """
    size = cache.size
    lines = [
        f"RadixCache {cache.kind.value}, page size {cache.page_size}, {cache.policy.name}: "
        f"{size.evictable_pages} evictable and {size.protected_pages} protected pages"
    ]
    shown = left_out = 0
    for namespace, root in cache._roots.items():
        if shown < max_nodes:
            lines.append(repr(namespace))
        stack = [(child, 1) for child in reversed(root.children.values())]
        while stack:
            node, depth = stack.pop()
            stack.extend((child, depth + 1) for child in reversed(node.children.values()))
            if shown < max_nodes:
                lines.append("  " * depth + _line(node, cache.kind.unit_bytes))
                shown += 1
            else:
                left_out += 1
    if left_out:
        lines.append(f"... and {left_out} nodes more")
    return "\n".join(lines)


def _line(node: Node, unit_bytes: int) -> str:
    units = unpack_units(node.edge[: _PREVIEW_UNITS * unit_bytes], unit_bytes)
    tokens = " ".join(map(str, units))
    more = " ..." if len(node.edge) > _PREVIEW_UNITS * unit_bytes else ""
    pages = " ".join(map(str, node.pages[:_PREVIEW_UNITS]))
    pages += f" ... ({len(node.pages)})" if len(node.pages) > _PREVIEW_UNITS else ""
    return (
        f"{tokens}{more}: pages {pages}, lock_ref {node.lock_ref}, "
        f"hits {node.hits}, tick {node.tick}"
    )
