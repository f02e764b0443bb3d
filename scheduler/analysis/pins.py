"""Pins: which prefixes are to stay cached, and how they are found in a trace.

A prefix is named by a request that begins with it and a length, or found: the most shared
ones. Those are found one after the other, each the prefix that spares most prompt tokens,
(requests - 1) x tokens, beside the ones before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixcache import Namespace, PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.prefix_trie import PrefixTrie, TrieNode
from scheduler.request import Request

__all__ = ["PinFinder", "PinnedPrefix", "Pins", "prefixes_to_pin"]

MOST_TOP = 1000


@dataclass(frozen=True, slots=True)
class PinnedPrefix:
    """The first ``tokens`` tokens of the prompt of request ``rid``."""

    rid: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Pins:
    """What to pin: prefixes by name, and so many of the most shared ones."""

    prefixes: tuple[PinnedPrefix, ...] = ()
    top: int = 0

    def __post_init__(self) -> None:
        """Reject what would take no end of time."""
        if not 0 <= self.top <= MOST_TOP:
            raise ConfigError(f"pin top {self.top}: give at most {MOST_TOP}")

    @property
    def label(self) -> str:
        """A short name."""
        names = [f"{prefix.rid}:{prefix.tokens}" for prefix in self.prefixes]
        if len(names) > 2:
            names = [f"{len(names)} prefixes"]
        return ", ".join([*names, *([f"top {self.top}"] if self.top else [])])


class PinFinder:
    """Finds the keys of pins while requests pass by once.

    Memory: for ``top`` the trie's, at most its limit.
    """

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._wanted = {prefix.rid for prefix in pins.prefixes}
        self._found: dict[str, tuple[PrefixKey, int]] = {}
        self._trie = PrefixTrie() if pins.top else None

    def add(self, request: Request, prompt_tokens: int) -> None:
        """Look at one request; ``prompt_tokens`` are those before it was edited."""
        if request.rid in self._wanted and request.rid not in self._found:
            self._found[request.rid] = (request.key, prompt_tokens)
        if self._trie is not None:
            self._trie.add(request.key)

    def keys(self, page_size: int) -> list[PrefixKey]:
        """Return the prefixes in whole pages; those shorter than a page are left out.

        Raises: ConfigError for a request that is not there, or shorter than its prefix, and
        where ``top`` finds no prefix of a page that two requests share.
        """
        keys = [self._named(prefix, page_size) for prefix in self._pins.prefixes]
        if self._trie is not None:
            shared = prefixes_to_pin(self._trie, page_size, self._pins.top)
            if not shared:
                raise ConfigError(
                    f"pin {self._pins.label}: no two requests share a page of {page_size} tokens: "
                    "leave it out"
                )
            keys += shared
        return [key for key in keys if len(key)]

    def _named(self, prefix: PinnedPrefix, page_size: int) -> PrefixKey:
        if prefix.rid not in self._found:
            raise ConfigError(
                f"pin {prefix.rid}:{prefix.tokens}: no request is called {prefix.rid!r}: give the "
                "rid of a row (a row without one is called 'line N')"
            )
        key, prompt_tokens = self._found[prefix.rid]
        if prefix.tokens > prompt_tokens:
            raise ConfigError(
                f"pin {prefix.rid}:{prefix.tokens}: that prompt has {prompt_tokens} tokens: give "
                "at most as many"
            )
        return key[: min(prefix.tokens, len(key)) // page_size * page_size]


def prefixes_to_pin(trie: PrefixTrie, page_size: int, count: int) -> list[PrefixKey]:
    """Return up to ``count`` prefixes, in whole pages, that spare most prompt tokens together.

    Ties go to the prefix that came first. Cost: O(count x nodes of the trie).
    """
    width = trie.kind.page_bytes(page_size)
    found: list[PrefixKey] = []
    covered: dict[TrieNode, int] = {}
    for _ in range(count):
        place = _best(trie, width, covered)
        if place is None:
            break
        path = place.path()
        data = b"".join(node.data for node in path)
        end, at = len(data) // width * width, 0
        for node in path:
            at += len(node.data)
            covered[node] = max(covered.get(node, 0), min(at, end))
        found.append(PrefixKey.from_packed(data[:end], trie.kind, place.namespace, page_size))
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of the trie, and how it is reached."""

    namespace: Namespace
    node: TrieNode
    above: _Place | None
    start: int
    """Where the node's stretch starts, in bytes."""
    covered: int
    """Bytes from the root on that are pinned already."""

    def path(self) -> list[TrieNode]:
        """Return the nodes from below the root to here."""
        nodes = []
        place: _Place | None = self
        while place is not None:
            nodes.append(place.node)
            place = place.above
        return nodes[-2::-1]  # without the root, which is the last


def _best(trie: PrefixTrie, width: int, covered: dict[TrieNode, int]) -> _Place | None:
    """Return the place whose whole pages, of ``width`` bytes, spare most; None if none does."""
    best, most = None, 0
    for namespace, root in trie.roots.items():
        stack = [_Place(namespace, root, None, 0, 0)]
        while stack:
            place = stack.pop()
            node = place.node
            end = place.start + len(node.data)
            whole = end // width * width
            if whole > place.start:
                spared = (node.requests - 1) * (whole - place.covered)
                if spared > most:
                    best, most = place, spared
            for child in reversed(node.children.values()):
                if child.requests > 1:
                    here = covered.get(child, place.covered)
                    stack.append(_Place(namespace, child, place, end, here))
    return best
