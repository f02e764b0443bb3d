"""The loss waterfall: exact for every request, equal to a slow model, in the proportions known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import KeyKind, Namespace, PrefixKey
from radixcache.errors import KeyKindError
from scheduler.analysis.losses import LossWaterfall, TokenLosses, loss_waterfall, page_digests
from scheduler.analysis.token_mirror import TokenMirror
from scheduler.lookup import lookup_replay
from scheduler.lookup_cache import LookupCache
from scheduler.optimal import optimal_prefill
from scheduler.request import Request
from scheduler.trace import open_trace
from tests.models import loss_model

NAMESPACES = (Namespace(), Namespace.of(lora="a"))


def request(
    tokens: list[int],
    output: list[int] | None = None,
    namespace: Namespace = NAMESPACES[0],
    max_match_tokens: int | None = None,
) -> Request:
    return Request(
        rid="r",
        key=PrefixKey(tokens, namespace),
        prompt_tokens=len(tokens),
        max_new_tokens=1,
        max_match_tokens=max_match_tokens,
        recorded_output_ids=None if output is None else tuple(output),
    )


def told(
    requests: list[Request], page_size: int, **options: object
) -> tuple[LossWaterfall, list[TokenLosses]]:
    parts: list[TokenLosses] = []
    found = loss_waterfall(
        requests,
        page_size,
        on_request=lambda _, losses: parts.append(losses),
        **options,  # type: ignore[arg-type]
    )
    return found, parts


def test_every_kind_of_loss_by_hand() -> None:
    requests = [
        request([1, 2, 3, 4, 5, 6]),
        request([1, 2, 3, 4, 5, 9]),  # 2 pages, and a token of the third
        request([1, 2, 3, 4]),  # its second page holds the last token
        request([7, 7, 8, 8, 9, 9, 9, 9]),  # fills the cache of 4 pages
        request([1, 2, 3, 4, 5]),
    ]
    found, parts = told(requests, 2, capacity_pages=4)
    assert parts == [
        TokenLosses(0, 0, 0, 0, 0, 6),
        TokenLosses(4, 0, 1, 0, 0, 1),
        TokenLosses(2, 2, 0, 0, 0, 0),
        TokenLosses(0, 0, 0, 0, 0, 8),
        TokenLosses(0, 0, 0, 0, 4, 1),
    ]
    assert (found.hit_tokens, found.evicted_tokens, found.prompt_tokens) == (6, 4, 29)
    assert (found.eviction_policy_tokens, found.order_tokens) == (0, 4)  # no policy could keep them
    assert found.hit_rate == pytest.approx(6 / 29)


ids = st.lists(st.integers(0, 2), min_size=1, max_size=12)
requests_strategy = st.lists(
    st.builds(
        request,
        ids,
        st.none() | ids,
        st.sampled_from(NAMESPACES),
        st.none() | st.integers(0, 12),
    ),
    max_size=14,
)


@given(requests_strategy, st.integers(1, 4), st.none() | st.integers(1, 8))
def test_losses_equal_the_slow_model(
    requests: list[Request], page_size: int, capacity: int | None
) -> None:
    found, parts = told(requests, page_size, capacity_pages=capacity)
    assert [tuple(part) for part in parts] == loss_model.losses(requests, page_size, capacity)
    assert [sum(part) for part in parts] == [one.prompt_tokens for one in requests]
    assert found.evicted_tokens == found.eviction_policy_tokens + found.order_tokens
    assert min(found.eviction_policy_tokens, found.order_tokens) >= 0
    if capacity is None:
        assert found.evicted_tokens == 0


@given(requests_strategy, st.integers(1, 4), st.integers(1, 8))
def test_the_bounds_beside_it_are_those_of_their_own_modules(
    requests: list[Request], page_size: int, capacity: int
) -> None:
    found, _ = told(requests, page_size, capacity_pages=capacity)
    replays = {
        policy: lookup_replay(
            requests,
            page_size,
            capacity_pages=capacity,
            policy=policy,
            last_token=True,
            cache_outputs=True,
        ).hit_tokens
        for policy in ("lru", "optimal")
    }
    assert found.hit_tokens == replays["lru"]
    if found.evicted_tokens:
        assert found.optimal_eviction_hit_tokens == replays["optimal"]
    bound = optimal_prefill(requests, page_size, cached_outputs=True)
    assert found.prompt_tokens - found.dfs_optimal_hit_tokens == bound.prefill_tokens


@given(requests_strategy, st.integers(1, 4), st.integers(1, 8))
def test_a_mirror_knows_the_common_tokens(
    requests: list[Request], page_size: int, capacity: int
) -> None:
    pages = loss_model.CachedPages(page_size)
    mirror = TokenMirror(KeyKind.TOKENS, page_size)
    for observer in (pages, mirror):
        cache = LookupCache(page_size, capacity_pages=capacity, observer=observer)
        for one in requests:
            cache.serve(one)
    for cleared in ((), NAMESPACES[1:], (None,)):
        for namespace in cleared:
            pages.on_cleared(namespace)
            mirror.on_cleared(namespace)
        for one in requests:
            assert mirror.common_tokens(one.key) == pages.common_tokens(one.key)


def test_outputs_are_left_out_when_asked() -> None:
    requests = [request([1, 2, 3], [4, 5, 6]), request([1, 2, 3, 4, 5, 9])]
    assert told(requests, 1)[0].hit_tokens == 5
    assert told(requests, 1, cached_outputs=False)[0].hit_tokens == 3


def test_equal_prefixes_have_equal_digests() -> None:
    one, other = PrefixKey([1, 2, 3, 4, 5]), PrefixKey([1, 2, 9, 4])
    mine, theirs = page_digests(one, 2), page_digests(other, 2)
    assert len(mine) == len(theirs) == 2
    assert mine[0] == theirs[0]
    assert mine[1] != theirs[1]
    assert page_digests(PrefixKey([1, 2], NAMESPACES[1]), 2)[0] != mine[0]
    assert not page_digests(PrefixKey.from_block_ids([], 16), 16)
    assert not page_digests(PrefixKey([1]), 2)


def test_an_empty_trace_loses_nothing() -> None:
    found, parts = told([], 16, capacity_pages=4)
    assert parts == []
    assert (found.prompt_tokens, found.hit_rate) == (0, None)
    assert found.as_dict()["hit_rate"] is None


def test_mixed_kinds_are_refused() -> None:
    blocks = Request(
        rid="b",
        key=PrefixKey.from_block_ids([1], 16),
        prompt_tokens=16,
        max_new_tokens=1,
    )
    with pytest.raises(KeyKindError, match="among keys of another kind"):
        told([request([1] * 20), blocks], 16)


@pytest.mark.parametrize(
    ("name", "page_size"),
    [
        ("sharegpt_dummy.json", 16),
        ("sharegpt_toolcall.json.gz", 16),
        ("sharegpt_toolcall.json.gz", 64),
        ("agent_miniswe.jsonl.gz", 64),
    ],
)
@pytest.mark.parametrize("capacity_tokens", [None, 16_384])
def test_it_adds_up_on_the_real_traces(
    shared_dir: Path, name: str, page_size: int, capacity_tokens: int | None
) -> None:
    capacity = None if capacity_tokens is None else capacity_tokens // page_size
    requests = list(open_trace(shared_dir / "traces" / name))
    found, parts = told(requests, page_size, capacity_pages=capacity)
    assert [sum(part) for part in parts] == [one.prompt_tokens for one in requests]
    assert all(min(part) >= 0 for part in parts)
    assert sum(map(sum, parts)) == found.prompt_tokens


def test_every_sample_is_a_request() -> None:
    one = request([1, 2, 3, 4, 5])
    found, parts = told([replace(one, samples=3)], 2)
    assert found.requests == 3
    assert [part.hit for part in parts] == [0, 4, 4]
