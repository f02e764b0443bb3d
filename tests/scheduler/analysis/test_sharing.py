"""Shared prefixes: exact counts, nothing counted twice, and a bound where memory is short."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import KeyKind, Namespace, PrefixKey
from radixcache.errors import ConfigError, KeyKindError
from scheduler.analysis.prefix_trie import PrefixTrie, TrieNode
from scheduler.analysis.sharing import SharedPrefix, shared_prefixes


def quote(data: bytes, kind: KeyKind) -> str:
    assert kind is KeyKind.TOKENS
    return str(memoryview(data).cast("I").tolist())


def trie_of(prompts: list[list[int]], **options: int) -> PrefixTrie:
    trie = PrefixTrie(**options)
    for tokens in prompts:
        trie.add(PrefixKey(tokens))
    return trie


def found_in(prompts: list[list[int]], **options: int) -> tuple[SharedPrefix, ...]:
    total = sum(map(len, prompts))
    return shared_prefixes(trie_of(prompts, **options), total, quote, most=10_000)


prompt_lists = st.lists(st.lists(st.integers(0, 2), max_size=9), max_size=25)


@given(prompt_lists)
def test_repeated_tokens_add_up_to_all_that_repeats(prompts: list[list[int]]) -> None:
    times = Counter(tuple(p[:end]) for p in prompts for end in range(1, len(p) + 1))
    repeated = sum(count - 1 for count in times.values())
    assert sum(prefix.repeated_tokens for prefix in found_in(prompts)) == repeated


@given(prompt_lists)
def test_a_prefix_is_counted_in_every_prompt_that_starts_with_it(
    prompts: list[list[int]],
) -> None:
    times = Counter(tuple(p[:end]) for p in prompts for end in range(1, len(p) + 1))
    trie = trie_of(prompts)
    stack: list[tuple[list[int], TrieNode]] = [([], root) for root in trie.roots.values()]
    seen = 0
    while stack:
        above, node = stack.pop()
        tokens = above + memoryview(node.data).cast("I").tolist() if node.data else above
        if tokens:
            assert node.requests == times[tuple(tokens)]
            seen += len(node.data) // 4
        stack += [(tokens, child) for child in node.children.values()]
    assert seen == len(times)


def test_the_largest_comes_first_and_nests() -> None:
    system, examples = list(range(100, 200)), list(range(200, 230))
    prompts = [[*system, n] for n in range(50)] + [[*system, *examples, n] for n in range(20)]
    first, second = found_in(prompts)
    assert (first.prefix_tokens, first.new_tokens, first.requests) == (100, 100, 70)
    assert first.repeated_tokens == 69 * 100
    assert (second.prefix_tokens, second.new_tokens, second.requests) == (130, 30, 20)
    assert second.repeated_tokens == 19 * 30
    assert second.opening == str(examples[:16])
    assert first.repeated_share == pytest.approx(6900 / sum(map(len, prompts)))
    assert json.loads(json.dumps(first.as_dict()))["namespace"] == [None, None, None]


def test_a_rare_branch_does_not_cut_a_prefix_in_two() -> None:
    text = list(range(100))
    (only,) = found_in([[*text, 1_000 + n] for n in range(30)] + [[*text[:40], 7]])
    assert (only.prefix_tokens, only.requests) == (100, 30)
    assert only.repeated_tokens == 30 * 40 + 29 * 60


def test_block_ids_count_their_tokens() -> None:
    trie = PrefixTrie()
    for last in (3, 4):
        trie.add(PrefixKey.from_block_ids([1, 2, last], 512))
    (only,) = shared_prefixes(trie, 3072, lambda data, kind: f"{kind.value} {len(data)}")
    assert (only.prefix_tokens, only.repeated_tokens, only.opening) == (1024, 1024, "blocks 16")


def test_namespaces_share_nothing() -> None:
    trie = PrefixTrie()
    for name in ("a", "b"):
        trie.add(PrefixKey([1, 2, 3], Namespace.of(lora=name)))
    assert shared_prefixes(trie, 6, quote) == ()


def test_a_full_trie_keeps_what_is_frequent_and_says_what_it_may_miss() -> None:
    rng = np.random.default_rng(5)
    text = list(range(300))
    prompts = []
    for _ in range(400):
        prompts.append([*text, *map(int, rng.integers(1_000, 2_000, 50))])
        prompts.append(list(map(int, rng.integers(2_000, 1_000_000, 50))))
    trie = trie_of(prompts, limit_bytes=60_000)
    assert trie.missed_requests > 0
    first = shared_prefixes(trie, sum(map(len, prompts)), quote)[0]
    assert first.prefix_tokens == 300
    assert 400 - trie.missed_requests <= first.requests <= 400


def test_what_makes_no_trie_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit_bytes is 0"):
        PrefixTrie(limit_bytes=0)
    trie = trie_of([[1]])
    with pytest.raises(KeyKindError):
        trie.add(PrefixKey([1], wide=True))


@given(prompt_lists)
def test_a_prefix_goes_on_from_within_the_one_that_is_named(prompts: list[list[int]]) -> None:
    found = found_in(prompts)
    for prefix in found:
        start = prefix.prefix_tokens - prefix.new_tokens
        if prefix.continues is None:
            assert start == 0
            continue
        above = found[prefix.continues]
        assert above.prefix_tokens - above.new_tokens < start <= above.prefix_tokens


def test_where_that_one_is_not_listed_the_next_above_is_named() -> None:
    long, short, last = list(range(100)), [500], list(range(200, 250))
    prompts = [[*long, *short, *last], [*long, *short, *last], [*long, *short], *[long] * 9]
    trie, total = trie_of(prompts), sum(map(len, prompts))
    every = shared_prefixes(trie, total, quote, most=9)
    assert [(p.new_tokens, p.continues) for p in every] == [(100, None), (50, 2), (1, 0)]
    listed = shared_prefixes(trie, total, quote, most=2)
    assert [(p.new_tokens, p.continues) for p in listed] == [(100, None), (50, 0)]
