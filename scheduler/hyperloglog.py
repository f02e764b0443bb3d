"""HyperLogLog: how many different things were seen, from 16 KB and their hashes."""

from __future__ import annotations

import math

__all__ = ["HyperLogLog"]

_PRECISION_BITS = 14
_REGISTERS = 1 << _PRECISION_BITS
_RANK_BITS = 64 - _PRECISION_BITS
_ALPHA = 0.5 / math.log(2)


class HyperLogLog:
    """Count distinct 64-bit hashes in 16 KB; order and repetition do not matter.

    The standard error is 1.04 / sqrt(16384) = 0.81 % at every size, without the bias of
    the first estimator between 40,000 and 80,000.

    Cost: ``add`` O(1), ``estimate`` O(64) after a change.
    Ref: O. Ertl, New cardinality estimation algorithms for HyperLogLog sketches (2017),
    algorithm 6, arXiv 1702.01284.
    """

    __slots__ = ("_counts", "_estimate", "_registers")

    def __init__(self) -> None:
        self._registers = bytearray(_REGISTERS)
        self._counts = [0] * (_RANK_BITS + 2)
        self._counts[0] = _REGISTERS
        self._estimate: float | None = None

    def add(self, hash_64: int) -> None:
        """Note one hash, a uniform number below 2**64."""
        index = hash_64 >> _RANK_BITS
        low = hash_64 & ((1 << _RANK_BITS) - 1)
        rank = _RANK_BITS - low.bit_length() + 1
        old = self._registers[index]
        if rank > old:
            self._registers[index] = rank
            self._counts[old] -= 1
            self._counts[rank] += 1
            self._estimate = None

    def estimate(self) -> float:
        """Return the estimated number of different hashes; 0.0 when there was none."""
        if self._estimate is not None:
            return self._estimate
        counts = self._counts
        z = _REGISTERS * _tau(1.0 - counts[-1] / _REGISTERS)
        for count in counts[-2:0:-1]:
            z = 0.5 * (z + count)
        z += _REGISTERS * _sigma(counts[0] / _REGISTERS)
        self._estimate = _ALPHA * _REGISTERS * _REGISTERS / z
        return self._estimate


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    if x in {0.0, 1.0}:
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x, y, before = math.sqrt(x), 0.5 * y, z
        z -= (1.0 - x) ** 2 * y
    return z / 3.0
