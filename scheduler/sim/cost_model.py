"""CostModel: how many seconds one step of the simulated engine takes.

A file of a cost model is a JSON object with the fields of ``CostModel``. One that was fitted
to a server's log also says in which range: ``"fitted": {"prefill_tokens": [0, 8192], ...}``,
and may keep a record of the fit under ``"calibration"``, which is not read.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from radixcache.errors import ConfigError

__all__ = ["FEATURES", "CostModel", "FittedRange", "StepCost", "StepLoad"]

RECORD = "calibration"
MOST_SECONDS = 1e12
"""Of any term: no run lasts longer."""


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one step computes; all a cost model may look at.

    ``attention_tokens2`` is the sum over the prefill chunks of new * (cached + new / 2):
    the query-key pairs a causal attention visits.
    """

    prefill_tokens: int
    attention_tokens2: float
    running: int
    context_tokens: int


FEATURES = {
    "prefill_tokens": "per_prefill_token_s",
    "attention_tokens2": "per_attention_pair_s",
    "running": "per_running_s",
    "context_tokens": "per_context_token_s",
}
"""What a step is measured by, and the coefficient of each."""


class StepCost(Protocol):
    """What the simulated engine asks of a cost model."""

    @property
    def calibrated(self) -> bool:
        """Whether it was measured on a server."""
        ...

    @property
    def prefill_tokens_per_s(self) -> float:
        """The rate of prefills alone, for loads relative to the optimum."""
        ...

    @property
    def fitted(self) -> tuple[FittedRange, ...]:
        """Where it was measured; empty where it was not."""
        ...

    def step_seconds(self, load: StepLoad) -> float:
        """Return the seconds a step with this load takes."""
        ...

    def describe(self) -> str:
        """Return one line for a report's list of assumptions."""
        ...


@dataclass(frozen=True, slots=True)
class FittedRange:
    """The least and most of one feature among the steps that a model was fitted to."""

    feature: str
    least: float
    most: float

    def __post_init__(self) -> None:
        if self.feature not in FEATURES:
            raise ConfigError(
                f"cost model: fitted names {self.feature!r}: use {', '.join(FEATURES)}"
            )
        if not (_is_amount(self.least) and _is_amount(self.most) and self.least <= self.most):
            raise ConfigError(
                f"cost model: fitted range of {self.feature} is {self.least!r} to {self.most!r}: "
                "give two numbers, the lower one first"
            )

    def holds(self, load: StepLoad) -> bool:
        """Tell whether a step lies inside."""
        value: float = getattr(load, self.feature)
        return self.least <= value <= self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Linear in the five terms of a step: ``a + b*new + c*pairs + d*running + e*context``.

    The defaults are no measurement of any server: seconds from them order policies, and
    ``calibrated`` stays False so that each report says so. Cost: O(1) a step.
    They say 8 ms a step, 20,000 prefill tokens/s, and near 30 ms a step at 256 running.
    """

    step_s: float = 0.008
    per_prefill_token_s: float = 1 / 20_000
    per_attention_pair_s: float = 0.0
    per_running_s: float = 0.000_085
    per_context_token_s: float = 0.0
    calibrated: bool = False
    fitted: tuple[FittedRange, ...] = ()
    """Ranges of the steps it was fitted to; beyond, it extrapolates."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "fitted":
                continue
            if field.name == "calibrated":
                if not isinstance(value, bool):
                    raise ConfigError(f"cost model: calibrated is {value!r}: give true or false")
                continue
            if not _is_amount(value):
                raise ConfigError(
                    f"cost model: {field.name} is {value!r}: give seconds from 0 to "
                    f"{MOST_SECONDS:g}"
                )
        if self.step_s <= 0 and self.per_prefill_token_s <= 0:
            raise ConfigError("cost model: a step would take no time: set step_s above 0")

    @classmethod
    def from_rate(cls, prefill_tokens_per_s: float) -> CostModel:
        """Return the default model with another prefill rate in tokens a second."""
        if not (math.isfinite(prefill_tokens_per_s) and prefill_tokens_per_s > 0):
            raise ConfigError(
                f"prefill rate is {prefill_tokens_per_s!r} tokens/s: give a number above 0"
            )
        return cls(per_prefill_token_s=1 / prefill_tokens_per_s)

    @classmethod
    def from_json(cls, path: str | Path) -> CostModel:
        """Read a model from a JSON object whose keys are this class's fields.

        Raises: ConfigError where the file is no such object.
        """
        known = [field.name for field in fields(cls)]
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"cost model {path}: cannot be read ({error.strerror}): check the path"
            ) from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"cost model {path}: cannot be read as JSON: {error}") from error
        if not isinstance(raw, dict):
            raise ConfigError(f"cost model {path}: is no JSON object: use keys {', '.join(known)}")
        raw.pop(RECORD, None)
        unknown = sorted(set(raw) - set(known))
        if unknown:
            raise ConfigError(
                f"cost model {path}: unknown key {unknown[0]!r}: use {', '.join(known)}"
            )
        if "fitted" in raw:
            raw["fitted"] = _ranges(raw["fitted"])
        return cls(**raw)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``from_json`` reads."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        values["fitted"] = {r.feature: [r.least, r.most] for r in self.fitted}
        return values

    @property
    def prefill_tokens_per_s(self) -> float:
        """The rate of a prefill-only step of endless length, attention apart."""
        return math.inf if self.per_prefill_token_s == 0 else 1 / self.per_prefill_token_s

    def step_seconds(self, load: StepLoad) -> float:
        """Return the seconds a step with this load takes."""
        return (
            self.step_s
            + self.per_prefill_token_s * load.prefill_tokens
            + self.per_attention_pair_s * load.attention_tokens2
            + self.per_running_s * load.running
            + self.per_context_token_s * load.context_tokens
        )

    def describe(self) -> str:
        """Return one line for a report's list of assumptions."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "fitted"}
        terms = ", ".join(f"{name}={value:g}" for name, value in values.items() if value)
        kind = "calibrated" if self.calibrated else "uncalibrated"
        return f"cost model ({kind}): {terms}"


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MOST_SECONDS


def _ranges(raw: object) -> tuple[FittedRange, ...]:
    """Return the ranges of a file."""
    if not isinstance(raw, dict):
        raise ConfigError(f"cost model: fitted is {raw!r:.60}: give an object of ranges")
    ranges = []
    for feature, pair in raw.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise ConfigError(f"cost model: fitted range of {feature} is no pair of numbers")
        ranges.append(FittedRange(feature, *pair))
    return tuple(ranges)
