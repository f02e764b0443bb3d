"""TokenMirror: what a cache of whole pages holds, token by token, kept by watching it.

A prompt that shares half a page with a cached one hits nothing of it. The cache cannot tell
how much that is; a trie of the same content without the page grid can.
"""

from __future__ import annotations

from radixcache import KeyKind, Namespace, PrefixKey, common_bytes

__all__ = ["TokenMirror"]


class _Stretch:
    """Tokens in a row with no branching between them."""

    __slots__ = ("children", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.children: dict[bytes, _Stretch] = {}


class TokenMirror:
    """A residency observer that knows the longest common prefix in tokens, not in pages.

    Cost: a look, a stored and a removed span O(nodes on one path + bytes of the span).
    Memory: the cached tokens once more, where pages overlap only once.
    """

    __slots__ = ("_page_size", "_roots", "_unit")

    def __init__(self, kind: KeyKind, page_size: int) -> None:
        self._roots: dict[Namespace, _Stretch] = {}
        self._unit = kind.unit_bytes
        # Tokens of one unit of a key.
        self._page_size = page_size if kind is KeyKind.BLOCKS else 1

    def common_tokens(self, key: PrefixKey) -> int:
        """Return how many leading tokens of a key some cached page sequence shares."""
        root = self._roots.get(key.namespace)
        if root is None:
            return 0
        path, _ = self._walk(root, key.data, len(key.data))
        return sum(shared for _, shared in path) // self._unit * self._page_size

    def on_stored(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Learn that pages are cached."""
        del start_tokens  # what is before is there already
        root = self._roots.get(namespace)
        if root is None:
            root = self._roots[namespace] = _Stretch(b"")
        stop = stop_tokens // self._page_size * self._unit
        path, at = self._walk(root, key_bytes, stop)
        last, shared = path[-1]
        if at == stop:
            return
        if shared < len(last.data):
            self._split(last, shared)
        last.children[key_bytes[at : at + self._unit]] = _Stretch(key_bytes[at:stop])

    def on_removed(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Learn that pages are gone; what other pages share of them stays."""
        start, stop = (
            tokens // self._page_size * self._unit for tokens in (start_tokens, stop_tokens)
        )
        root = self._roots[namespace]
        path, at = self._walk(root, key_bytes, stop)
        assert at == stop, "only what was stored is removed"
        while at > start:
            stretch, shared = path.pop()
            if stretch.children or shared < len(stretch.data):
                return  # another page goes on from here
            if at - shared < start:
                stretch.data = stretch.data[: start - at]
                return
            at -= shared
            del path[-1][0].children[stretch.data[: self._unit]]
        if not root.children:
            del self._roots[namespace]

    def on_cleared(self, namespace: Namespace | None) -> None:
        """Learn that a namespace, or everything, is gone."""
        if namespace is None:
            self._roots.clear()
        else:
            self._roots.pop(namespace, None)

    def _split(self, stretch: _Stretch, at: int) -> None:
        """Keep data[:at]; one child takes the rest."""
        rest = _Stretch(stretch.data[at:])
        rest.children = stretch.children
        stretch.data = stretch.data[:at]
        stretch.children = {rest.data[: self._unit]: rest}

    def _walk(
        self, root: _Stretch, data: bytes, stop: int
    ) -> tuple[list[tuple[_Stretch, int]], int]:
        """Return the path of data[:stop] with the bytes shared on each stretch, and their sum."""
        unit, at, node = self._unit, 0, root
        path = [(root, 0)]
        while at < stop:
            child = node.children.get(data[at : at + unit])
            if child is None:
                break
            shared = common_bytes(child.data, data, at, stop, unit)
            path.append((child, shared))
            at += shared
            if shared < len(child.data):
                break
            node = child
        return path, at
