"""`--html`: a report beside the usual output, the same bytes again, refused where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.command_line import SMALL, run, run_apart, write_rows
from tests.models.report_reading import Page, read_page

COMPARE = ("compare", *SMALL, "--policies", "fcfs,lpm")
EXPLAIN = ("explain", *SMALL)
CURVE = ("curve", *SMALL)
SWEEP = ("sweep", *SMALL, "--policies", "fcfs,lpm", "--rates", "2,8", "--jobs", "1")


def page(path: Path) -> Page:
    return read_page(path.read_text(encoding="utf-8"))


def test_a_comparison_is_printed_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    plain = run(capsys, *COMPARE, "--jobs", "1")
    assert run(capsys, *COMPARE, "--jobs", "1", "--html", path) == plain
    drawn = page(path)
    assert drawn.unclosed == []
    assert drawn.requests == []
    assert drawn.tags.count("figure") == 4
    assert "radixcache compare --policies fcfs,lpm --workload few-shot --size 24" in drawn.text
    assert [row[0] for row in drawn.tables["The runs side by side"][1:]] == ["fcfs", "lpm"]


def test_numbers_of_the_report_are_those_of_the_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    ran = run(capsys, *COMPARE, "--jobs", "1", "--json", "--html", path)
    assert ran.out == run(capsys, *COMPARE, "--jobs", "1", "--json").out
    numbers = {row[0]: row[2:] for row in page(path).tables["Every metric of every run"]}
    values = [row["values"] for row in json.loads(ran.out)["runs"]]
    for header, name, scale, decimals in (
        ("hit cold", "cold_hit_rate_share", 100, 2),
        ("TTFT p99", "ttft_p99_s", 1, 2),
        ("prefilled", "prefill_tokens", 1, 0),
    ):
        assert numbers[header] == [f"{v[name] * scale:,.{decimals}f}" for v in values]


def test_neither_processes_nor_hash_seeds_change_a_byte(tmp_path: Path) -> None:
    made = []
    for jobs, hash_seed in (("1", "1"), ("2", "2")):
        path = tmp_path / f"{jobs}.html"
        assert run_apart(*COMPARE, "--jobs", jobs, "--html", path, hash_seed=hash_seed).code == 0
        made.append(path.read_bytes())
    assert made[0] == made[1]


def test_the_default_comparison_is_below_200_kb(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    sizes = ("--size", "60", "--policies", "fcfs,spf,sglang-lpm,lpm", "--jobs", "1", "--quiet")
    assert run(capsys, "compare", *sizes, "--html", path).code == 0
    assert path.stat().st_size < 120_000  # it hardly grows with the trace


def test_a_sweep_writes_rows_tables_and_a_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, rows = tmp_path / "report.html", tmp_path / "rows.csv"
    ran = run(capsys, *SWEEP, "--html", path, "--output", rows)
    assert ran.code == 0
    assert "requests/s offered" in ran.out
    assert rows.read_text(encoding="utf-8").count("\n") == 5
    drawn = page(path)
    assert drawn.unclosed == []
    table = drawn.tables["99th percentile of the time to first token and cold hit rate"]
    assert [row[:2] for row in table[1:]] == [
        ["fcfs", "2"],
        ["fcfs", "8"],
        ["lpm", "2"],
        ["lpm", "8"],
    ]
    assert "At 8 requests/s, the highest here" in drawn.text
    assert "Longest prefix match: " in drawn.text
    assert f"--html {path}" not in drawn.text


def test_a_sweep_of_guards_draws_what_they_cost_and_win(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    sweep = ("sweep", *SMALL, "--policies", "fcfs,lpm", "--rates", "8", "--jobs", "1")
    assert run(capsys, *sweep, "--guards", "0:0,inf:0", "--html", path).code == 0
    drawn = page(path)
    assert drawn.unclosed == []
    (table,) = (rows for name, rows in drawn.tables.items() if name.startswith("Guards against"))
    assert [row[:2] for row in table[1:]] == [["lpm", "inf"], ["lpm", "0+0"]]
    assert "What guards cost and win" in drawn.text
    assert "lpm 0+0" in drawn.text
    plain = tmp_path / "plain.html"
    assert run(capsys, *sweep, "--html", plain).code == 0
    assert "What guards cost" not in page(plain).text


def test_a_curve_is_printed_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    plain = run(capsys, *CURVE)
    assert run(capsys, *CURVE, "--html", path) == plain
    drawn = page(path)
    assert drawn.unclosed == []
    assert drawn.tags.count("figure") == 1
    assert "radixcache curve --workload few-shot --size 24" in drawn.text


@pytest.mark.parametrize("order", [(), ("--policy", "lpm")])
def test_an_explanation_is_printed_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, order: tuple[str, ...]
) -> None:
    path = tmp_path / "report.html"
    plain = run(capsys, *EXPLAIN, *order)
    assert run(capsys, *EXPLAIN, *order, "--html", path) == plain
    drawn = page(path)
    assert drawn.unclosed == []
    assert drawn.tags.count("figure") == (1 if order else 2)
    assert "radixcache explain" in drawn.text
    parts = [row[0] for row in drawn.tables["Prompt tokens by what became of them"][1:]]
    assert parts[0] == "hit"
    assert ("evicted" in parts) is bool(order)


def test_a_trace_with_a_hostile_name_is_only_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = "<script>alert(1)<\u2215script>\u202e.jsonl"
    trace = write_rows(
        tmp_path / name,
        '{"rid":"<img src=x>","t":0,"tokens":[1,2,3,4,5,6,7,8,9],"max_new":2}',
        '{"rid":"b","t":1,"tokens":[1,2,3,4,5,6,7,8,10],"max_new":2}',
    )
    path = tmp_path / "report.html"
    ran = run(capsys, "compare", trace, "--page-size", "4", "--jobs", "1", "-q", "--html", path)
    assert ran.code == 0, ran.err
    html = path.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "\u202e" not in html
    assert "<script>alert(1)" in read_page(html).text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--html", "{}/absent/report.html"), "cannot be written"),
        (("--html", "{}"), "cannot be written"),
        (("--html", "{}/a.csv", "-o", "{}/a.csv"), "--html and --output both name"),
    ],
)
@pytest.mark.parametrize("command", [COMPARE, SWEEP, CURVE, EXPLAIN])
def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: tuple[str, ...],
    options: tuple[str, ...],
    said: str,
) -> None:
    ran = run(capsys, *command, *(option.format(tmp_path) for option in options))
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


@pytest.mark.parametrize("command", ["replay", "inspect"])
def test_commands_without_charts_take_no_html(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    ran = run(capsys, command, "--html", tmp_path / "report.html")
    assert ran.code == 2
    assert "--html" in ran.err
