"""`radixcache sweep`: one row a run, tables of means, the highest rate at a target."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.cells import CellRunner
from scheduler.report.metrics import METRICS
from tests.models.command_line import Ran, run, run_apart, start, write_rows

SIZE = ("--workload", "few-shot", "--size", "20", "--quiet")
SWEEP = ("sweep", *SIZE, "--jobs", "1")
GRID = (*SWEEP, "--policies", "fcfs,lpm", "--loads", "0.5,2", "--seeds", "0,1")
SEARCH = (
    *SWEEP,
    "--size",
    "40",
    "--policies",
    "fcfs,lpm",
    "--target-ttft-p99",
    "0.6",
    "--tolerance",
    "0.2",
)


def rows_of(text: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    assert all(None not in row and None not in row.values() for row in rows)
    assert not {"nan", "inf", "None", "True"} & {cell for row in rows for cell in row.values()}
    return rows


def refused(ran: Ran, *parts: str) -> None:
    assert ran.code == 2
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    for part in ("radixcache: ", *parts):
        assert part in line


def test_a_row_for_each_cell_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *GRID, "--capacities", "65536,131072", "--csv")
    rows = rows_of(ran.out)
    assert ran.code == 0
    assert [(row["capacity_tokens"], row["load"], row["policy"], row["seed"]) for row in rows] == [
        (capacity, load, policy, seed)
        for capacity in ("65536", "131072")
        for load in ("0.5", "2.0")
        for policy in ("fcfs", "lpm")
        for seed in ("0", "1")
    ]
    for row in rows:
        assert row["part"] == "grid"
        assert row["ended_requests"] == "20"
        assert row["assumed_capacity_tokens"] == row["capacity_tokens"]
        assert row["version"]
    assert {m.name for m in METRICS} < set(rows[0])


def test_a_cell_is_the_run_of_compare(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(run(capsys, *GRID, "--json").out)["cells"]
    alone = run(
        capsys, "compare", *SIZE, "--policies", "lpm", "--load", "2", "--seed", "1", "--json"
    )
    (same,) = json.loads(alone.out)["runs"]
    (cell,) = (c for c in cells if (c["policy"], c["load"], c["seed"]) == ("lpm", 2, 1))
    assert cell["run"] == same


def test_the_command_in_the_rows_makes_them_again(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *GRID, "--csv", "--chunk-tokens", "512", "--poisson", "--rates", "3")
    assert ran.code == 2  # two loads
    first = run(
        capsys,
        *GRID,
        "--csv",
        "--chunk-tokens",
        "512",
        "--oracle-lengths",
        "--no-waiting-aware",
        "--guard-base-tokens",
        "inf",
    )
    (command,) = {row["command"] for row in rows_of(first.out)}
    assert "--jobs" not in command
    again = run(capsys, *shlex.split(command)[1:], "--csv", "--quiet", "--jobs", "1")
    assert again == first


def test_neither_processes_nor_hash_seeds_change_a_byte(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for part in (GRID, SEARCH):
        here = run(capsys, *part, "--json")
        again = [word for word in part if word not in {"--jobs", "1"}]
        assert run_apart(*again, "--json", "--jobs", "2", hash_seed="3") == here


def test_the_tables_show_means_and_spread(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *GRID)
    heads = [line for line in ran.out.splitlines() if "tokens of KV memory" in line]
    assert ["load 0.5" in head for head in heads] == [True, False]
    lpm = [line for line in ran.out.splitlines() if line.startswith("lpm ")]
    assert len(lpm) == 2
    assert all("±" in line for line in lpm)
    assert "Means over 2 seeds" in ran.out
    assert "Uncalibrated cost model" in ran.out
    assert "±" not in run(capsys, *SWEEP, "--policies", "lpm").out


def test_the_file_gets_the_rows_and_the_terminal_the_tables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tables = run(capsys, *GRID)
    for name, form in (("rows.csv", "--csv"), ("rows.json", "--json")):
        printed = run(capsys, *GRID, form)
        assert run(capsys, *GRID, "-o", tmp_path / name) == tables
        assert (tmp_path / name).read_text(encoding="utf-8") == printed.out
    refused(run(capsys, *GRID, "-o", tmp_path / "rows.txt"), ".csv or .json")


def test_a_search_ends_between_a_rate_that_passes_and_one_that_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = json.loads(run(capsys, *SEARCH, "--json").out)
    assert document["target"] == {"ttft_p99_s": 0.6, "tolerance": 0.2}
    assert [limit["policy"] for limit in document["limits"]] == ["fcfs", "lpm"]
    for limit in document["limits"]:
        probes = [cell for cell in document["cells"] if cell["policy"] == limit["policy"]]
        assert {cell["part"] for cell in probes} == {"search"}
        passed = [cell for cell in probes if cell["meets_target"]]
        failed = [cell["rate_requests_per_s"] for cell in probes if not cell["meets_target"]]
        for cell in probes:
            good = cell["run"]["values"]["ttft_p99_s"] <= 0.6 and cell["verdict"] != "OVERLOADED"
            assert cell["meets_target"] == good
        rates = [cell["rate_requests_per_s"] for cell in passed]
        assert limit["rate_requests_per_s"] == max(rates)
        assert max(rates) < min(failed) <= max(rates) * 1.2
        assert [cell["is_limit"] for cell in passed].count(True) == 1


def test_the_table_of_limits_names_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *SEARCH, "--capacities", "131072,65536")
    assert "Highest rate with p99 TTFT <= 0.6 s" in ran.out
    assert "bisected to 20%" in " ".join(ran.out.split())
    rows = [line.split()[:2] for line in ran.out.splitlines() if line[:4] in {"fcfs", "lpm "}]
    assert rows == [
        [policy, capacity] for capacity in ("131,072", "65,536") for policy in ("fcfs", "lpm")
    ]
    assert "tokens of KV memory" not in ran.out  # no grid was asked for


def test_a_grid_and_a_search_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(run(capsys, *SEARCH, "--rates", "1,2", "--csv").out)
    parts = [row["part"] for row in rows]
    assert parts[:4] == ["grid"] * 4
    assert set(parts[4:]) == {"search"}
    assert rows[4]["rate_requests_per_s"] == "1.0"  # the search starts at the first rate


def test_runs_too_short_to_judge_have_no_limit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(
        tmp_path / "two.jsonl",
        '{"t":0,"tokens":[1,2,3],"max_new":4}',
        '{"t":1,"tokens":[1,2,4],"max_new":4}',
    )
    search = ("sweep", path, "--quiet", "--jobs", "1", "--policies", "lpm")
    ran = run(capsys, *search, "--target-ttft-p99", "9", "--json")
    (limit,) = json.loads(ran.out)["limits"]
    assert limit["at_least"]
    assert ">=" in run(capsys, *search, "--target-ttft-p99", "9").out
    ran = run(capsys, *search, "--target-ttft-p99", "1e-6")
    assert any("none" in line for line in ran.out.splitlines() if line.startswith("lpm"))


def test_a_trace_is_swept_at_its_own_times(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "few.jsonl"
    run(capsys, "generate", "few-shot", "--size", "12", "-o", path)
    ran = run(capsys, "sweep", path, "--policies", "all", "--quiet", "--jobs", "1", "--csv")
    rows = rows_of(ran.out)
    assert len(rows) > 3
    assert {row["time_scale"] for row in rows} == {"1.0"}
    assert f"sweep {path} " in rows[0]["command"]


def test_presets_are_orders_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(run(capsys, *SWEEP, "--preset", "ours,vllm", "--csv").out)
    assert [row["policy"] for row in rows] == ["ours:lpm", "vllm:fcfs"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--capacities", "131072,3000"), ("3000", "give at least")),
        (("--capacities", "131072,131072"), ("131072", "twice")),
        (("--capacities", ""), ("--capacities", "at least 1")),
        (("--loads", "0.5,nan"), ("--loads", "'nan'", "above 0")),
        (("--loads", "1", "--rates", "1"), ("--rates", "--loads")),
        (("--seeds", "0,0"), ("--seeds", "twice")),
        (("--seeds", "-1"), ("--seeds", "at least 0")),
        (("--policies", "lpm,lpm"), ("'lpm'", "once")),
        (("--policies", "best"), ("'best'", "use one of")),
        (("--target-ttft-p99", "0"), ("--target-ttft-p99", "above 0")),
        (("--tolerance", "0.1"), ("--tolerance", "--target-ttft-p99")),
        (("--target-ttft-p99", "1", "--tolerance", "0"), ("--tolerance",)),
        (("--poisson", "--loads", "1"), ("--rate",)),
        (("-o", "/no/such/folder/x.csv"), ("existing folder",)),
    ],
)
def test_a_wrong_sweep_is_one_line_before_anything_runs(
    options: tuple[str, ...], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(run(capsys, *SWEEP, *options), *parts)


def test_a_cell_that_fails_ends_no_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CellRunner.run

    def broken(self: CellRunner, cell: Any, bar: Any) -> Any:
        if (cell.run, cell.seed) == ("lpm", 1):
            raise ZeroDivisionError("no pages")
        return real(self, cell, bar)

    monkeypatch.setattr(CellRunner, "run", broken)
    ran = run(capsys, *GRID, "--csv")
    assert ran.code == 1
    assert "2 runs or searches failed, the first: ZeroDivisionError: no pages" in ran.err
    rows = rows_of(ran.out)
    assert [row["error"] for row in rows].count("") == 6
    assert "1 FAILED" in run(capsys, *GRID).out
    ran = run(capsys, *SEARCH, "--seeds", "1")
    assert ran.code == 1
    assert "FAILED" in next(line for line in ran.out.splitlines() if line.startswith("lpm"))


def test_an_interrupt_keeps_the_rows_that_are_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows_of(run(capsys, *GRID, "--csv").out)
    real = CellRunner.run

    def interrupted(self: CellRunner, cell: Any, bar: Any) -> Any:
        if (cell.load, cell.run, cell.seed) == (2.0, "lpm", 1):
            raise KeyboardInterrupt
        return real(self, cell, bar)

    monkeypatch.setattr(CellRunner, "run", interrupted)
    path, handler = tmp_path / "rows.csv", signal.getsignal(signal.SIGINT)
    ran = run(capsys, *GRID, "-o", path)
    assert (ran.code, ran.out) == (130, "")
    assert signal.getsignal(signal.SIGINT) is handler
    *_, kept, last = ran.err.splitlines()
    assert kept == f"{path} has 7 of 8 runs and searches"
    assert last == "radixcache: interrupted"
    assert rows_of(path.read_text(encoding="utf-8")) == whole[:-1]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_leaves_no_process_and_no_file_without_rows(jobs: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    process = start(
        "sweep", "--policies", "fcfs,lpm", "--jobs", jobs, "-o", path, "--max-running", "2"
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("runs of the grid"):
            break
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "radixcache: interrupted\n")
    assert not path.exists()
