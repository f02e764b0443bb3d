"""Sweep rows and tables: means over seeds, what is overloaded or failed, the limits."""

from __future__ import annotations

import csv
import io
import json

from scheduler.report.summary import Summary, summarize
from scheduler.report.sweep import Limit, Sweep, SweepCell, sweep_to_csv, sweep_to_json
from scheduler.report.sweep_table import render_sweep, sweep_tables
from tests.models.recorded_runs import queue_run


def made(gap_s: float, seed: int = 0) -> Summary:
    recorder = queue_run([i * gap_s for i in range(200)], lambda rng: 500, seed=seed)
    return summarize(recorder, label="lpm", page_size=16, optimal_hit_rate=0.5)


def cell(seed: int, summary: Summary | None, **more: object) -> SweepCell:
    values = {"policy": "lpm", "capacity_tokens": 65536, "rate": 2.0, "seed": seed} | more
    return SweepCell(summary=summary, **values)  # type: ignore[arg-type]


def sweep(*cells: SweepCell, **more: object) -> Sweep:
    return Sweep(cells=cells, command="radixcache sweep", version="1", **more)  # type: ignore[arg-type]


def row(text: str, policy: str = "lpm") -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{policy} "))


def test_seeds_are_one_row_with_their_spread() -> None:
    fast, slow = made(1.0), made(2.0)
    means = [run.values["ttft_mean_s"] or 0.0 for run in (fast, slow)]
    text = render_sweep(sweep(cell(0, fast), cell(1, slow)))
    assert text.count("\nlpm ") == 1
    spread = abs(means[0] - means[1]) / 2**0.5
    assert f"{sum(means) / 2:.2f} ±{spread:.2f}" in row(text)
    assert "STABLE" in row(text)
    assert "Means over 2 seeds" in text


def test_one_seed_has_no_spread() -> None:
    assert "±" not in render_sweep(sweep(cell(0, made(1.0))))


def test_orders_of_one_seed_add_no_spread_to_what_is_offered() -> None:
    title = sweep_tables(sweep(cell(0, made(1.0)), cell(0, made(1.0), policy="spf")))[0].title
    assert title.endswith("\n1.00 requests/s offered, DFS-optimal hit rate 50.00 %")


def test_one_overloaded_seed_hides_the_seconds_and_shows_the_drain() -> None:
    text = render_sweep(sweep(cell(0, made(1.0)), cell(1, made(0.25)), cell(2, made(0.25))))
    assert "OVERLOADED 2/3" in row(text)
    assert row(text).count("(over)") == 3
    assert "2.00 ±0.00" in row(text)
    assert "(over) = OVERLOADED" in text


def test_each_capacity_and_load_has_its_table() -> None:
    run = made(1.0)
    cells = [
        cell(0, run, capacity_tokens=capacity, rate=None, load=load)
        for capacity in (65536, 131072)
        for load in (0.5, 0.9)
    ]
    titles = [table.title.splitlines()[0] for table in sweep_tables(sweep(*cells))]
    assert titles == [
        f"{capacity} tokens of KV memory, load {load} of what the DFS optimum could carry"
        for capacity in ("65,536", "131,072")
        for load in ("0.5", "0.9")
    ]


def test_a_failed_cell_is_a_row_without_numbers() -> None:
    both = sweep(cell(0, made(1.0)), cell(1, None, error="no pages"))
    assert "1 FAILED" in row(render_sweep(both))
    rows = list(csv.DictReader(io.StringIO(sweep_to_csv(both))))
    assert [r["error"] for r in rows] == ["", "no pages"]
    assert rows[1]["ttft_mean_s"] == ""
    assert json.loads(sweep_to_json(both))["cells"][1]["run"] is None
    alone = sweep(cell(1, None, error="no pages"))
    assert "1 FAILED" in row(render_sweep(alone))
    assert "no pages" in sweep_to_csv(alone)


def test_limits_show_the_run_they_rest_on() -> None:
    good, bad = made(1.0), made(0.25)
    limit = Limit(policy="lpm", capacity_tokens=65536, seed=0, rate=2.0)
    found = sweep(
        cell(0, good, meets_target=True),
        cell(0, bad, rate=4.0, meets_target=False),
        target_ttft_p99_s=3.0,
        tolerance=0.05,
        limits=[limit],
    )
    text = render_sweep(found)
    assert "Highest rate with p99 TTFT <= 3 s" in text
    assert "2.00" in row(text)
    assert f"{good.values['ttft_p99_s']:.2f}" in row(text)
    rows = list(csv.DictReader(io.StringIO(sweep_to_csv(found))))
    assert [(r["meets_target"], r["is_limit"]) for r in rows] == [
        ("true", "true"),
        ("false", "false"),
    ]
    assert json.loads(sweep_to_json(found))["limits"][0]["rate_requests_per_s"] == 2.0


def test_limits_that_were_not_found_say_so() -> None:
    def shown(*limits: Limit) -> str:
        return row(render_sweep(sweep(target_ttft_p99_s=3.0, tolerance=0.05, limits=limits)))

    none = Limit(policy="lpm", capacity_tokens=64, seed=0, rate=None)
    some = Limit(policy="lpm", capacity_tokens=64, seed=1, rate=0.5, at_least=True)
    failed = Limit(policy="lpm", capacity_tokens=64, seed=2, rate=None, error="no pages")
    assert " none " in shown(none)
    assert "none for 1 of 2" in shown(none, some)
    assert ">=0.5000" in shown(some)
    assert "FAILED" in shown(some, failed)


def test_an_empty_sweep_has_a_header_and_no_table() -> None:
    assert sweep_tables(sweep()) == []
    assert sweep_to_csv(sweep()).count("\n") == 1
