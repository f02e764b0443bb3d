"""Scales: values keep their order, ticks are round and stand inside."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.report.html.scale import LinearScale, LogScale, QuantileScale, Scale

positive = st.floats(1e-6, 1e12)


def is_round(value: float) -> bool:
    lead = f"{value:.6e}".split("e")[0].rstrip("0").rstrip(".")
    return lead in {"1", "2", "5", "0"}


@given(st.lists(st.floats(0, 1e12), min_size=1), st.integers(2, 12))
@example([5e-324], 2)
def test_a_linear_scale_holds_all_values_from_zero(values: list[float], most: int) -> None:
    scale = LinearScale.over(values, 10, 110)
    assert all(10 <= scale.at(value) <= 110 for value in values)
    assert scale.at(0) == 10
    assert max(values) <= scale.high * (1 + 1e-9)
    ticks = scale.ticks(most)
    assert 1 < len(ticks) <= most + 2
    assert is_round(ticks[1] - ticks[0])


@given(st.lists(st.floats(0.001, 1), min_size=1))
def test_a_scale_around_values_leaves_room_on_both_sides(values: list[float]) -> None:
    scale = LinearScale.around(values, 0, 100)
    assert scale.low < min(values) or scale.low == 0
    assert scale.low <= min(values)
    assert max(values) < scale.high
    assert 2 <= len(scale.ticks(6)) <= 8


@given(st.lists(positive, min_size=1), st.integers(2, 12))
def test_a_log_scale_holds_all_values_and_has_round_ticks(values: list[float], most: int) -> None:
    scale = LogScale.over(values, 200, 0)
    assert scale.low <= min(values) * 1.001
    assert max(values) <= scale.high * 1.001
    ticks = scale.ticks(most)
    assert 0 < len(ticks) <= most
    assert all(is_round(tick) for tick in ticks)
    places = [scale.at(tick) for tick in ticks]
    assert places == sorted(places, reverse=True)


@given(positive, positive)
def test_equal_ratios_are_equally_long(low: float, value: float) -> None:
    scale = LogScale(1e-6, 1e12, 0, 180)
    assert scale.at(min(value * 10, 1e12)) >= scale.at(value)
    assert scale.at(1e-5) == pytest.approx(10)


def test_what_lies_outside_stands_at_the_ends() -> None:
    scales: list[Scale] = [LinearScale(0, 1, 0, 9), LogScale(1, 10, 0, 9)]
    for scale in scales:
        assert scale.at(-5) == 0
        assert scale.at(500) == 9
    assert LogScale(1, 10, 0, 9).at(0) == 0


@pytest.mark.parametrize("values", [[], [None], [math.nan], [0.0], [-1.0]])
def test_nothing_to_scale_gives_a_scale(values: list[float | None]) -> None:
    assert LinearScale.over(values, 0, 10).ticks(5)
    assert LogScale.over(values, 0, 10).ticks(5)
    assert LinearScale.around([], 0, 10).ticks(5)


def test_quantiles_are_spaced_as_in_a_normal_distribution() -> None:
    scale = QuantileScale(0.01, 0.99, 0, 100)
    assert scale.at(0.5) == pytest.approx(50)
    assert scale.at(0.9) - 50 == pytest.approx(50 - scale.at(0.1))
    assert scale.at(0.99) - scale.at(0.9) > scale.at(0.6) - scale.at(0.5)
    assert list(scale.ticks(9)) == [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
    assert list(scale.ticks(5)) == [0.01, 0.1, 0.5, 0.9, 0.99]
