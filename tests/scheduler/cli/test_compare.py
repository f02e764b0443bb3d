"""`radixcache compare`: every policy a row, in each form, the same bytes for the same seed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from scheduler.registry import SCHEDULE_POLICIES
from scheduler.report.metrics import METRICS
from tests.models.command_line import SMALL, run, run_apart

COMPARE = ("compare", *SMALL, "--jobs", "1")


def no_constant(name: str) -> object:
    raise AssertionError(f"{name} in JSON")


def test_the_table_has_a_row_for_each_default_policy(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE)
    assert ran.code == 0
    for policy in ("fcfs", "spf", "sglang-lpm", "lpm"):
        assert any(line.startswith(f"{policy} ") for line in ran.out.splitlines())
    assert "DFS optimum" in ran.out
    assert "Uncalibrated cost model" in ran.out
    assert "DFS-optimal hit rate" in ran.err


def test_all_names_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE, "--policies", "all", "--json")
    assert [row["label"] for row in json.loads(ran.out)["runs"]] == list(SCHEDULE_POLICIES)


def test_json_parses_and_holds_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE, "--policies", "fcfs,lpm", "--json")
    document = json.loads(ran.out, parse_constant=no_constant)
    assert [row["label"] for row in document["runs"]] == ["fcfs", "lpm"]
    for row in document["runs"]:
        assert set(row["values"]) == {m.name for m in METRICS}
        assert row["values"]["ended_requests"] == 24
        assert row["ended"] == {"stop": 24}


def test_csv_parses_and_holds_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE, "--policies", "fcfs,lpm", "--csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["label"] for row in rows] == ["fcfs", "lpm"]
    assert all(None not in row and None not in row.values() for row in rows)
    assert not {"nan", "inf", "None"} & {cell for row in rows for cell in row.values()}
    assert rows[0]["assumed_capacity_tokens"] == "131072"


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = run(capsys, *COMPARE, "--json")
    assert run(capsys, *COMPARE, "--json") == first
    assert run(capsys, *COMPARE, "--json", "--seed", "1").out != first.out


def test_neither_processes_nor_hash_seeds_change_a_byte(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("compare", *SMALL, "--policies", "fcfs,spf,lpm", "--json")
    here = run(capsys, *arguments, "--jobs", "1")
    assert run_apart(*arguments, "--jobs", "1", hash_seed="1") == here
    assert run_apart(*arguments, "--jobs", "2", hash_seed="2") == here


def test_output_goes_to_the_file_in_each_form(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for form in ([], ["--json"], ["--csv"]):
        printed = run(capsys, *COMPARE, "--policies", "lpm", *form)
        path = tmp_path / "result"
        ran = run(capsys, *COMPARE, "--policies", "lpm", *form, "--output", path)
        assert ran == (0, "", printed.err)
        assert path.read_text(encoding="utf-8") == printed.out


def test_options_reach_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    options = {
        "capacity_tokens": ("--capacity-tokens", "200000", "200000"),
        "page_size": ("--page-size", "16", "16"),
        "chunk_tokens": ("--chunk-tokens", "512", "512"),
        "max_running": ("--max-running", "8", "8"),
        "max_in_flight": ("--max-in-flight", "2", "2"),
        "publish": ("--publish", "schedule", "schedule"),
        "hold": ("--hold", "share", "share"),
        "eviction": ("--eviction", "slru", "slru"),
        "output_reserve": ("--output-reserve-ratio", "0.5", "0.5 of max_new_tokens"),
        "rate": ("--rate", "3", "3 requests/s on average"),
    }
    flags = [part for option, value, _ in options.values() for part in (option, value)]
    ran = run(capsys, *COMPARE, "--policies", "lpm", "--json", *flags)
    (row,) = json.loads(ran.out)["runs"]
    for name, (_, _, assumed) in options.items():
        assert str(row["assumptions"][name]) == assumed
    assert row["values"]["offered_requests_per_s"] == pytest.approx(3)


def test_no_eviction_policy_means_no_reuse(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE, "--policies", "lpm", "--json", "--eviction", "none")
    (row,) = json.loads(ran.out)["runs"]
    assert row["values"]["cold_hit_rate_share"] == 0


def test_oracle_lengths_reserve_less(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE, "--policies", "lpm", "--json", "--oracle-lengths")
    (row,) = json.loads(ran.out)["runs"]
    assert row["assumptions"]["output_reserve"] == "1 of true output lengths"


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        (("--load", "0.5"), "load", "0.5 of what the DFS optimum could carry"),
        (("--time-scale", "2"), "time_scale", "2.0"),
        (("--rate", "2", "--poisson"), "arrivals", "Poisson at 2 requests/s"),
    ],
)
def test_arrivals_are_as_asked_for(
    capsys: pytest.CaptureFixture[str], option: tuple[str, ...], name: str, value: str
) -> None:
    ran = run(capsys, *COMPARE, "--policies", "lpm", "--json", *option)
    (row,) = json.loads(ran.out)["runs"]
    assert str(row["assumptions"][name]) == value


def test_a_cost_model_file_is_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"step_s": 0.5, "calibrated": true}')
    ran = run(capsys, *COMPARE, "--policies", "lpm", "--json", "--cost-model", path)
    (row,) = json.loads(ran.out)["runs"]
    assert row["calibrated"]
    assert "step_s=0.5" in row["assumptions"]["engine"]
    assert run(capsys, *COMPARE, "--policies", "lpm", "--prefill-rate", "500").code == 0
