"""Sharing: the prefixes that most of the repeated work lies in, and how often each came."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from heapq import nlargest

from radixcache import KeyKind, Namespace
from scheduler.analysis.prefix_trie import PrefixTrie, TrieNode

__all__ = ["SharedPrefix", "shared_prefixes"]

ONE_RUN = 0.9
"""A stretch that so many of the requests above it go on through is one prefix with it."""
_OPENING_TOKENS = 16


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A prefix that many prompts start with.

    Prefixes may nest: ``repeated_tokens`` counts only what is new to this one, so that the
    prefixes of a trace never count a token twice.
    """

    namespace: Namespace
    prefix_tokens: int
    """Its whole length, from the start of the prompt."""
    new_tokens: int
    """What it adds to the shared prefix it goes on from."""
    requests: int
    """Prompts that start with all of it."""
    repeated_tokens: int
    """Prompt tokens in its new part that an earlier request had computed already."""
    repeated_share: float
    """... as a share of all prompt tokens."""
    opening: str
    """How its new part begins, quoted."""
    continues: int | None = None
    """The place in the list of the longest listed prefix that it goes on from, if there is one."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields for JSON."""
        return asdict(self) | {"namespace": list(self.namespace)}


@dataclass(slots=True)
class _Run:
    """A prefix while the walk goes on through it."""

    namespace: Namespace
    start_tokens: int
    opening: bytes
    parent: _Run | None
    stop_tokens: int = 0
    requests: int = 0
    repeated_tokens: int = 0


def shared_prefixes(
    trie: PrefixTrie,
    prompt_tokens: int,
    quote: Callable[[bytes, KeyKind], str],
    most: int = 10,
) -> tuple[SharedPrefix, ...]:
    """Return the prefixes with most repeated tokens, the largest first.

    ``prompt_tokens`` are those of all prompts in the trie; ``quote`` writes packed tokens.
    Counts are exact while the trie has dropped nothing, else too small by ``missed_requests``
    at most. Cost: O(nodes).
    """
    runs = (run for namespace, root in trie.roots.items() for run in _runs(namespace, root, trie))
    shown = nlargest(most, runs, key=lambda run: run.repeated_tokens)
    places = {id(run): place for place, run in enumerate(shown)}
    return tuple(
        SharedPrefix(
            namespace=run.namespace,
            prefix_tokens=run.stop_tokens,
            new_tokens=run.stop_tokens - run.start_tokens,
            requests=run.requests,
            repeated_tokens=run.repeated_tokens,
            repeated_share=run.repeated_tokens / prompt_tokens,
            opening=quote(run.opening, trie.kind),
            continues=_nearest(run, places),
        )
        for run in shown
    )


def _nearest(run: _Run, places: Mapping[int, int]) -> int | None:
    """Return the place of the nearest listed prefix above, None for none."""
    above = run.parent
    while above is not None and id(above) not in places:
        above = above.parent
    return None if above is None else places[id(above)]


def _runs(namespace: Namespace, root: TrieNode, trie: PrefixTrie) -> Iterator[_Run]:
    """Yield the prefixes of one namespace that at least two prompts share."""
    unit = trie.unit_bytes
    stack: list[tuple[TrieNode, int, _Run | None, _Run | None]] = [(root, 0, None, None)]
    while stack:
        node, above, run, parent = stack.pop()
        tokens = len(node.data) // unit * trie.unit_tokens
        below = above + tokens
        if node is not root:
            if run is None:
                run = _Run(namespace, above, node.data[: _OPENING_TOKENS * unit], parent)
            run.stop_tokens, run.requests = below, node.requests
            run.repeated_tokens += (node.requests - 1) * tokens
        children = [child for child in node.children.values() if child.requests > 1]
        heir = max(children, key=lambda child: child.requests, default=None)
        if run is not None and (heir is None or heir.requests < ONE_RUN * node.requests):
            yield run
            heir = None
        stack.extend(
            (child, below, run if child is heir else None, run) for child in reversed(children)
        )
