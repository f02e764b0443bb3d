from __future__ import annotations

import pytest

from bench.significance import FEWEST_PAIRS, differ, median_ratio


def test_the_ratio_is_of_rounds_not_of_medians() -> None:
    assert median_ratio([1, 10, 100], [2, 20, 200]) == 2
    assert median_ratio([1, 2, 3], [3, 2, 9]) == 3


def test_rounds_that_all_agree_differ_from_six_on() -> None:
    assert differ(range(1, 7), range(2, 8))
    assert FEWEST_PAIRS == 6
    assert not differ(range(1, 6), range(11, 16))


def test_equal_rounds_do_not_differ() -> None:
    assert not differ([1.0] * 20, [1.0] * 20)


def test_rounds_that_disagree_do_not_differ() -> None:
    assert not differ([1, 2, 3, 4, 5, 6, 7], [2, 1, 4, 3, 6, 5, 8])


# W. J. Conover, Practical Nonparametric Statistics, table A12: for n pairs a rank sum of at
# most w is significant, two-sided, at 5 %.
@pytest.mark.parametrize(("pairs", "largest"), [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13)])
def test_the_critical_values_are_those_of_the_tables(pairs: int, largest: int) -> None:
    def gaps(rank_sum: int) -> list[float]:
        values = [float(rank) for rank in range(1, pairs + 1)]
        for rank in range(pairs, 0, -1):
            if rank <= rank_sum:
                values[rank - 1] *= -1
                rank_sum -= rank
        return values

    zero = [0.0] * pairs
    assert differ(zero, gaps(largest))
    assert not differ(zero, gaps(largest + 1))


def test_swapping_the_sides_changes_nothing() -> None:
    one, two = [1, 5, 2, 8, 3, 9, 4], [2, 7, 1, 12, 8, 15, 11]
    assert differ(one, two) == differ(two, one)
