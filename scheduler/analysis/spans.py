"""Diverging spans: where prompts share tokens, differ in a short span, and are equal again.

A date, a request id or a user's name in front of a long common text makes every prompt new to
a cache from there on. ``find_spans`` finds such places, ``moved`` puts the span behind the
common text instead: the repair that a change of the prompt template would make.

A place is a branching of the trie of all prompts. Of the paths below it, the next
``MAX_SPAN_TOKENS + ANCHOR_TOKENS`` tokens are looked at: where a run of ``ANCHOR_TOKENS``
tokens comes back on many of them, however far each has gone, the span ends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import count, groupby
from typing import NamedTuple

from radixcache import KeyKind, Namespace, PrefixKey, common_bytes
from scheduler.analysis.prefix_trie import DEFAULT_LIMIT_BYTES, PrefixTrie, TrieNode
from scheduler.request import Request

__all__ = [
    "ANCHOR_TOKENS",
    "MAX_SPAN_TOKENS",
    "DivergingSpan",
    "find_spans",
    "moved",
    "spans_of",
]

MAX_SPAN_TOKENS = 64
"""The longest span that is looked for."""
ANCHOR_TOKENS = 16
"""So many equal tokens in a row are no chance."""
MIN_VALUES = 3
"""Fewer different spans in front of a text are no pattern."""
_MOST_PATHS = 256
_MOST_BRANCHINGS = 500
_EXAMPLES = 3
_NEARLY_ALL = 0.9
"""Of the paths on which the commonest run comes back: fewer are an accident of values."""


@dataclass(frozen=True, slots=True)
class DivergingSpan:
    """One place where prompts part for a short span, and what they share around it."""

    namespace: Namespace
    kind: KeyKind
    before: bytes
    """The packed tokens that all of them share before the span."""
    shared: tuple[bytes, ...]
    """What they share behind it, packed: one text, or one a template; the longest first."""
    examples: tuple[bytes, ...]
    """Some different contents of the span, packed."""
    shortest_tokens: int
    longest_tokens: int
    """How long the span is, on the paths that were looked at."""
    requests: int
    """Requests that come to this place, an estimate from below."""

    @property
    def start_tokens(self) -> int:
        """Where the span starts."""
        return len(self.before) // self.kind.unit_bytes

    @property
    def shared_tokens(self) -> int:
        """Length of the longest text behind the span."""
        return len(self.shared[0]) // self.kind.unit_bytes


class _Path(NamedTuple):
    """The tokens after a branching on one way down, and where in the trie they end."""

    branch: bytes
    """The first token: paths with another one part at the branching itself."""
    data: bytes
    node: TrieNode
    unused: int
    """Bytes at the end of the node's stretch that are not part of ``data``."""


def find_spans(
    requests: Iterable[Request], page_size: int, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> list[DivergingSpan]:
    """Return the diverging spans of the requests, the one that costs most first.

    Only spans with at least a page of shared text behind them are returned: moving another
    gains nothing. Block-hash keys have none: an id names its whole prefix, so nothing is
    equal after a difference.

    Cost: one pass of `PrefixTrie`, then O(branchings looked at * paths * span), at most some
    seconds. Memory: the trie's, at most ``limit_bytes``.
    """
    trie = PrefixTrie(limit_bytes=limit_bytes)
    for request in requests:
        if request.key.kind is KeyKind.BLOCKS:
            return []
        trie.add(request.key)
    return spans_of(trie, page_size)


def spans_of(trie: PrefixTrie, page_size: int) -> list[DivergingSpan]:
    """Return the diverging spans of the prompts in a trie; see ``find_spans``."""
    if trie.kind is KeyKind.BLOCKS:
        return []
    found = []
    # The branchings that most requests come to first: (-requests, number, where).
    numbers = count()
    waiting = [
        (-root.requests, next(numbers), namespace, b"", root)
        for namespace, root in trie.roots.items()
    ]
    heapify(waiting)
    looked_at = 0
    while waiting and looked_at < _MOST_BRANCHINGS:
        requests, _, namespace, before, node = heappop(waiting)
        if -requests < MIN_VALUES:
            break
        if len(node.children) > 1:
            looked_at += 1
            span = _span_at(namespace, trie.kind, before, node, page_size)
            if span is not None:
                found.append(span)
                continue  # what is below differs by the span: look again once it is moved
        for child in node.children.values():
            place = (namespace, before + child.data, child)
            heappush(waiting, (-child.requests, next(numbers), *place))
    return sorted(found, key=lambda span: -span.requests * span.shared_tokens)


def moved(request: Request, span: DivergingSpan) -> Request:
    """Return the request with the span behind the text that follows it.

    A request without this span, or without one of its texts behind it, is returned as it is.
    """
    key = request.key
    data, start = key.data, len(span.before)
    if (
        key.kind is not span.kind
        or key.namespace != span.namespace
        or not data.startswith(span.before)
    ):
        return request
    unit = key.unit_bytes
    latest = start + MAX_SPAN_TOKENS * unit
    for text in span.shared:
        at = _aligned(data, text, start, latest, unit)
        if at == start:
            return request
        if at is not None:
            whole = span.before + text + data[start:at] + data[at + len(text) :]
            return replace(request, key=PrefixKey.from_packed(whole, key.kind, key.namespace))
    return request


def _aligned(data: bytes, text: bytes, start: int, latest: int, unit: int) -> int | None:
    """Return where the text starts, from ``start`` to ``latest``, at the start of a token."""
    at = data.find(text, start, latest + len(text))
    while at >= 0 and (at - start) % unit:
        at = data.find(text, at + 1, latest + len(text))
    return at if at >= 0 else None


def _span_at(
    namespace: Namespace, kind: KeyKind, before: bytes, node: TrieNode, page_size: int
) -> DivergingSpan | None:
    """Look for a span that starts at the end of a node."""
    unit = kind.unit_bytes
    anchor = ANCHOR_TOKENS * unit
    paths = _paths(node, (MAX_SPAN_TOKENS + ANCHOR_TOKENS) * unit, unit)
    branches: dict[bytes, set[bytes]] = {}
    times: Counter[bytes] = Counter()
    for path in paths:
        for run in {path.data[at : at + anchor] for at in _starts(path, unit, anchor)}:
            times[run] += 1
            branches.setdefault(run, set()).add(path.branch)
    ends: dict[int, int] = {}
    for index, path in enumerate(paths):
        scores = [
            (at, times[run] if len(branches[run]) > 1 else 0)
            for at in _starts(path, unit, anchor)
            for run in (path.data[at : at + anchor],)
        ]
        best = max((score for _, score in scores), default=0)
        if best >= MIN_VALUES:
            ends[index] = next(at for at, score in scores if score >= _NEARLY_ALL * best)
    values = list(dict.fromkeys(paths[index].data[:at] for index, at in ends.items()))
    if len(values) < MIN_VALUES:
        return None
    texts = _texts([(paths[index], at) for index, at in ends.items()], unit)
    if not texts or not _fills_a_page(len(before), len(texts[0]), page_size * unit):
        return None
    lengths = [len(value) // unit for value in values]
    return DivergingSpan(
        namespace=namespace,
        kind=kind,
        before=before,
        shared=texts,
        examples=tuple(values[:: max(1, len(values) // _EXAMPLES)][:_EXAMPLES]),
        shortest_tokens=min(lengths),
        longest_tokens=max(lengths),
        requests=node.requests * len(ends) // len(paths),
    )


def _fills_a_page(before: int, text: int, page: int) -> bool:
    """Tell whether a text right behind a prefix makes more whole pages of it."""
    return (before + text) // page > before // page


def _starts(path: _Path, unit: int, anchor: int) -> range:
    """Return where a run of an anchor's length starts on a path."""
    return range(0, len(path.data) - anchor + 1, unit)


def _paths(node: TrieNode, length: int, unit: int) -> list[_Path]:
    """Return up to ``_MOST_PATHS`` ways down, each of ``length`` bytes or to its end."""
    whole: list[_Path] = []
    waiting = deque(
        (child.data[:unit], child.data, child) for child in _heaviest(node, _MOST_PATHS)
    )
    while waiting:
        branch, data, below = waiting.popleft()
        if len(data) >= length or not below.children:
            whole.append(_Path(branch, data[:length], below, max(0, len(data) - length)))
            continue
        room = _MOST_PATHS - len(whole) - len(waiting)
        for child in _heaviest(below, max(1, room)):
            waiting.append((branch, data + child.data, child))
    return whole


def _heaviest(node: TrieNode, most: int) -> list[TrieNode]:
    """Return the children that most requests go through, ties in order of arrival."""
    return sorted(node.children.values(), key=lambda child: -child.requests)[:most]


def _texts(ends: Iterable[tuple[_Path, int]], unit: int) -> tuple[bytes, ...]:
    """Return the texts that follow the spans, longest first."""
    tails = sorted((_tail(path, at), path.data[:at]) for path, at in ends)
    texts, _ = _shared_texts(tails, 0, unit)
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def _tail(path: _Path, at: int) -> bytes:
    """Return what follows on a path from a place on, down where most requests go."""
    node = path.node
    parts = [path.data[at:], node.data[len(node.data) - path.unused :]]
    while node.children:
        node = _heaviest(node, 1)[0]
        parts.append(node.data)
    return b"".join(parts)


def _shared_texts(
    tails: Sequence[tuple[bytes, bytes]], known: int, unit: int
) -> tuple[list[bytes], int]:
    """Return what sorted (tail, span) pairs share beyond ``known`` bytes, and for how many spans.

    Texts that go on from a common one are taken apart where at least half of the spans have
    one of them behind: those are templates, not questions that happen to start alike.
    """
    values = len({value for _, value in tails})
    if values < MIN_VALUES:
        return [], 0
    common = _common(tails[0][0], tails[-1][0], unit)
    is_text = common - known >= ANCHOR_TOKENS * unit
    texts: list[bytes] = []
    covered = 0
    for first, part in groupby(tails, key=lambda tail: tail[0][common : common + unit]):
        if first:
            found, spans = _shared_texts(list(part), common if is_text else known, unit)
            texts += found
            covered += spans
    if not is_text:
        return texts, covered
    if 2 * covered < values:
        texts = []
    return [*texts, tails[0][0][:common]], values


def _common(one: bytes, other: bytes, unit: int) -> int:
    """Return how many bytes two texts share, in whole tokens."""
    if not one or one[:unit] != other[:unit]:
        return 0
    return common_bytes(one, other, 0, len(other), unit)
