"""Two groups of requests by what was cached: every request that got a token is in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.report.cached_share import CACHED_FROM_SHARE, ttft_by_cached_share
from scheduler.report.metrics import Run, metric
from scheduler.report.recorder import Recorder
from tests.models.recorded_runs import ask, ended, queue_run

Row = tuple[int, float, float | None]
"""Prompt tokens, share that was cached, time to first token or None for none."""


def recorded(rows: list[Row]) -> Recorder:
    recorder = Recorder()
    for seq, (prompt, share, ttft) in enumerate(rows):
        state = ask(seq, float(seq), prompt_tokens=prompt)
        recorder.on_submit(state)
        if ttft is not None:
            hit = int(share * prompt)
            recorder.on_finish(ended(state, seq + ttft, seq + ttft + 1, hit_tokens=hit))
    return recorder


ROWS = st.lists(
    st.tuples(st.integers(1, 400), st.floats(0, 1), st.none() | st.integers(0, 90).map(float)),
    max_size=30,
)


@given(ROWS)
def test_the_groups_are_those_of_an_obvious_rule(rows: list[Row]) -> None:
    waits = ttft_by_cached_share(recorded(rows))
    cached = [w for n, s, w in rows if w is not None and int(s * n) / n >= CACHED_FROM_SHARE]
    computed = [w for n, s, w in rows if w is not None and int(s * n) / n < CACHED_FROM_SHARE]
    assert waits.mostly_cached == sorted(cached)
    assert waits.mostly_computed == sorted(computed)


@given(ROWS)
def test_sizes_and_means_of_the_groups_come_to_those_of_all(rows: list[Row]) -> None:
    run = Run(recorded(rows), 16)
    total, seconds = 0, 0.0
    for group in ("mostly_computed", "mostly_cached"):
        size = metric(f"{group}_requests").compute(run)
        mean = metric(f"{group}_ttft_mean_s").compute(run)
        assert (mean is None) == (size == 0)
        assert isinstance(size, int)
        total += size
        seconds += size * (mean or 0.0)
    assert total == len(run.ttft_s)
    assert seconds == pytest.approx(sum(run.ttft_s))


def test_exactly_half_of_a_prompt_is_mostly_cached() -> None:
    waits = ttft_by_cached_share(recorded([(100, 0.5, 3.0), (100, 0.49, 4.0)]))
    assert (waits.mostly_cached, waits.mostly_computed) == ([3.0], [4.0])


def test_a_cold_request_that_waits_shows_in_its_group_alone() -> None:
    calm = [(100, 0.9, 1.0)] * 99
    run = Run(recorded([*calm, (100, 0.0, 80.0)]), 16)
    assert metric("mostly_cached_ttft_p99_s").compute(run) == 1.0
    assert metric("mostly_computed_ttft_p99_s").compute(run) == 80.0


def test_without_a_cache_every_request_is_mostly_computed() -> None:
    run = Run(queue_run([0.0, 1.0, 2.0], lambda rng: 100, seed=0), 16)
    assert metric("mostly_computed_requests").compute(run) == 3
    assert metric("mostly_cached_ttft_p99_s").compute(run) is None
