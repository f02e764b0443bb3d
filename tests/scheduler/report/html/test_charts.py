"""Charts: well-formed pictures in two widths, tables with the data's own numbers."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from scheduler.report.details import Waits
from scheduler.report.guard_setting import GuardSetting
from scheduler.report.guard_trade import GuardRow, GuardTrade
from scheduler.report.html.charts_curve import CapacityLine, CapacityMark, curve_figure
from scheduler.report.html.charts_guards import guard_figure
from scheduler.report.html.charts_hit_rate import HitRate, hit_rate_figure
from scheduler.report.html.charts_latency import (
    Distribution,
    GroupWaits,
    ttft_figure,
    waits_figure,
)
from scheduler.report.html.charts_losses import LossStep, waterfall_figure
from scheduler.report.html.charts_prefixes import HotPrefix, prefixes_figure
from scheduler.report.html.charts_sweep import (
    Axis,
    HighestRate,
    Line,
    Spot,
    highest_rate_figure,
    trend_figure,
)
from scheduler.report.html.charts_time import Course, course_figure
from scheduler.report.html.figure import Figure
from scheduler.report.html.text import percent
from scheduler.report.sweep import SweepCell
from tests.models.report_pages import overloaded, runs
from tests.models.report_reading import pictures, words

HOSTILE = '</svg><script>alert("1")</script>\x00\u202e&amp; ' + "x" * 300
NOBODY = Waits.of([])
AXIS = Axis("requests/s", lambda v: f"{v:g}")


def guarded(base: float, hit: float, p99: float, *, over: bool = False) -> GuardRow:
    """Return a guard against a loosest one with a hit rate of 0.5 and a p99 of 10 s."""
    (run,) = runs("a")
    values = {"cold_hit_rate_share": hit, "ttft_p99_s": p99, "ttft_max_s": p99}
    run = replace(overloaded("a") if over else run, values={**run.values, **values})
    changes = () if base == inf else (p99 / 10 - 1,)
    return GuardRow(
        guard=GuardSetting(base, 0.0),
        runs=[run],
        hit_points=() if base == inf else (100 * (hit - 0.5),),
        ttft_p99_changes=changes,
        ttft_max_changes=changes,
        overloaded=over,
    )


def trades_of(*names: str) -> list[GuardTrade]:
    """Return what two guards do for each order, of which one is overloaded."""
    rows = [guarded(inf, 0.5, 10), guarded(64, 0.4, 2), guarded(0, 0.1, 90, over=True)]
    places = (SweepCell(policy=name, capacity_tokens=64, seed=0) for name in names)
    return [GuardTrade(place=place, rows=rows) for place in places]


def figures_of(name: str) -> list[Figure]:
    """Return one of each chart for a name, with a point, missing values and extremes."""
    waits = Waits.of([0.0, 1e-5, 3.0, 4_000.0])
    return [
        hit_rate_figure(
            [HitRate(name, 0.8, 0.9, 0.95), HitRate("b", None, None, None)],
            optimum=0.84,
            ceiling=0.83,
            exact=False,
        ),
        ttft_figure([Distribution(name, [(0.5, 1.0), (1.0, 2.0)]), Distribution("b", [], True)]),
        waits_figure([GroupWaits(name, waits, NOBODY), GroupWaits("b", NOBODY, NOBODY)]),
        course_figure([Course(name, 2.0, [0.0, 5.0], [None, 0.5]), Course("b", 0.0, [], [])]),
        waterfall_figure([LossStep(name, 5, name, "hit"), LossStep("b", 0, "", "new")]),
        curve_figure(
            [CapacityLine(name, name, [(64, 0.1)], [0.01]), CapacityLine("b", "", [])],
            [CapacityMark(name, name, 64, 0.1), CapacityMark("c", "", 10**9)],
            bound=(name, 0.3),
            memory=lambda tokens: f"{tokens} GiB",
        ),
        prefixes_figure(
            [HotPrefix(name, 0, 5, 2, None), HotPrefix(name, 5, 9, 1, 0.1, 0),
             HotPrefix("late", 900, 901, 1, 0.0)]
        ),
        trend_figure(
            "trend",
            name,
            [
                Line(name, [Spot(1, [], [], True), Spot(8, [2.0, 3.0], [0.5, 0.6])]),
                Line("b", [Spot(8, [], [0.1], True)]),
            ],
            AXIS,
            optimum=0.7,
        ),
        highest_rate_figure(
            "highest",
            [HighestRate(name, [2.0, 3.5], True, 3), HighestRate("b", [], False, 3)],
            target_s=5.0,
            about=name,
        ),
        guard_figure("guards", trades_of(name), about=name),
    ]  # fmt: skip


EMPTY = [
    hit_rate_figure([], optimum=None, ceiling=None),
    ttft_figure([]),
    waits_figure([]),
    course_figure([]),
    waterfall_figure([]),
    curve_figure([]),
    prefixes_figure([]),
    trend_figure("trend", "", [], AXIS, optimum=None),
    highest_rate_figure("highest", [], target_s=1.0, about=""),
    guard_figure("guards", [], about=""),
]


@pytest.mark.parametrize(
    "figure",
    [*figures_of("lpm"), *figures_of(HOSTILE), *figures_of(""), *EMPTY],
    ids=lambda figure: figure.name,
)
def test_pictures_are_well_formed_and_named(figure: Figure) -> None:
    for svg in pictures(figure):
        title, about = svg[0], svg[1]
        assert (title.tag, about.tag) == ("title", "desc")
        assert about.text
        assert svg.attrib["aria-labelledby"] == f"{title.attrib['id']} {about.attrib['id']}"
        assert svg.find(".//script") is None
    assert "<script" not in figure.wide + figure.narrow
    assert figure.caption
    assert figure.definitions or figure in EMPTY


@pytest.mark.parametrize("figure", figures_of("lpm"), ids=lambda figure: figure.name)
def test_the_same_data_gives_the_same_picture(figure: Figure) -> None:
    (again,) = [f for f in figures_of("lpm") if f.name == figure.name]
    assert (again.wide, again.narrow) == (figure.wide, figure.narrow)


@pytest.mark.parametrize("figure", figures_of("lpm"), ids=lambda figure: figure.name)
def test_each_series_is_named_beside_what_is_drawn(figure: Figure) -> None:
    for svg in pictures(figure):
        assert any("lpm" in said for said in words(svg))


def test_texts_stay_inside_the_picture() -> None:
    for figure in figures_of("sglang-lpm"):
        for svg in pictures(figure):
            width = float(svg.attrib["width"])
            for node in svg.iter("text"):
                assert -1 <= float(node.attrib["x"]) <= width + 1


def test_hit_rates_stand_in_picture_and_table() -> None:
    figure = hit_rate_figure([HitRate("lpm", 0.8245, 0.842, 0.907)], optimum=0.9, ceiling=None)
    assert list(figure.table.rows[0]) == ["lpm", "82.45", "84.20", "90.7"]
    for svg in pictures(figure):
        said = " ".join(words(svg))
        assert percent(0.8245) in said
        assert f"DFS optimum {percent(0.9)}" in said
    assert percent(0.8245) in figure.about


def test_bars_are_as_long_as_their_rates() -> None:
    figure = hit_rate_figure(
        [HitRate("a", 0.2, None, None), HitRate("b", 0.4, None, None)], optimum=0.5, ceiling=None
    )
    for svg in pictures(figure):
        short, long = (float(bar.attrib["width"]) for bar in svg.iter("rect"))
        assert long == pytest.approx(2 * short, abs=0.2)


def test_the_waterfall_goes_over_all_tokens_without_a_gap() -> None:
    steps = [LossStep(str(n), n, "", "lost") for n in (50, 0, 30, 920)]
    figure = waterfall_figure(steps)
    wide, _ = pictures(figure)
    bars = [(float(b.attrib["x"]), float(b.attrib["width"])) for b in wide.iter("rect")]
    for (x, width), (following, _), step in zip(bars, bars[1:], steps, strict=False):
        if step.tokens:
            assert x + width == pytest.approx(following, abs=0.2)
    assert figure.table.rows[-1] == ("all prompt tokens", "1,000", "100.00")


def test_children_stand_below_their_parents() -> None:
    figure = prefixes_figure(
        [HotPrefix("b", 5, 9, 3, 0.1, 1), HotPrefix("a", 0, 5, 9, 0.2), HotPrefix("c", 0, 1, 2, 0)]
    )
    assert [row[0] for row in figure.table.rows] == ["a", "· b", "c"]


def test_an_overloaded_spot_has_no_seconds() -> None:
    figure = trend_figure(
        "t", "t", [Line("fcfs", [Spot(4, [], [0.5], overloaded=True)])], AXIS, optimum=None
    )
    assert list(figure.table.rows[0][2:6]) == ["OVERLOADED", "–", "–", "–"]
    assert "upper edge" in figure.caption


def test_a_curve_is_tabled_at_each_of_its_capacities() -> None:
    figure = curve_figure(
        [
            CapacityLine("LRU", "", [(64, 0.1), (128, 0.2)]),
            CapacityLine("optimum", "", [(128, 0.3)]),
        ]
    )
    assert [list(row) for row in figure.table.rows] == [
        ["64", "10.00", "–"],
        ["128", "20.00", "30.00"],
    ]


def test_a_guard_stands_at_what_it_loses_and_wins() -> None:
    figure = guard_figure("g", trades_of("lpm"), about="here")
    assert [list(row[:6]) for row in figure.table.rows] == [
        ["lpm", "inf", "50.00", "–", "10.000", "10.000"],
        ["lpm", "64+0", "40.00", "10.00", "2.000", "2.000"],
        ["lpm", "0+0", "10.00", "40.00", "(over)", "(over)"],
    ]
    assert [row[6] for row in figure.table.rows] == ["–", "80.0", "(over)"]
    assert f"64+0 loses 10.00 points and wins {percent(0.8, 1)}" in figure.about
    for svg in pictures(figure):
        loosest, mark = sorted(svg.iter("circle"), key=lambda m: m.attrib["class"], reverse=True)
        assert loosest.attrib["class"] == "mh s0"
        assert float(mark.attrib["cx"]) > float(loosest.attrib["cx"])  # hit is lost
        assert float(mark.attrib["cy"]) < float(loosest.attrib["cy"])  # p99 is won
        assert {"inf", "lpm 64+0"} <= set(words(svg))
        assert not any("lpm 0+0" in said for said in words(svg))


def test_guards_against_an_overloaded_loosest_one_have_no_mark() -> None:
    (trade,) = trades_of("lpm")
    rows = [replace(row, overloaded=True) for row in trade.rows]
    figure = guard_figure("g", [replace(trade, rows=rows)], about="here")
    assert "no guard can be compared" in figure.about
    assert "OVERLOADED" in figure.caption
    for svg in pictures(figure):
        assert list(svg.iter("circle")) == []


def test_what_changes_nothing_loses_no_minus_zero() -> None:
    (trade,) = trades_of("lpm")
    rows = [*trade.rows[:1], guarded(64, 0.5 + 1e-12, 10 + 1e-12)]
    figure = guard_figure("g", [replace(trade, rows=rows)], about="here")
    assert "-0" not in figure.about
    assert list(figure.table.rows[1])[3] == "0.00"
    assert list(figure.table.rows[1])[6] == "0.0"
