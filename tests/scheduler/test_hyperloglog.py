"""HyperLogLog: the error, and that order and repetition do not matter."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from scheduler.hyperloglog import HyperLogLog


def hashed(i: int) -> int:
    return int.from_bytes(blake2b(i.to_bytes(8, "little"), digest_size=8).digest(), "little")


def test_an_empty_sketch_counts_nothing() -> None:
    assert HyperLogLog().estimate() == 0.0


@pytest.mark.parametrize("distinct", [1, 10, 1_000, 20_000, 60_000, 200_000])
def test_the_error_stays_below_three_standard_errors(distinct: int) -> None:
    sketch = HyperLogLog()
    for i in range(distinct):
        sketch.add(hashed(i))
    assert sketch.estimate() == pytest.approx(distinct, rel=3 * 0.0081)


def test_order_and_repetition_do_not_matter() -> None:
    one, other = HyperLogLog(), HyperLogLog()
    for i in range(2_000):
        one.add(hashed(i))
    for i in [*reversed(range(2_000)), *range(500)]:
        other.add(hashed(i))
    assert one.estimate() == other.estimate()


def test_extreme_hashes_are_counted() -> None:
    sketch = HyperLogLog()
    sketch.add(0)
    sketch.add(2**64 - 1)
    assert sketch.estimate() == pytest.approx(2, abs=0.01)
