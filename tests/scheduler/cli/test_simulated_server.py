"""Logs of the simulated engine: validation agrees with it, calibration finds its cost model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.sim.cost_model import CostModel
from tests.models.command_line import run
from tests.models.simulated_server import LoggedCost, finish_log


@pytest.mark.parametrize(
    ("workload", "size", "rate", "capacity_tokens"),
    [("chat", 8, 1.0, 1_000_000), ("chat", 8, 1.0, 40_000), ("few-shot", 40, 2.0, 131_072)],
)
def test_validation_agrees_with_the_engine(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    workload: str,
    size: int,
    rate: float,
    capacity_tokens: int,
) -> None:
    log = tmp_path / "server.log"
    lines = finish_log(workload, size=size, rate=rate, capacity_tokens=capacity_tokens)
    log.write_text("\n".join(lines) + "\n")
    ran = run(capsys, "validate", log, "-q", "--json")
    document = json.loads(ran.out)
    assert document["requests"] == len(lines) - 2
    assert document["reported"]["hit_rate"] > 0.1
    assert abs(document["difference_points"]) < 3, ran.out[:800]


def test_calibration_finds_the_cost_model_of_the_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    truth = CostModel(
        step_s=0.006, per_prefill_token_s=3e-5, per_running_s=2e-4, per_context_token_s=3e-8
    )
    cost = LoggedCost(truth, 400_000)
    finish_log("chat", size=20, rate=6.0, capacity_tokens=400_000, cost=cost)
    log, model = tmp_path / "server.log", tmp_path / "cost.json"
    log.write_text("\n".join(cost.lines) + "\n")
    assert run(capsys, "calibrate", log, "-q", "-o", model).code == 0
    found = CostModel.from_json(model)
    for name in ("step_s", "per_prefill_token_s", "per_running_s", "per_context_token_s"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=0.1)
