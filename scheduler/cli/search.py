"""highest_rate: the highest rate that passes, found by doubling and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

__all__ = ["MOST_DOUBLINGS", "Found", "Probe", "highest_rate", "shown_rate"]

MOST_DOUBLINGS = 16
"""Steps from the first rate, up or down, after which a search gives up."""


class Probe(Enum):
    """How a rate did."""

    PASSED = "passed"
    FAILED = "failed"
    UNJUDGED = "unjudged"
    """It passed, but the run was too short to tell whether the queue grows without end."""


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search."""

    rate: float | None
    """The highest rate that passed; None: none did."""
    at_least: bool = False
    """No rate failed: the runs are too short to find a limit."""


def shown_rate(rate: float) -> float:
    """Return a rate with four digits, so that a person can ask for it."""
    return float(f"{rate:.4g}")


def highest_rate(probe: Callable[[float], Probe], start: float, tolerance: float) -> Found:
    """Return the highest rate that passes, to a relative ``tolerance``.

    From ``start`` the rate is doubled until one fails, or halved until one passes; then the
    interval is halved, in ratio, until its ends differ by no more than the tolerance. Whether
    a rate passes need not fall with it: the answer passes, and a rate at most that much higher
    does not; islands beyond are not looked for. Each rate is probed once.

    Cost: about log2(limit / start) + log2(1 / tolerance) probes.
    """
    low: float | None = None
    high: float | None = None
    rate = shown_rate(start)
    for _ in range(MOST_DOUBLINGS + 1):
        result = probe(rate)
        if result is Probe.FAILED:
            high = rate
        else:
            low = rate
            if high is None and result is Probe.UNJUDGED:
                return Found(low, at_least=True)
        if low is not None and high is not None:
            break
        rate = shown_rate(rate * 2 if high is None else rate / 2)
    if low is None:
        return Found(None)
    if high is None:
        return Found(low, at_least=True)
    while high > low * (1 + tolerance):
        middle = shown_rate(math.sqrt(low * high))
        if not low < middle < high:
            break
        if probe(middle) is Probe.FAILED:
            high = middle
        else:
            low = middle
    return Found(low)
