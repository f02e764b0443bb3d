"""Table: plain text that fits, a dash for nothing, no seconds where a queue grows."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from scheduler.report.metrics import METRICS
from scheduler.report.recorder import Recorder
from scheduler.report.stability import LoadJudgement, Verdict
from scheduler.report.summary import Summary, summarize
from scheduler.report.table import glossary, print_table, render_table
from tests.models.recorded_runs import queue_run


def run(label: str = "lpm", gap_s: float = 1.0, **more: object) -> Summary:
    recorder = queue_run([i * gap_s for i in range(200)], lambda rng: 500, seed=0)
    return summarize(recorder, label=label, page_size=16, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [30, 40, 80, 100, 300])
def test_no_table_line_is_wider_than_asked(width: int) -> None:
    text = render_table([run(), run("sglang-lpm")], width=width, columns=[m.name for m in METRICS])
    assert max(map(len, text.splitlines())) <= max(width, 40)
    table = text.split("200 requests offered")[0]
    assert max(map(len, table.splitlines())) <= width
    assert table.count("sglang-lpm") == table.count("policy")


def test_the_narrowest_table_still_shows_every_column() -> None:
    text = render_table([run()], width=1)
    assert "TTFT p99" in text
    assert "hit warm" in text


def test_an_overloaded_run_shows_its_drain_rate_and_no_seconds_of_waiting() -> None:
    good, bad = run("spf"), run("fcfs", gap_s=0.25)
    assert bad.overloaded
    text = render_table([good, bad], width=400)
    row = next(line for line in text.splitlines() if line.startswith("fcfs"))
    assert "OVERLOADED" in row
    assert "2.0" in row
    assert f"{bad.values['ttft_mean_s']:,.2f}" not in row
    assert "(over)" in row
    assert "(over) = OVERLOADED" in text
    assert "STABLE" in next(line for line in text.splitlines() if line.startswith("spf"))


def test_who_waited_is_explained_and_hidden_where_the_queue_grows() -> None:
    text = render_table([run("spf"), run("fcfs", gap_s=0.25)])
    blocks = text.split("\n\n")
    assert "computed p99" not in blocks[0]
    (block,) = (b for b in blocks if "computed p99" in b and b.startswith("policy"))
    assert max(map(len, block.splitlines())) <= 100
    head, _, good, bad = block.splitlines()
    end = head.index("computed p99") + len("computed p99")
    assert good[:end].split()[-1] == f"{run().values['mostly_computed_ttft_p99_s']:.2f}"
    assert bad[:end].split()[-1] == "(over)"
    assert "of whose prompt less than 50%" in " ".join(text.split())
    assert "of whose prompt" not in render_table([run()], columns=["ttft_p99_s"])


def test_units_stand_under_the_headers() -> None:
    head, units, *_ = render_table([run()], width=400).splitlines()
    assert head.index("TTFT mean") < head.index("TTFT p50")
    assert units.split()[:3] == ["%", "%", "%"]


def test_an_empty_run_is_dashes() -> None:
    text = render_table([summarize(Recorder(), label="none", page_size=16)], width=400)
    row = next(line for line in text.splitlines() if line.startswith("none"))
    assert set(row.split()[1:]) <= {"-", "0"}
    assert "nan" not in text.lower().replace("none", "")


def test_uncalibrated_seconds_are_marked_and_calibrated_ones_are_not() -> None:
    marked = "seconds order policies, they predict no server"
    assert marked in render_table([run()], width=200)
    assert marked not in render_table([run(calibrated=True)], width=200)


def test_a_bound_nobody_computed_is_left_out() -> None:
    text = render_table([run(optimal_hit_rate=0.5)], width=200)
    assert "DFS optimum 50.00 %; 200 requests offered" in text
    assert "unbounded cache" not in text
    assert "\n200 requests offered" in render_table([run()], width=200)


def test_runs_in_which_nobody_waited_say_why_they_are_equal() -> None:
    said = "No request ever waited"
    idle = [
        replace(one, values={**one.values, "queue_max_requests": 0}) for one in (run(), run("fcfs"))
    ]
    assert said in render_table(idle, width=200)
    assert said not in render_table(idle[:1], width=200)
    assert said not in render_table([idle[0], run("spf", gap_s=0.25)], width=200)


def test_an_estimated_optimum_is_marked() -> None:
    estimate = run(optimal_hit_rate=0.5, optimal_exact=False)
    assert "DFS optimum 50.00 % (estimated, within 1.3 points)" in render_table(
        [estimate], width=200
    )


def test_shared_assumptions_stand_once_and_differing_ones_by_run() -> None:
    one = run(assumptions={"page": 16, "hold": "stop"}, seed=3)
    text = render_table(
        [one, replace(one, label="spf", assumptions={"page": 16, "hold": "off"})], width=200
    )
    assert "Assumed: page 16; seed 3." in text
    assert "hold: lpm stop, spf off." in text


def test_output_that_is_no_terminal_is_plain() -> None:
    out = io.StringIO()
    print_table([run()], Console(file=out, force_terminal=False))
    assert out.getvalue() == render_table([run()])


@pytest.mark.parametrize("width", [40, 120])
def test_a_terminal_gets_tables_that_fit_it(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    print_table([run(), run("fcfs", gap_s=0.25)], console)
    assert "OVERLOADED" in out.getvalue()
    assert "TTFT mean" in out.getvalue()
    assert "…" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= width


def test_a_verdict_of_none_is_a_dash() -> None:
    summary = replace(run(), load=LoadJudgement(None))
    assert Verdict.STABLE.value not in render_table([summary])


def test_the_glossary_lists_every_metric_once() -> None:
    text = glossary()
    assert all(text.count(f"| `{m.name}` |") == 1 for m in METRICS)
