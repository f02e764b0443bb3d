"""highest_rate: brackets by doubling, then halves the ratio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cli.search import MOST_DOUBLINGS, Found, Probe, highest_rate, shown_rate


class Limit:
    """Passes up to a limit, and keeps what was asked."""

    def __init__(self, limit: float, good: Probe = Probe.PASSED) -> None:
        self.limit, self.good = limit, good
        self.asked: list[float] = []

    def __call__(self, rate: float) -> Probe:
        self.asked.append(rate)
        return self.good if rate <= self.limit else Probe.FAILED


@given(
    limit=st.floats(0.1, 1e3),
    start=st.floats(0.1, 1e3),
    tolerance=st.sampled_from([0.5, 0.1, 0.02, 0.001]),
)
def test_the_answer_passes_and_a_rate_within_the_tolerance_does_not(
    limit: float, start: float, tolerance: float
) -> None:
    probe = Limit(limit)
    found = highest_rate(probe, start, tolerance)
    assert found.rate is not None
    assert not found.at_least
    assert found.rate <= limit
    failed = min(rate for rate in probe.asked if rate > limit)
    assert failed <= found.rate * (1 + tolerance) * 1.002  # rates have four digits
    assert len(probe.asked) == len(set(probe.asked))


def test_it_doubles_up_and_halves_down() -> None:
    up, down = Limit(9.0), Limit(0.3)
    highest_rate(up, 1.0, 0.5)
    highest_rate(down, 1.0, 0.5)
    assert up.asked[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert down.asked[:3] == [1.0, 0.5, 0.25]


def test_no_rate_may_pass() -> None:
    probe = Limit(0.0)
    assert highest_rate(probe, 1.0, 0.02) == Found(None)
    assert len(probe.asked) == MOST_DOUBLINGS + 1


def test_no_rate_may_fail() -> None:
    found = highest_rate(Limit(1e12), 1.0, 0.02)
    assert found.at_least
    assert found.rate == pytest.approx(2.0**MOST_DOUBLINGS, rel=0.001)


def test_runs_too_short_to_judge_end_the_way_up_only() -> None:
    assert highest_rate(Limit(9.0, Probe.UNJUDGED), 3.0, 0.02) == Found(3.0, True)
    found = highest_rate(Limit(9.0, Probe.UNJUDGED), 30.0, 0.02)
    assert found.rate == pytest.approx(9.0, rel=0.02)
    assert not found.at_least


def test_an_island_above_a_failure_is_not_looked_for() -> None:
    def probe(rate: float) -> Probe:
        return Probe.PASSED if rate <= 3 or 20 < rate < 30 else Probe.FAILED

    assert highest_rate(probe, 1.0, 0.01).rate == pytest.approx(3.0, rel=0.01)


def test_rates_have_four_digits() -> None:
    assert [shown_rate(x) for x in (1.23456, 123456.0, 0.000123456)] == [1.235, 123500.0, 0.0001235]
