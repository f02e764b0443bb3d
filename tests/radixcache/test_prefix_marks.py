"""Marks are equal for equal prefixes, also when pages come back under other ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixcache import EvictionPolicy, Namespace, PrefixKey, RadixCache
from radixcache.prefix_marks import PrefixMarks
from radixcache.tree import Node

Prefix = tuple[Namespace, tuple[int, ...]]


class Marking(EvictionPolicy):
    """LRU that marks every path."""

    name = "marking"

    def __init__(self) -> None:
        self.marks = PrefixMarks()
        self.last: tuple[list[int], int] = ([], 0)

    def rank(self, node: Node) -> int:
        return node.tick

    def on_release(self, end: Node, leaves: int) -> bool:
        self.last = self.marks.learn(end)
        return False

    def on_evict(self, leaf: Node, num_pages: int) -> None:
        self.marks.forget(leaf.pages[-num_pages:])


PROMPTS = st.lists(
    st.tuples(
        st.sampled_from([Namespace.of(), Namespace.of("other")]),
        st.lists(st.integers(0, 1), min_size=1, max_size=6),
        st.integers(0, 6),
    ),
    max_size=25,
)


@given(PROMPTS)
def test_a_mark_stands_for_one_prefix(prompts: list[tuple[Namespace, list[int], int]]) -> None:
    policy = Marking()
    cache = RadixCache(2, policy=policy)
    mark_of: dict[Prefix, int] = {}
    page = 0
    for space, symbols, evicted in prompts:
        tokens = [token for symbol in symbols for token in (7, symbol)]
        hit = cache.match(PrefixKey(tokens, space))
        known = hit.prefix_tokens // 2
        own = range(page, page := page + len(symbols) - known)
        stored = cache.insert(PrefixKey(tokens, space), [*hit.pages, *own])
        cache.release(hit)
        pages = list(stored.handle.pages)
        cache.release(stored.handle)
        assert policy.last == (pages, known)
        for end, page_id in enumerate(pages, 1):
            mark = policy.marks.of_page[page_id]
            assert mark_of.setdefault((space, tuple(symbols[:end])), mark) == mark
        cache.evict(evicted)
        assert len(policy.marks.of_page) == cache.size.total_pages
    assert len(set(mark_of.values())) == len(mark_of)
