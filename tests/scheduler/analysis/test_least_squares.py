"""Non-negative least squares against every set of coefficients that may be above 0."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.analysis.least_squares import Array, nonnegative_least_squares


def error(a: Array, b: Array, x: Array) -> float:
    return float(((a @ x - b) ** 2).sum())


def brute_force(a: Array, b: Array) -> Array:
    """Solve for every subset of the columns and keep the best that is not negative."""
    best = np.zeros(a.shape[1])
    for size in range(1, a.shape[1] + 1):
        for chosen in combinations(range(a.shape[1]), size):
            x = np.zeros(a.shape[1])
            x[list(chosen)] = np.linalg.lstsq(a[:, list(chosen)], b, rcond=None)[0]
            if (x >= -1e-12).all() and error(a, b, x) < error(a, b, best):
                best = np.maximum(x, 0)
    return best


values = st.integers(-9, 9).map(float)


@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.lists(
            st.lists(values, min_size=columns + 1, max_size=columns + 1), min_size=1, max_size=8
        )
    )
)
def test_no_subset_of_columns_does_better(rows: list[list[float]]) -> None:
    table = np.array(rows)
    a, b = table[:, :-1], table[:, -1]
    x = nonnegative_least_squares(a, b)
    assert (x >= 0).all()
    assert error(a, b, x) <= error(a, b, brute_force(a, b)) * (1 + 1e-9) + 1e-9


def test_a_solution_without_negatives_is_found_exactly() -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 1, (50, 4))
    truth = np.array([0.5, 0.0, 2.0, 1.0])
    assert nonnegative_least_squares(a, a @ truth) == pytest.approx(truth, abs=1e-9)


def test_nothing_gives_zeros() -> None:
    assert not nonnegative_least_squares(np.zeros((3, 2)), np.ones(3)).any()
