"""C* against its definition, and the meter's bookkeeping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace, PrefixKey
from radixcache.errors import ConfigError, KeyKindError
from scheduler.optimal import OptimalMeter, computed_key, optimal_prefill
from scheduler.request import Request
from tests.models.optimal_model import Ask, as_request, slow_optimum

TOKENS = st.lists(st.integers(0, 1), max_size=9).map(tuple)
ASKS = st.builds(Ask, TOKENS, st.lists(st.integers(0, 1), max_size=6).map(tuple), st.none())
CAPPED = st.builds(Ask, TOKENS, st.just(()), st.none() | st.integers(0, 9))
PAGES = st.sampled_from([1, 2, 4])


def request(tokens: list[int], **more: object) -> Request:
    return Request(
        rid="r", key=PrefixKey(tokens), prompt_tokens=len(tokens), max_new_tokens=4, **more
    )  # type: ignore[arg-type]


@given(st.lists(ASKS, max_size=8), PAGES, st.booleans(), st.lists(TOKENS, max_size=2))
def test_it_equals_the_definition(
    asks: list[Ask], page: int, outputs: bool, warm: list[tuple[int, ...]]
) -> None:
    bound = optimal_prefill(
        map(as_request, asks), page, cached_outputs=outputs, warm=map(PrefixKey, warm)
    )
    assert bound.prefill_tokens == slow_optimum(asks, page, outputs=outputs, warm=warm)
    assert bound.prompt_tokens == sum(len(ask.prompt) for ask in asks)
    assert bound.exact


@given(st.lists(CAPPED, max_size=8), PAGES)
def test_a_capped_match_forces_every_page_beyond_it(asks: list[Ask], page: int) -> None:
    bound = optimal_prefill(map(as_request, asks), page)
    assert bound.prefill_tokens == slow_optimum(asks, page)


@given(st.lists(ASKS, max_size=8), PAGES, st.randoms(use_true_random=False))
def test_the_order_of_adding_does_not_matter(asks: list[Ask], page: int, rng: object) -> None:
    meter = OptimalMeter(page)
    events = [(ask, kind) for ask in asks for kind in ("prompt", "output")]
    rng.shuffle(events)  # type: ignore[attr-defined]
    for ask, kind in events:
        if kind == "prompt":
            meter.add(PrefixKey(ask.prompt), len(ask.prompt))
        else:
            meter.add_output(PrefixKey(ask.computed()), len(ask.prompt))
    assert meter.optimal_prefill_tokens == slow_optimum(asks, page, outputs=True)


@given(st.lists(TOKENS, max_size=8), PAGES)
def test_add_returns_the_hit_of_an_unbounded_cache(
    prompts: list[tuple[int, ...]], page: int
) -> None:
    meter, cached = OptimalMeter(page), set()
    for prompt in prompts:
        ends = range(page, len(prompt) + 1, page)
        seen = max((end for end in ends if prompt[:end] in cached), default=0)
        usable = min(seen, Ask(prompt).cap(page))
        assert meter.add(PrefixKey(prompt), len(prompt)) == usable
        cached.update(prompt[:end] for end in ends)
    assert meter.distinct_pages == len(cached)


def test_two_equal_prompts_of_whole_pages_both_compute_the_last_page() -> None:
    bound = optimal_prefill([request([1, 2, 3, 4])] * 2, 2)
    assert bound.prefill_tokens == 2 + 2 * 2
    assert bound.hit_rate == 0.25


def test_nothing_asked_gives_no_rate() -> None:
    assert optimal_prefill([], 4).hit_rate is None


def test_namespaces_never_share() -> None:
    meter = OptimalMeter(1)
    for salt in ("a", "b"):
        meter.add(PrefixKey([1, 2, 3], Namespace.of(cache_salt=salt)), 3)
    assert meter.optimal_prefill_tokens == 6


def test_tokens_beyond_a_block_key_are_always_computed() -> None:
    meter = OptimalMeter(512)
    key = PrefixKey.from_block_ids([7, 8], 512)
    assert meter.add(key, 1100) == 0
    assert meter.add(key, 1100) == 1024
    assert meter.optimal_prefill_tokens == 1024 + 2 * 76


def test_block_keys_of_another_page_size_are_refused() -> None:
    with pytest.raises(KeyKindError, match="512-token blocks"):
        OptimalMeter(16).add(PrefixKey.from_block_ids([7], 512), 512)


def test_page_size_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="page_size is 0"):
        OptimalMeter(0)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, None),
        ({"recorded_output_ids": (7, 8, 9)}, [1, 2, 7, 8]),
        ({"recorded_output_ids": (7,)}, None),
        ({"recorded_output_ids": (7, 8, 9), "cache_output": "none"}, None),
        (
            {"recorded_output_ids": (7, 8, 9), "cache_output": "visible", "visible_tokens": 1},
            [1, 2, 7],
        ),
        ({"recorded_output_ids": (7, 8, 9), "abort_after_tokens": 1}, [1, 2, 7]),
        ({"recorded_output_ids": (7, 8, 9), "abort_after_tokens": 9}, [1, 2, 7, 8]),
    ],
)
def test_the_last_sampled_token_is_never_cached(
    more: dict[str, object], expected: list[int] | None
) -> None:
    asked = request([1, 2], **more)
    key = computed_key(asked)
    assert (None if key is None else key.tokens()) == expected
    assert asked.key.tokens() == [1, 2]


def prompts(count: int, shared: int) -> list[list[int]]:
    """``count`` prompts of 40 tokens; every ``shared`` in a row have 24 in common."""
    return [[i // shared * 100 + t for t in range(24)] + [10_000 + i] * 16 for i in range(count)]


def test_beyond_the_limit_the_estimate_stays_within_the_stated_error() -> None:
    exact, rough = OptimalMeter(4), OptimalMeter(4, exact_limit_bytes=10_000)
    for tokens in [*prompts(3_000, 5), *prompts(500, 5)]:
        key = PrefixKey(tokens)
        exact.add(key, len(tokens))
        rough.add(key, len(tokens))
    assert exact.exact
    assert not rough.exact
    assert rough.optimal_hit_rate == pytest.approx(exact.optimal_hit_rate, abs=0.013)
    assert rough.distinct_pages == pytest.approx(exact.distinct_pages, rel=0.03)


def test_beyond_the_limit_outputs_are_still_free() -> None:
    exact, rough = OptimalMeter(4), OptimalMeter(4, exact_limit_bytes=1)
    for tokens in prompts(2_000, 5):
        for meter in (exact, rough):
            meter.add(PrefixKey(tokens[:24]), 24, PrefixKey(tokens))
            meter.add(PrefixKey(tokens), 40)
    assert rough.optimal_hit_rate == pytest.approx(exact.optimal_hit_rate, abs=0.013)


def test_an_unused_limit_keeps_the_numbers_exact() -> None:
    tight = OptimalMeter(4, exact_limit_bytes=600)
    for tokens in (list(range(40)), list(range(40)), list(range(24))):
        tight.add(PrefixKey(tokens), len(tokens))
    assert tight.exact
    assert tight.optimal_prefill_tokens == 4 * (10 + 1 + 0)
