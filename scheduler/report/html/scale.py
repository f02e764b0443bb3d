"""Scales: where a value stands on an axis, and which values get a tick (1, 2 or 5 times 10^n)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

__all__ = ["LinearScale", "LogScale", "QuantileScale", "Scale", "finite"]

_NORMAL = NormalDist()
_LEAST = 1e-9
"""Less than this is nothing, in any unit."""
_QUANTILE_TICKS = (0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999)


class Scale(Protocol):
    """An axis from one pixel to another."""

    def at(self, value: float) -> float:
        """Return the pixel of a value; what lies beyond the axis stands at its end."""
        ...

    def ticks(self, most: int) -> Sequence[float]:
        """Return at most about so many round values on the axis."""
        ...


def finite(values: Sequence[float | None]) -> list[float]:
    """Return the values that can be drawn."""
    return [value for value in values if value is not None and math.isfinite(value)]


@dataclass(frozen=True, slots=True)
class LinearScale:
    """Equal steps are equally long."""

    low: float
    high: float
    start: float
    stop: float

    @classmethod
    def over(cls, values: Sequence[float | None], start: float, stop: float) -> LinearScale:
        """Return a scale from 0 to a round value at or above all of them."""
        high = max(finite(values), default=0.0)
        if high < _LEAST:
            return cls(0.0, 1.0, start, stop)
        step = _round_step(high, 4)
        return cls(0.0, step * math.ceil(high / step - 1e-9), start, stop)

    @classmethod
    def around(cls, values: Sequence[float | None], start: float, stop: float) -> LinearScale:
        """Return a scale between round values on both sides of all, not below 0 without need."""
        known = finite(values)
        if not known:
            return cls(0.0, 1.0, start, stop)
        low, high = min(known), max(known)
        step = _round_step(max(high - low, 0.02 * max(abs(high), abs(low)), 1e-9), 4)
        least = step * math.floor(low / step - 0.1)
        return cls(
            max(0.0, least) if low >= 0 else least,
            step * math.ceil(high / step + 0.1),
            start,
            stop,
        )

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

    def ticks(self, most: int) -> Sequence[float]:
        """Return multiples of 1, 2 or 5 times a power of ten."""
        step = _round_step(self.high - self.low, most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class LogScale:
    """Equal ratios are equally long; values that are not above 0 stand at the low end."""

    low: float
    high: float
    start: float
    stop: float

    @classmethod
    def between(cls, values: Sequence[float], start: float, stop: float) -> LogScale:
        """Return a scale from the least value to the largest; some room around a single one."""
        low, high = min(values, default=1.0), max(values, default=2.0)
        return cls(low, high, start, stop) if high > low else cls(low / 2, 2 * low, start, stop)

    @classmethod
    def over(cls, values: Sequence[float | None], start: float, stop: float) -> LogScale:
        """Return a scale from a round value below all of them to one above."""
        known = [value for value in finite(values) if value >= _LEAST]
        if not known:
            return cls(0.1, 10.0, start, stop)
        low, high = _round_down(min(known)), _round_up(max(known))
        return cls(low, high if high > low else 2 * low, start, stop)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        inside = min(self.high, max(self.low, value))
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + (self.stop - self.start) * share

    def ticks(self, most: int) -> Sequence[float]:
        """Return 1, 2 and 5 of each decade, or 1 alone, or of every so many decades."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for leads, every in (((1, 2, 5), 1), ((1,), 1), *(((1,), n) for n in range(2, 40))):
            decades = range(first - first % every if every > 1 else first, last + 1, every)
            found = [lead * 10.0**power for power in decades for lead in leads]
            inside = [v for v in found if self.low * 0.999 <= v <= self.high * 1.001]
            if len(inside) <= most:
                return inside
        return [self.low]


@dataclass(frozen=True, slots=True)
class QuantileScale:
    """Shares of a distribution, spaced so that a normal one is straight: both tails show."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the pixel of a share."""
        low, high = _NORMAL.inv_cdf(self.low), _NORMAL.inv_cdf(self.high)
        inside = _NORMAL.inv_cdf(min(self.high, max(self.low, value)))
        return self.start + (self.stop - self.start) * (inside - low) / (high - low)

    def ticks(self, most: int) -> Sequence[float]:
        """Return the shares that people ask for."""
        inside = [q for q in _QUANTILE_TICKS if self.low <= q <= self.high]
        if len(inside) <= most:
            return inside
        return [q for q in inside if q not in {0.25, 0.75}][-most:]


def _round_step(span: float, most: int) -> float:
    """Return the least 1, 2 or 5 times 10^n that cuts a span into at most so many parts."""
    least = span / max(1, most)
    power = 10.0 ** math.floor(math.log10(least))
    return next(lead * power for lead in (1, 2, 5, 10) if lead * power >= least * (1 - 1e-9))


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(lead * power for lead in (0.5, 1, 2, 5) if lead * power <= value * (1 + 1e-9))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(lead * power for lead in (1, 2, 5, 10) if lead * power >= value * (1 - 1e-9))
