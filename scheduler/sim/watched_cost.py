"""WatchedCost: a cost model that counts the steps outside the range it was fitted to."""

from __future__ import annotations

from scheduler.sim.cost_model import FittedRange, StepCost, StepLoad

__all__ = ["WatchedCost"]


class WatchedCost:
    """Pass every question on; keep how many steps were asked for, and how many lie outside.

    One run, one instance. Cost: O(ranges) a step.
    """

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost
        self.calibrated = cost.calibrated
        self.prefill_tokens_per_s = cost.prefill_tokens_per_s
        self.fitted = cost.fitted
        self.steps = 0
        self.outside_steps = 0
        self.outside_s = 0.0
        self.total_s = 0.0
        self._furthest: dict[str, tuple[float, FittedRange]] = {}

    def step_seconds(self, load: StepLoad) -> float:
        """Return the seconds of a step, and note whether it is extrapolated."""
        seconds = self._cost.step_seconds(load)
        self.steps += 1
        self.total_s += seconds
        outside = [part for part in self.fitted if not part.holds(load)]
        if outside:
            self.outside_steps += 1
            self.outside_s += seconds
            for part in outside:
                self._note(part, getattr(load, part.feature))
        return seconds

    def describe(self) -> str:
        """Return the line of the model itself."""
        return self._cost.describe()

    def extrapolated(self) -> str | None:
        """Return what lay outside the fitted range in one line; None where nothing did."""
        if not self.outside_steps:
            return None
        far = ", ".join(
            f"{name} reached {value:g} (fitted {part.least:g} to {part.most:g})"
            for name, (value, part) in sorted(self._furthest.items())
        )
        share = 100 * self.outside_steps / self.steps
        time = 100 * self.outside_s / self.total_s if self.total_s else 0.0
        return f"{share:.2f} % of the steps, {time:.2f} % of their time: {far}"

    def _note(self, part: FittedRange, value: float) -> None:
        """Keep the value of a feature that is furthest from its range."""
        known = self._furthest.get(part.feature)
        if known is None or _distance(part, value) > _distance(part, known[0]):
            self._furthest[part.feature] = value, part


def _distance(part: FittedRange, value: float) -> float:
    return max(part.least - value, value - part.most)
