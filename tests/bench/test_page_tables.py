"""Tables of pages: made from results, put between their marks, and nothing else touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import eviction_table, sweep_table
from bench.page_blocks import RESULTS, ROOT, write_block
from bench.sweep import COMMANDS, KEPT_PLACES, KEPT_VALUES, POLICIES, condensed, written
from scheduler.cli.compare import runs_of
from scheduler.cli.parsing import parse_arguments
from scheduler.report.metrics import METRICS
from tests.models.command_line import run

PAGE = ROOT / "bench" / "README.md"


def cell(policy: str, seed: int, mean_s: float, **more: Any) -> dict[str, Any]:
    values = dict.fromkeys(KEPT_VALUES, 0.5) | {"ttft_mean_s": mean_s, "ttft_p99_s": 20.0}
    place = {"policy": policy, "seed": seed, "load": 0.9, "rate_requests_per_s": None}
    place |= {"part": "grid", "verdict": "STABLE", "meets_target": None, "is_limit": None}
    return place | values | more


def result(*cells: dict[str, Any], rates: tuple[float | None, ...] = (4.0, 5.0)) -> dict[str, Any]:
    limits = [
        {"policy": "lpm", "seed": seed, "rate_requests_per_s": rate, "at_least": False}
        for seed, rate in enumerate(rates)
    ]
    return {
        "commit": "0123456789abcdef",
        "command": "radixcache sweep",
        "version": "1",
        "target": {"ttft_p99_s": 5.0, "tolerance": 0.05},
        "limits": limits,
        "cells": list(cells),
    }


def test_a_block_is_replaced_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: made by y -->\n\nold\n\n<!-- end of x -->\nb\n")
    for _ in range(2):
        write_block(page, "x", "new")
        assert page.read_text() == "a\n<!-- x: made by y -->\n\nnew\n\n<!-- end of x -->\nb\n"
    for broken in ("", "<!-- x: -->", "<!-- end of x --><!-- x: -->", page.read_text() * 2):
        page.write_text(broken)
        with pytest.raises(ValueError, match="no block 'x'"):
            write_block(page, "x", "new")
        assert page.read_text() == broken


def test_medians_and_ranges_are_those_of_the_seeds() -> None:
    results = {"chat": result(*(cell("lpm", seed, mean) for seed, mean in enumerate((1, 2, 9))))}
    (row,) = (line for line in sweep_table.combined(results).splitlines() if "`lpm`" in line)
    assert row == "| `lpm` | 50.0 / 2.0 / 20 / 0.50 |"
    (row,) = (line for line in sweep_table.spread(results["chat"], "ρ 0.9").splitlines()[2:])
    assert "2.0 (1.0–9.0)" in row
    assert "20 |" in row


def test_overloaded_cells_are_marked_for_all_or_some_seeds() -> None:
    over = {"verdict": "OVERLOADED"}
    results = {"chat": result(cell("lpm", 0, 1, **over), cell("fcfs", 0, 1), cell("lpm", 1, 1))}
    rows = {line.split("`")[1]: line for line in sweep_table.combined(results).splitlines()[2:]}
    assert rows["lpm"].endswith("†1/2 |")
    assert "†" not in rows["fcfs"]
    results = {"chat": result(cell("lpm", 0, 1, **over))}
    assert "0.50† |" in sweep_table.combined(results)


def test_the_headline_has_the_median_rate_and_its_range() -> None:
    rows = sweep_table.headline({"chat": result(rates=(4.0, 5.0, 8.0))}).splitlines()
    assert rows[0] == "| requests/s | chat, p99 ≤ 5 s |"
    assert rows[-1] == "| `lpm` | 5 (4–8) |"
    assert sweep_table.headline({"chat": result(rates=(4.0, None))}).endswith("| none |")


def test_a_sweep_is_condensed_to_what_the_tables_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(KEPT_VALUES) < {m.name for m in METRICS}
    ran = run(
        capsys, "sweep", "--workload", "few-shot", "--size", "30", "--policies", "fcfs,lpm",
        "--loads", "0.9", "--seeds", "0,1", "--target-ttft-p99", "2", "--tolerance", "0.5",
        "--jobs", "1", "--json", "-q",
    )  # fmt: skip
    document = json.loads(ran.out)
    kept = condensed(document)
    assert [set(row) for row in kept["cells"]] == [{*KEPT_PLACES, *KEPT_VALUES}] * len(
        document["cells"]
    )
    assert kept["assumptions"]["capacity_tokens"] == 131_072
    assert "hold" not in kept["assumptions"]  # it differs between the orders
    assert json.loads(written({"commit": "c"} | kept)) == {"commit": "c"} | kept
    text = sweep_table.page_text({"few-shot": {"commit": "c"} | kept})
    assert text.count("`lpm` |") == 3
    document["cells"][0]["error"] = "ZeroDivisionError: no"
    with pytest.raises(ValueError, match="1 runs failed"):
        condensed(document)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_command_is_one_that_sweep_takes(name: str) -> None:
    arguments = parse_arguments(["sweep", *COMMANDS[name].split()])
    assert set(runs_of(arguments)) <= set(POLICIES)
    assert arguments.loads or arguments.rates or arguments.target_ttft_p99


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_committed_results_are_whole(name: str) -> None:
    path = RESULTS / "sweep" / f"{name}.json"
    assert path.stat().st_size < 300_000
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["command"].startswith("radixcache sweep ")
    assert found["cells"]
    if sweep_table.grid(found):
        assert {cell["seed"] for cell in found["cells"]} == {0, 1, 2}
    assert "/work/" not in path.read_text(encoding="utf-8")


def test_the_page_has_the_tables_of_the_committed_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    result_of = json.loads((RESULTS / "eviction.json").read_text(encoding="utf-8"))
    assert eviction_table.page_text(result_of) in text
    assert sweep_table.page_text(sweep_table.loaded(RESULTS / "sweep")) in text
