"""A sampled curve: all pages give the exact one, fewer give an estimate that says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.capacity_curve import capacity_curve
from scheduler.analysis.sampled_curve import sampled_curve
from scheduler.request import Request
from tests.models.curve_cases import CHATS, REQUESTS, most_capacity


def sessions(seed: int, count: int = 300) -> list[Request]:
    """Prompts that grow by a few tokens each time one of some sessions is drawn."""
    rng = np.random.default_rng(seed)
    history: list[list[int]] = [[1, 2, 3]] * 40
    found = []
    for number in range(count):
        session = int(rng.integers(len(history)))
        history[session] = [*history[session], *rng.integers(0, 1000, 6).tolist()]
        tokens = history[session]
        found.append(
            Request(
                rid=str(number),
                key=PrefixKey(tokens),
                prompt_tokens=len(tokens),
                max_new_tokens=1,
            )
        )
    return found


@given(REQUESTS, st.booleans(), st.integers(0, 3))
def test_a_rate_of_1_is_exact(
    traffic: tuple[int, list[Request]], last_token: bool, seed: int
) -> None:
    page_size, requests = traffic
    exact = capacity_curve(requests, page_size, last_token=last_token)
    every = sampled_curve(requests, page_size, rate=1, seed=seed, last_token=last_token)
    for capacity in (*range(most_capacity(requests, page_size) + 1), None):
        assert every.hit_tokens_at(capacity) == exact.hit_tokens_at(capacity)
        assert every.second_half_hit_tokens_at(capacity) == exact.second_half_hit_tokens_at(
            capacity
        )
    assert every.sample is not None
    assert not every.sample.standard_errors.any()
    assert (every.longest_pages, every.distinct_pages, every.prompt_tokens) == (
        exact.longest_pages,
        exact.distinct_pages,
        exact.prompt_tokens,
    )


@given(CHATS)
def test_a_rate_of_1_with_answers_is_exact(traffic: tuple[int, list[Request]]) -> None:
    page_size, requests = traffic
    exact = capacity_curve(requests, page_size, cached_outputs=True)
    every = sampled_curve(requests, page_size, rate=1, cached_outputs=True)
    assert every.cached_output_requests == exact.cached_output_requests
    for capacity in (*range(most_capacity(requests, page_size) + 1), None):
        assert every.hit_tokens_at(capacity) == exact.hit_tokens_at(capacity)


def test_a_seed_draws_its_own_pages_each_time() -> None:
    requests = sessions(0)
    one, again, other = (sampled_curve(requests, 1, rate=0.2, seed=seed) for seed in (1, 1, 2))
    assert one.as_dict() == again.as_dict()
    assert one.as_dict() != other.as_dict()
    assert one.sample is not None
    assert 0.15 < one.sample.sampled_pages / one.distinct_pages < 0.25


def test_most_estimates_are_within_two_standard_errors() -> None:
    requests = sessions(3)
    exact = capacity_curve(requests, 1)
    within = []
    for seed in range(20):
        rough = sampled_curve(requests, 1, rate=0.2, seed=seed)
        assert rough.sample is not None
        for capacity in (200, 500, 1_000, 1_500):
            estimate, true = rough.hit_rate(capacity), exact.hit_rate(capacity)
            assert estimate is not None
            assert true is not None
            within.append(abs(estimate - true) <= 2 * rough.sample.standard_error(capacity))
    assert sum(within) >= 0.9 * len(within)


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.5, float("nan")])
def test_a_bad_rate_says_what_to_do(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"sampling rate is .*above 0 and at most 1"):
        sampled_curve([], 1, rate=rate)


def test_a_sample_without_a_page_is_refused() -> None:
    with pytest.raises(ConfigError, match="draws none of the pages"):
        sampled_curve(sessions(0, 20), 1, rate=1e-9)
    assert sampled_curve([], 1, rate=1e-9).hit_rate(None) is None
