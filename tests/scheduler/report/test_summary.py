"""Summary, JSON and CSV: complete, deterministic, without NaN."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from scheduler.report.metrics import METRICS
from scheduler.report.recorder import Recorder
from scheduler.report.summary import SCHEMA_VERSION, Summary, summarize, to_csv, to_json
from tests.models.recorded_runs import queue_run


def stable() -> Summary:
    recorder = queue_run([float(i) for i in range(100)], lambda rng: 500, seed=0)
    return summarize(
        recorder,
        label="lpm",
        page_size=16,
        optimal_hit_rate=0.5,
        ceiling_hit_rate=0.4,
        seed=7,
        assumptions={"capacity_tokens": 4_000, "ticks": "spread"},
    )


def empty() -> Summary:
    return summarize(Recorder(), label="fcfs", page_size=16, assumptions={"ticks": "kept"})


@pytest.mark.parametrize("write", [to_json, to_csv])
def test_the_same_runs_give_the_same_bytes(write: Callable[[list[Summary]], str]) -> None:
    assert write([stable(), empty()]) == write([stable(), empty()])


def test_json_holds_every_metric_assumption_and_the_schema() -> None:
    document = json.loads(to_json([stable(), empty()]))
    assert document["schema_version"] == SCHEMA_VERSION
    assert set(document["metrics"]) == {m.name for m in METRICS}
    first, second = document["runs"]
    assert set(first["values"]) == set(document["metrics"])
    assert first["verdict"] == "STABLE"
    assert first["assumptions"] == {"capacity_tokens": 4_000, "ticks": "spread"}
    assert first["seed"] == 7
    assert second["values"]["ttft_p99_s"] is None
    assert second["verdict"] is None


def test_json_has_sorted_keys_and_no_nan() -> None:
    text = to_json([empty()])
    assert "NaN" not in text
    assert "Infinity" not in text
    document = json.loads(text)
    assert list(document) == sorted(document)
    assert list(document["runs"][0]) == sorted(document["runs"][0])


def test_csv_is_one_row_a_run_and_one_column_a_metric() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([stable(), empty()]))))
    assert [row["label"] for row in rows] == ["lpm", "fcfs"]
    assert {m.name for m in METRICS} <= set(rows[0])
    assert rows[0]["assumed_ticks"] == "spread"
    assert rows[1]["assumed_capacity_tokens"] == ""
    assert rows[1]["ttft_p99_s"] == ""
    assert float(rows[0]["offered_requests_per_s"]) == 1.0
