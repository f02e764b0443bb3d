from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.cli import main

FEW = ("--workload", "few-shot", "--requests", "30", "--rate", "20")


def runs(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[Any], str]:
    assert main(["compare", "--quiet", "--json", "--jobs", "1", *FEW, *arguments]) == 0
    out, err = capsys.readouterr()
    loaded = json.loads(out)
    return loaded if isinstance(loaded, list) else loaded["runs"], err


def test_several_presets_take_each_its_own_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows, notes = runs(capsys, "--preset", "ours,vllm,sglang")
    labels = [row["label"] for row in rows]
    assert labels == ["ours:lpm", "vllm:fcfs", "sglang:sglang-lpm"]
    assert "note: preset vllm: mixed steps" in notes


def test_several_presets_run_the_same_orders(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = runs(capsys, "--preset", "vllm,sglang", "--policies", "lpm")
    assert [row["label"] for row in rows] == ["vllm:lpm", "sglang:lpm"]


def test_one_preset_is_an_assumption(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = runs(capsys, "--preset", "vllm", "--policies", "fcfs")
    assert rows[0]["label"] == "fcfs"
    assert rows[0]["assumptions"]["preset"].startswith("vllm (")
    assert rows[0]["assumptions"]["publish"] == "schedule"


@pytest.mark.parametrize("wrong", ["tgi", "vllm,vllm"])
def test_a_wrong_preset_is_one_line(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    assert main(["compare", "--quiet", *FEW, "--preset", wrong]) == 2
    err = capsys.readouterr().err
    assert err.startswith("radixcache: preset ")
    assert err.count("\n") == 1
