"""What a guard costs and wins: against the loosest, seed by seed, nothing from an overload."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.report.guard_setting import UNBOUNDED, GuardSetting
from scheduler.report.guard_trade import GuardRow, guard_trades
from scheduler.report.summary import Summary, summarize
from scheduler.report.sweep import Limit, Sweep, SweepCell
from scheduler.report.sweep_table import render_sweep, sweep_tables
from tests.models.recorded_runs import queue_run

TIGHT, MIDDLE = GuardSetting(0, 0.0), GuardSetting(8192, 0.25)


def made(hit: float, p99: float, largest: float, gap_s: float = 1.0) -> Summary:
    """Return a run with these numbers; a gap below 0.5 s is overloaded."""
    recorder = queue_run([i * gap_s for i in range(200)], lambda rng: 500, seed=0)
    summary = summarize(recorder, label="lpm", page_size=16)
    values = {"cold_hit_rate_share": hit, "ttft_p99_s": p99, "ttft_max_s": largest}
    return replace(summary, values={**summary.values, **values})


def cell(guard: GuardSetting, summary: Summary | None, **more: object) -> SweepCell:
    values = {"policy": "lpm", "capacity_tokens": 65536, "rate": 2.0, "seed": 0} | more
    return SweepCell(guard=guard, summary=summary, **values)  # type: ignore[arg-type]


def sweep(*cells: SweepCell, **more: object) -> Sweep:
    return Sweep(cells=cells, command="radixcache sweep", version="1", **more)  # type: ignore[arg-type]


def rows_of(*cells: SweepCell) -> list[GuardRow]:
    (trade,) = guard_trades(cells)
    return list(trade.rows)


def test_each_guard_stands_against_the_loosest() -> None:
    loosest, middle, tight = rows_of(
        cell(TIGHT, made(0.30, 3.0, 4.0)),
        cell(UNBOUNDED, made(0.50, 10.0, 40.0)),
        cell(MIDDLE, made(0.45, 5.0, 50.0)),
    )
    assert (loosest.guard, middle.guard, tight.guard) == (UNBOUNDED, MIDDLE, TIGHT)
    assert (*loosest.hit_points, *loosest.ttft_p99_changes, *loosest.ttft_max_changes) == ()
    assert middle.hit_points == pytest.approx([-5.0])
    assert middle.ttft_p99_changes == pytest.approx([-0.5])
    assert middle.ttft_max_changes == pytest.approx([0.25])
    assert tight.hit_points == pytest.approx([-20.0])


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 3), min_size=1, max_size=6, unique=True),
)
def test_differences_are_between_runs_of_one_seed(own: list[int], other: list[int]) -> None:
    base = made(0.5, 1.0, 1.0)

    def at(seed: int, more: float) -> Summary:
        values = {"cold_hit_rate_share": 0.1 * seed + more, "ttft_p99_s": 1.0 + seed + more}
        return replace(base, values={**base.values, **values})

    cells = [cell(TIGHT, at(seed, 0.0), seed=seed) for seed in own]
    cells += [cell(UNBOUNDED, at(seed, 0.05), seed=seed) for seed in other]
    _, tight = rows_of(*cells)
    shared = [seed for seed in own if seed in other]
    assert tight.hit_points == pytest.approx([-5.0] * len(shared))
    assert tight.ttft_p99_changes == pytest.approx([(1 + s) / (1.05 + s) - 1 for s in shared])
    assert len(tight.runs) == len(own)


def test_orders_with_one_guard_have_no_trade_and_places_are_apart() -> None:
    run = made(0.5, 1.0, 1.0)
    cells = [cell(UNBOUNDED, run, policy="fcfs")]
    cells += [
        cell(guard, run, policy=policy, capacity_tokens=capacity, rate=None, load=load)
        for capacity in (65536, 131072)
        for load in (0.5, 0.9)
        for policy in ("lpm", "k-lpm")
        for guard in (TIGHT, MIDDLE)
    ]
    trades = guard_trades(cells)
    assert [(t.place.capacity_tokens, t.place.load, t.place.policy) for t in trades] == [
        (capacity, load, policy)
        for capacity in (65536, 131072)
        for load in (0.5, 0.9)
        for policy in ("lpm", "k-lpm")
    ]
    assert guard_trades(cells[:1]) == []


def test_what_failed_is_no_difference() -> None:
    loosest, tight = rows_of(cell(UNBOUNDED, None, error="no pages"), cell(TIGHT, made(0.3, 1, 1)))
    assert (loosest.runs, tight.hit_points) == ([], [])
    text = render_sweep(sweep(cell(UNBOUNDED, None, error="x"), cell(TIGHT, made(0.3, 1, 1))))
    assert text.count("hit lost against p99 won") == 1
    assert "1 FAILED" in text


def test_a_wait_of_nothing_has_no_relative_change() -> None:
    _, tight = rows_of(cell(UNBOUNDED, made(0.5, 0.0, 0.0)), cell(TIGHT, made(0.3, 1.0, 1.0)))
    assert (tight.ttft_p99_changes, tight.ttft_max_changes) == ([], [])


def guard_lines(*cells: SweepCell) -> dict[str, list[str]]:
    (table,) = (t for t in sweep_tables(sweep(*cells)) if "hit lost" in t.title)
    return {row[0]: list(row[1:]) for row in table.rows}


def test_the_table_shows_hit_lost_and_p99_won() -> None:
    lines = guard_lines(
        cell(UNBOUNDED, made(0.50, 10.0, 40.0)), cell(MIDDLE, made(0.45, 5.0, 50.0))
    )
    assert list(lines) == ["guard", "tok + of backlog", "inf", "8192+0.25"]
    assert lines["inf"] == ["50.00", "-", "10.00", "-", "40.00", "-", "0"]
    assert lines["8192+0.25"] == ["45.00", "-5.00", "5.00", "-50.0", "50.00", "+25.0", "0"]


def test_seeds_are_means_of_their_differences() -> None:
    lines = guard_lines(
        *(cell(UNBOUNDED, made(0.50 + s, 10.0, 40.0), seed=i) for i, s in enumerate((0.0, 0.2))),
        *(cell(TIGHT, made(0.49 + s, 5.0, 40.0), seed=i) for i, s in enumerate((0.0, 0.2))),
    )
    assert lines["0+0"][1] == "-1.00 ±0.00"
    assert lines["0+0"][3] == "-50.0 ±0.0"


@pytest.mark.parametrize("over", [TIGHT, UNBOUNDED])
def test_an_overload_hides_its_seconds_and_every_change_against_it(over: GuardSetting) -> None:
    lines = guard_lines(
        *(
            cell(guard, made(0.4, 7.0, 9.0, gap_s=0.25 if guard == over else 1.0))
            for guard in (UNBOUNDED, TIGHT)
        )
    )
    label = {TIGHT: "0+0", UNBOUNDED: "inf"}[over]
    assert (lines[label][2], lines[label][4]) == ("(over)", "(over)")
    other = {TIGHT: "inf", UNBOUNDED: "0+0"}[over]
    assert (lines[other][2], lines[other][4]) == ("7.00", "9.00")
    assert (lines["0+0"][3], lines["0+0"][5]) == ("(over)", "(over)")
    assert lines["0+0"][1] == "0.00"


def test_a_label_has_the_guard_where_an_order_ran_under_several() -> None:
    run = made(0.5, 1.0, 1.0)
    limit = Limit(policy="k-lpm", capacity_tokens=64, seed=0, rate=None, guard=MIDDLE)
    cells = [cell(UNBOUNDED, run, policy="fcfs"), cell(TIGHT, run), cell(MIDDLE, run)]
    assert dict(sweep(*cells, limits=[limit]).labels()) == {
        ("fcfs", UNBOUNDED): "fcfs",
        ("lpm", TIGHT): "lpm 0+0",
        ("lpm", MIDDLE): "lpm 8192+0.25",
        ("k-lpm", MIDDLE): "k-lpm",
    }


def test_a_limit_rests_on_a_probe_of_its_own_guard() -> None:
    run = made(0.5, 1.0, 1.0)
    limits = [
        Limit(policy="lpm", capacity_tokens=65536, seed=0, rate=rate, guard=guard)
        for guard, rate in ((TIGHT, 2.0), (MIDDLE, 4.0))
    ]
    probes = [
        cell(guard, run, rate=rate, meets_target=True)
        for guard in (TIGHT, MIDDLE)
        for rate in (2.0, 4.0)
    ]
    found = sweep(*probes, limits=limits, target_ttft_p99_s=3.0, tolerance=0.05)
    assert [found.is_limit(probe) for probe in probes] == [True, False, False, True]
    text = render_sweep(found)
    assert [line.split()[:4] for line in text.splitlines() if line.startswith("lpm ")] == [
        ["lpm", "0+0", "65,536", "2.00"],
        ["lpm", "8192+0.25", "65,536", "4.00"],
    ]
    assert "hit lost" not in text  # probes of a search stand at rates of their own


def test_guards_are_ordered_by_base_and_then_by_kappa() -> None:
    ordered = [TIGHT, GuardSetting(0, 0.5), MIDDLE, GuardSetting(8192, 0.5), UNBOUNDED]
    assert max(ordered[::-1]) is UNBOUNDED
    assert sorted(ordered[i] for i in (3, 0, 4, 2, 1)) == ordered
    assert [guard.label for guard in ordered] == ["0+0", "0+0.5", "8192+0.25", "8192+0.5", "inf"]
    assert [str(guard) for guard in ordered] == [
        "0:0", "0:0.5", "8192:0.25", "8192:0.5", "inf:0",
    ]  # fmt: skip
    assert not GuardSetting(inf, 0.0).bounded
