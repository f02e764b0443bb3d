"""Pins: prefixes by name, and the most shared ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace, PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.pins import PinFinder, PinnedPrefix, Pins, prefixes_to_pin
from scheduler.analysis.prefix_trie import PrefixTrie
from tests.models.optimal_model import Ask, as_request

Prompt = tuple[int, ...]
PROMPTS = st.lists(st.lists(st.integers(0, 1), max_size=7).map(tuple), max_size=10)


def top(prompts: Sequence[Prompt], page: int, count: int) -> list[Prompt]:
    trie = PrefixTrie()
    for prompt in prompts:
        trie.add(PrefixKey(prompt))
    return [tuple(key.tokens()) for key in prefixes_to_pin(trie, page, count)]


def spared(prompts: Sequence[Prompt], prefix: Prompt, pinned: set[Prompt], page: int) -> int:
    """Return what is spared by those pages of a prefix that are not pinned yet."""
    requests = sum(prompt[: len(prefix)] == prefix for prompt in prompts)
    ends = range(page, len(prefix) + 1, page)
    return (requests - 1) * page * sum(prefix[:end] not in pinned for end in ends)


@given(PROMPTS, st.integers(1, 3), st.integers(1, 4))
def test_each_prefix_spares_most_beside_those_before_it(
    prompts: list[Prompt], page: int, count: int
) -> None:
    pinned: set[Prompt] = set()
    prefixes = {p[:end] for p in prompts for end in range(page, len(p) + 1, page)}
    found = top(prompts, page, count)
    for prefix in found:
        best = max(spared(prompts, other, pinned, page) for other in prefixes)
        assert spared(prompts, prefix, pinned, page) == best > 0
        pinned |= {prefix[:end] for end in range(page, len(prefix) + 1, page)}
    if len(found) < count:
        assert all(spared(prompts, other, pinned, page) <= 0 for other in prefixes)


def test_of_equal_prefixes_the_first_comes_first() -> None:
    assert top([(1, 2), (3, 4), (3, 4), (1, 2)], 1, 2) == [(1, 2), (3, 4)]


def test_a_prefix_belongs_to_its_namespace() -> None:
    trie = PrefixTrie()
    names = [Namespace.of(cache_salt=salt) for salt in "aabbb"]
    for name in names:
        trie.add(PrefixKey([1, 2], name))
    (first, second) = prefixes_to_pin(trie, 1, 5)
    assert (first.namespace, second.namespace) == (names[-1], names[0])


def test_block_ids_are_pages() -> None:
    trie = PrefixTrie()
    for ids in ([1, 2, 3], [1, 2, 4], [5]):
        trie.add(PrefixKey.from_block_ids(ids, 16))
    (found,) = prefixes_to_pin(trie, 16, 3)
    assert found == PrefixKey.from_block_ids([1, 2], 16)


def test_named_and_found_prefixes_come_in_whole_pages() -> None:
    finder = PinFinder(Pins((PinnedPrefix("2", 3), PinnedPrefix("0", 1)), top=1))
    for rid, prompt in enumerate([(1, 2, 3), (1, 2, 4), (5, 6, 7, 8)]):
        request = as_request(Ask(prompt), rid)
        finder.add(request, request.prompt_tokens)
    keys = finder.keys(2)
    assert [key.tokens() for key in keys] == [[5, 6], [1, 2]]  # one token of 0 is no page


def test_a_prompt_that_was_shortened_is_pinned_as_far_as_it_goes() -> None:
    finder = PinFinder(Pins((PinnedPrefix("0", 4),)))
    finder.add(as_request(Ask((1, 2))), 5)
    assert [key.tokens() for key in finder.keys(1)] == [[1, 2]]
    finder = PinFinder(Pins((PinnedPrefix("0", 6),)))
    finder.add(as_request(Ask((1, 2))), 5)
    with pytest.raises(ConfigError, match="pin 0:6: that prompt has 5 tokens"):
        finder.keys(1)


@pytest.mark.parametrize(
    ("pins", "label"),
    [
        (Pins((PinnedPrefix("a", 5),)), "a:5"),
        (Pins((PinnedPrefix("a", 5),), top=2), "a:5, top 2"),
        (Pins(tuple(PinnedPrefix(rid, 5) for rid in "abc")), "3 prefixes"),
    ],
)
def test_labels_are_short(pins: Pins, label: str) -> None:
    assert pins.label == label
