"""Lookup replay against page-by-page models, and what its record says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache import EVICTION_POLICIES, LRU, Namespace, PrefixKey
from radixcache.errors import ConfigError, KeyKindError
from scheduler.lookup import lookup_replay
from scheduler.request import Request

Prompt = tuple[int, ...]
PROMPTS = st.lists(st.lists(st.integers(0, 1), max_size=5).map(tuple), max_size=12)
FEW = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple), max_size=7)


def requests(prompts: Sequence[Prompt]) -> list[Request]:
    return [
        Request(rid=str(i), key=PrefixKey(p), prompt_tokens=len(p), max_new_tokens=1)
        for i, p in enumerate(prompts)
    ]


def leaves(cached: frozenset[Prompt], pinned: set[Prompt]) -> list[Prompt]:
    parents = {page[:-1] for page in cached}
    return [page for page in cached if page not in pinned and page not in parents]


def lru_hits(prompts: Sequence[Prompt], capacity: int) -> list[int]:
    """Page size 1; a page is a prefix; the oldest leaf goes."""
    touched: dict[Prompt, int] = {}
    hits = []
    for now, prompt in enumerate(prompts):
        path = [prompt[:end] for end in range(1, len(prompt) + 1)]
        hit = next((i for i, page in enumerate(path) if page not in touched), len(path))
        pinned = set(path[:hit])
        while len(touched) + len(path) - hit > capacity:
            free = leaves(frozenset(touched), pinned)
            if not free:
                break
            del touched[min(free, key=touched.__getitem__)]
        room = min(len(path) - hit, capacity - len(touched))
        touched.update(dict.fromkeys(path[: hit + room], now))
        hits.append(hit)
    return hits


def most_hits(prompts: Sequence[Prompt], capacity: int) -> int:
    """Try every choice of leaves."""

    @cache
    def best(index: int, cached: frozenset[Prompt]) -> int:
        if index == len(prompts):
            return 0
        prompt = prompts[index]
        path = [prompt[:end] for end in range(1, len(prompt) + 1)]
        hit = next((i for i, page in enumerate(path) if page not in cached), len(path))
        pinned = set(path[:hit])
        after = {cached}
        for _ in range(len(cached) + len(path) - hit - capacity):
            after = {
                left
                for state in after
                for left in [state - {page} for page in leaves(state, pinned)] or [state]
            }
        return hit + max(
            best(index + 1, state | set(path[: hit + min(len(path) - hit, capacity - len(state))]))
            for state in after
        )

    return best(0, frozenset())


@given(PROMPTS, st.integers(1, 6))
def test_lru_equals_the_page_model(prompts: list[Prompt], capacity: int) -> None:
    found = lookup_replay(requests(prompts), 1, capacity_pages=capacity)
    hits = lru_hits(prompts, capacity)
    assert found.hit_tokens == sum(hits)
    assert found.second_half_hit_tokens == sum(hits[len(hits) // 2 :])


@settings(max_examples=40)
@given(FEW, st.integers(1, 4))
def test_no_choice_of_leaves_beats_optimal_eviction(prompts: list[Prompt], capacity: int) -> None:
    found = lookup_replay(requests(prompts), 1, capacity_pages=capacity, policy="optimal")
    assert found.hit_tokens == most_hits(prompts, capacity)


@given(PROMPTS, st.integers(1, 6), st.sampled_from(sorted(EVICTION_POLICIES)))
def test_optimal_eviction_is_never_beaten(
    prompts: list[Prompt], capacity: int, policy: str
) -> None:
    asked = requests(prompts)
    found, best = (
        lookup_replay(asked, 1, capacity_pages=capacity, policy=name)
        for name in (policy, "optimal")
    )
    assert found.hit_tokens <= best.hit_tokens


def test_what_does_not_fit_is_not_cached_and_is_counted() -> None:
    found = lookup_replay(requests([(1, 2, 3, 4), (1, 2, 3, 4)]), 1, capacity_pages=3)
    assert found.hit_tokens == 3
    assert found.uncached_pages == 2
    assert found.evicted_pages == 0


def test_the_partial_last_block_counts_only_its_tokens() -> None:
    key = PrefixKey.from_block_ids([1, 2], 512)
    asked = [Request(rid=r, key=key, prompt_tokens=600, max_new_tokens=1) for r in "ab"]
    assert lookup_replay(asked, 512).hit_tokens == 600
    assert lookup_replay(asked, 512, last_token=True).hit_tokens == 512


def test_the_last_token_rule_keeps_one_token_of_whole_pages() -> None:
    asked = requests([(1, 2, 3, 4)] * 2)
    assert lookup_replay(asked, 2).hit_tokens == 4
    assert lookup_replay(asked, 2, last_token=True).hit_tokens == 2


def test_namespaces_never_hit_each_other() -> None:
    asked = [
        Request(
            rid=salt,
            key=PrefixKey([1, 2], Namespace.of(cache_salt=salt)),
            prompt_tokens=2,
            max_new_tokens=1,
        )
        for salt in ("a", "b")
    ]
    for policy in ("lru", "optimal"):
        assert lookup_replay(asked, 1, policy=policy, capacity_pages=4).hit_tokens == 0


def test_the_record_says_by_which_definition() -> None:
    found = lookup_replay(requests([(1,)]), 1, capacity_pages=2, policy=LRU())
    assert (found.policy, found.capacity_pages, found.page_size) == ("lru", 2, 1)
    assert (found.requests, found.prompt_tokens, found.last_token) == (1, 1, False)


def test_an_empty_trace_has_no_rates() -> None:
    found = lookup_replay([], 16)
    assert found.cold_hit_rate is None
    assert found.second_half_hit_rate is None


def test_bad_arguments_say_what_to_do() -> None:
    with pytest.raises(ConfigError, match="capacity_pages is 0"):
        lookup_replay([], 16, capacity_pages=0)
    with pytest.raises(ConfigError, match="unknown eviction policy"):
        lookup_replay(requests([(1,)]), 1, policy="newest")
    mixed = [*requests([(1,)])]
    blocks = PrefixKey.from_block_ids([1], 1)
    mixed.append(Request(rid="b", key=blocks, prompt_tokens=1, max_new_tokens=1))
    for policy in ("lru", "optimal"):
        with pytest.raises(KeyKindError):
            lookup_replay(mixed, 1, policy=policy)
