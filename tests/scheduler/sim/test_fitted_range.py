"""Cost models that know where they were fitted, and runs that leave that range."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import ConfigError
from scheduler.sim.cost_model import CostModel, FittedRange, StepLoad
from scheduler.sim.watched_cost import WatchedCost

FITTED = (FittedRange("prefill_tokens", 0, 100), FittedRange("running", 1, 4))


def test_a_file_keeps_the_fitted_range(tmp_path: Path) -> None:
    model = CostModel(step_s=0.02, calibrated=True, fitted=FITTED)
    path = tmp_path / "cost.json"
    path.write_text(json.dumps({**model.as_dict(), "calibration": {"rows": 3}}))
    assert CostModel.from_json(path) == model
    assert hash(model) == hash(CostModel.from_json(path))


@pytest.mark.parametrize(
    "fitted",
    [
        [],
        {"speed": [0, 1]},
        {"running": 3},
        {"running": [1]},
        {"running": [2, 1]},
        {"running": ["1", "2"]},
        {"running": [0, None]},
        {"running": [True, 2]},
    ],
)
def test_a_range_that_is_none_is_refused(tmp_path: Path, fitted: Any) -> None:
    path = tmp_path / "cost.json"
    path.write_text(json.dumps({"fitted": fitted}))
    with pytest.raises(ConfigError, match="fitted"):
        CostModel.from_json(path)


def test_steps_outside_the_range_are_counted() -> None:
    watched = WatchedCost(CostModel(step_s=1, per_prefill_token_s=0, fitted=FITTED))
    for prefill, running in ((0, 1), (100, 4), (250, 2), (0, 5)):
        watched.step_seconds(StepLoad(prefill, 0.0, running, 0))
    assert (watched.steps, watched.outside_steps) == (4, 2)
    assert watched.extrapolated() == (
        "50.00 % of the steps, 50.00 % of their time: "
        "prefill_tokens reached 250 (fitted 0 to 100), running reached 5 (fitted 1 to 4)"
    )


def test_a_model_without_range_extrapolates_nowhere() -> None:
    watched = WatchedCost(CostModel())
    load = StepLoad(10**6, 1e12, 1000, 10**7)
    assert watched.step_seconds(load) == CostModel().step_seconds(load)
    assert watched.extrapolated() is None
