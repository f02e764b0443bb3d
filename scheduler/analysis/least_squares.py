"""Least squares with coefficients that are not negative."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["nonnegative_least_squares"]

Array = npt.NDArray[np.float64]

_TOLERANCE = 1e-10


def nonnegative_least_squares(a: Array, b: Array) -> Array:
    """Return the x >= 0 that makes ``|a x - b|`` least.

    ``a`` is (rows, columns), at best with columns of like size. Columns that depend on each
    other share their part in some way. The same input gives the same output.

    Cost: O(columns) solutions of a smaller problem, as a rule.
    Ref: C. Lawson, R. Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    columns = a.shape[1]
    gram, target = a.T @ a, a.T @ b
    scale = max(float(np.abs(target).max(initial=0.0)), 1e-300)
    x = np.zeros(columns)
    passive: list[int] = []
    for _ in range(3 * columns + 3):
        gradient = target - gram @ x
        free = [i for i in range(columns) if i not in passive]
        best = max(free, key=lambda i: gradient[i], default=None)
        if best is None or gradient[best] <= _TOLERANCE * scale:
            break
        passive.append(best)
        while passive:
            solved = np.linalg.lstsq(a[:, passive], b, rcond=None)[0]
            if (solved > 0).all():
                x = np.zeros(columns)
                x[passive] = solved
                break
            # Go towards the solution until the first coefficient would turn negative.
            step, drop = 1.0, passive[-1]
            for value, i in zip(solved, passive, strict=True):
                if value <= 0:
                    share = x[i] / (x[i] - value) if x[i] > value else 0.0
                    if share <= step:
                        step, drop = share, i
            for value, i in zip(solved, passive, strict=True):
                x[i] += step * (value - x[i])
            passive = [i for i in passive if i != drop and x[i] > 0]
            x = np.where(np.isin(np.arange(columns), passive), x, 0.0)
    return x
