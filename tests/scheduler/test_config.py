"""SchedulerConfig: what it refuses, with the value and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from radixcache import ConfigError
from scheduler.config import AdaptiveRatio, SchedulerConfig


def test_defaults() -> None:
    config = SchedulerConfig(page_size=16)
    assert (config.chunk_tokens, config.max_running, config.max_in_flight) == (8192, 256, 1)
    assert (config.publish, config.output_reserve_ratio) == ("complete", 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"page_size": 0},
        {"page_size": True},
        {"page_size": 2**31},
        {"chunk_tokens": 10**400},
        {"max_running": 10**12},
        {"max_tokens_per_step": 2**31},
        {"window_requests": 2**63},
        {"guard_base_tokens": 0.5},
        {"guard_base_tokens": 10**400},
        {"guard_base_tokens": float("nan")},
        {"guard_kappa": float("inf")},
        {"guard_kappa": 10**400},
        {"guard_kappa": "1"},
        {"prefill_tokens_per_s": 0},
        {"prefill_tokens_per_s": -1.0},
        {"prefill_tokens_per_s": float("inf")},
        {"prefill_tokens_per_s": float("nan")},
        {"prefill_tokens_per_s": True},
        {"prefill_tokens_per_s": "20000"},
        {"chunk_tokens": 0},
        {"max_running": -1},
        {"max_in_flight": 1.5},
        {"max_tokens_per_step": 0},
        {"output_reserve_ratio": float("nan")},
        {"output_reserve_ratio": 1.01},
        {"output_reserve_ratio": "1"},
        {"lookahead": -1},
        {"max_waiting": -1},
        {"publish": "never"},
        {"hold": "tight"},
        {"hold": "share"},
        {"window_requests": 0},
    ],
)
def test_a_wrong_value_is_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        SchedulerConfig(**({"page_size": 16} | wrong))


@pytest.mark.parametrize("name", ["decay_steps", "clip_tokens", "retract_steps"])
def test_an_adaptive_ratio_has_limits(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        AdaptiveRatio(**{name: 2**31})


def test_share_needs_pages_published_as_scheduled() -> None:
    SchedulerConfig(page_size=16, hold="share", publish="schedule")
