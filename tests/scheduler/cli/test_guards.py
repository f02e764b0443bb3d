"""`radixcache sweep --guards`: a run for each guard, rows that name it, what it costs and wins."""

from __future__ import annotations

import argparse
import csv
import io
import json
import shlex
from pathlib import Path

import pytest

from scheduler.cli.guards import guarded_runs
from scheduler.cli.parsing import parse_arguments
from scheduler.registry import SCHEDULE_POLICIES
from scheduler.report.guard_setting import UNBOUNDED
from tests.models.command_line import Ran, run, run_apart, write_rows

SIZE = ("--workload", "few-shot", "--size", "24", "--quiet")
SWEEP = ("sweep", *SIZE, "--jobs", "1", "--rates", "6", "--policies", "fcfs,lpm")
GUARDS = (*SWEEP, "--guards", "0:0,1024:0.25,inf:0")


def rows_of(ran: Ran) -> list[dict[str, str]]:
    assert ran.code == 0, ran.err
    return list(csv.DictReader(io.StringIO(ran.out)))


def guards_in(rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(row["policy"], row["guard_base_tokens"], row["guard_kappa"]) for row in rows]


def test_an_order_with_a_guard_runs_once_for_each_and_any_other_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = rows_of(run(capsys, *GUARDS, "--seeds", "0,1", "--csv"))
    assert guards_in(rows[::2]) == [
        ("fcfs", "", ""),
        ("lpm", "0", "0.0"),
        ("lpm", "1024", "0.25"),
        ("lpm", "", ""),
    ]
    assert [row["seed"] for row in rows] == ["0", "1"] * 4
    assert [row["assumed_guard"] for row in rows[::2]] == [
        "off",
        "0 tokens + 0 of the backlog at arrival",
        "1024 tokens + 0.25 of the backlog at arrival",
        "off",
    ]
    for row in rows:
        if row["guard_base_tokens"]:
            assert float(row["overtaken_bound_share"] or 0) <= 1
    assert float(rows[2]["overtaken_max_tokens"]) == 0


def test_a_cell_is_the_run_with_this_guard(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(run(capsys, *GUARDS, "--json").out)["cells"]
    for cell, base, kappa in ((cells[2], "1024", "0.25"), (cells[3], "inf", "0")):
        guard = ("--guard-base-tokens", base, "--guard-kappa", kappa)
        compare = ("compare", *SIZE, "--rate", "6", "--policies", "lpm", "--json")
        (alone,) = json.loads(run(capsys, *compare, *guard).out)["runs"]
        assert cell["run"] == alone
    assert cells[2]["guard_base_tokens"] == 1024
    assert (cells[3]["guard_base_tokens"], cells[3]["guard_kappa"]) == (None, None)


@pytest.mark.parametrize("preset", ["ours", "vllm", "sglang"])
@pytest.mark.parametrize(
    "given",
    [(), ("--guard-base-tokens", "77"), ("--guard-kappa", "0.75"), ("--guard-base-tokens", "inf")],
)
def test_rows_name_the_guard_that_was_in_force(
    given: tuple[str, ...], preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("sweep", "--workload", "few-shot", "--size", "3", "--quiet", "--jobs", "1")
    options = ("--policies", "fcfs,plain-lpm,lpm", "--preset", preset, "--chunk-tokens", "4096")
    for row in rows_of(run(capsys, *small, *options, *given, "--csv")):
        base, kappa = row["guard_base_tokens"], row["guard_kappa"]
        said = f"{base} tokens + {float(kappa):g} of the backlog at arrival" if base else "off"
        assert row["assumed_guard"] == said


def test_the_tables_name_the_guard_and_what_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *GUARDS)
    assert ran.code == 0
    labels = [line.split("  ")[0] for line in ran.out.splitlines() if line[:4] in {"fcfs", "lpm "}]
    assert labels == ["fcfs", "lpm 0+0", "lpm 1024+0.25", "lpm inf"]
    head = "lpm: hit lost against p99 won, by guard\n"
    (_, table) = ran.out.split(head)
    assert [line.split()[0] for line in table.splitlines()[3:6]] == ["inf", "1024+0.25", "0+0"]
    assert "Changes are against the loosest guard" in " ".join(ran.out.split())
    assert max(map(len, ran.out.splitlines())) <= 100
    plain = run(capsys, *SWEEP).out
    assert "hit lost" not in plain
    assert "loosest" not in plain


def test_the_command_in_the_rows_makes_them_again(capsys: pytest.CaptureFixture[str]) -> None:
    first = run(capsys, *GUARDS, "--csv")
    (command,) = {row["command"] for row in rows_of(first)}
    assert "--guards 0:0,1024:0.25,inf:0" in command
    assert run(capsys, *shlex.split(command)[1:], "--csv", "--quiet", "--jobs", "1") == first


def test_processes_change_no_byte(capsys: pytest.CaptureFixture[str]) -> None:
    here = run(capsys, *GUARDS, "--json")
    assert run_apart(*GUARDS, "--json", "--jobs", "2", hash_seed="5") == here


def test_each_guard_has_a_highest_rate_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    search = ("sweep", *SIZE, "--jobs", "1", "--policies", "lpm", "--guards", "inf:0,0:0")
    options = ("--target-ttft-p99", "0.6", "--tolerance", "0.2")
    document = json.loads(run(capsys, *search, *options, "--json").out)
    assert [limit["guard_base_tokens"] for limit in document["limits"]] == [None, 0]
    for base, (limit,) in ((None, document["limits"][:1]), (0, document["limits"][1:])):
        own = [c for c in document["cells"] if c["guard_base_tokens"] == base]
        (rests_on,) = [c for c in own if c["is_limit"]]
        assert rests_on["rate_requests_per_s"] == limit["rate_requests_per_s"]
    text = run(capsys, *search, *options).out
    assert [line.split()[1] for line in text.splitlines() if line.startswith("lpm ")] == [
        "inf",
        "0+0",
    ]


def test_every_preset_takes_the_guards(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *SWEEP, "--preset", "ours,vllm", "--guards", "0:0,99:1", "--csv")
    assert guards_in(rows_of(ran)) == [
        ("ours:fcfs", "", ""),
        ("ours:lpm", "0", "0.0"),
        ("ours:lpm", "99", "1.0"),
        ("vllm:fcfs", "", ""),
        ("vllm:lpm", "0", "0.0"),
        ("vllm:lpm", "99", "1.0"),
    ]


def parsed(*options: str) -> argparse.Namespace:
    return parse_arguments(["sweep", *options])


def test_every_order_is_swept_as_its_default_says() -> None:
    found = guarded_runs(parsed("--policies", "all", "--guards", "0:0,5:0"))
    for name, policy in SCHEDULE_POLICIES.items():
        own = [guard for order, guard in found if order == name]
        assert len(own) == (2 if policy.default_guard else 1)
        assert policy.default_guard or own == [UNBOUNDED]
    inner = guarded_runs(parsed("--policies", "priority+lpm,priority+fcfs", "--guards", "0:0,5:0"))
    assert [order for order, _ in inner] == ["priority+lpm"] * 2 + ["priority+fcfs"]


def test_an_order_that_is_not_bounded_is_swept_with_the_guard_inf(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = rows_of(run(capsys, *GUARDS[:-1], "inf:0", "--csv"))
    assert guards_in(one) == [("fcfs", "", ""), ("lpm", "", "")]
    ran = run(capsys, *GUARDS[:-1], "inf:0")
    assert "hit lost" not in ran.out
    assert "lpm inf" not in ran.out  # one guard, so the name says enough


def test_a_token_trace_a_block_trace_and_an_empty_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tokens = write_rows(
        tmp_path / "tokens.jsonl",
        '{"t":0,"tokens":[1,2,3],"max_new":4}',
        '{"t":1,"tokens":[1,2,4],"max_new":4}',
    )
    blocks = tmp_path / "blocks.jsonl"
    blocks.write_text(
        '{"timestamp": 0, "input_length": 700, "output_length": 3, "hash_ids": [1, 2]}\n'
        '{"timestamp": 9, "input_length": 600, "output_length": 3, "hash_ids": [1, 3]}\n'
    )
    options = ("--guards", "0:0,inf:0", "--policies", "lpm", "--quiet", "--jobs", "1", "--csv")
    for path in (tokens, blocks):
        assert len(rows_of(run(capsys, "sweep", path, *options))) == 2
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for path in (empty, tmp_path / "missing.jsonl"):
        ran = run(capsys, "sweep", path, *options)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--guards", "0"), ("--guards", "'0'", "32768:0.5")),
        (("--guards", ""), ("--guards", "B0:KAPPA")),
        (("--guards", "0:0,"), ("--guards", "B0:KAPPA")),
        (("--guards", ":"), ("--guards", "whole number")),
        (("--guards=-1:0",), ("--guards", "'-1'")),
        (("--guards", "1.5:0"), ("--guards", "'1.5'")),
        (("--guards", "0:nan"), ("--guards", "'nan'")),
        (("--guards", "0:-1"), ("--guards", "'-1'")),
        (("--guards", "inf:0.5"), ("--guards", "inf:0.5", "write inf:0")),
        (("--guards", "0:0,0:0.0"), ("--guards", "0:0 twice")),
        (("--guards", "0:0,0:-0"), ("--guards", "0:0 twice")),
        (("--guards", "0:0", "--guard-kappa", "1"), ("--guards", "--guard-kappa", "give one")),
        (("--guards", "0:0", "--guard-kappa", "0"), ("--guards", "--guard-kappa", "give one")),
        (("--guards", "0:0", "--guard-base-tokens", "0"), ("--guards", "--guard-base-tokens")),
        (("--guards", "0:0", "--policies", "fcfs,spf"), ("fcfs, spf", "add lpm")),
        (("--guards", "9007199254740993:0"), ("guard_base_tokens", "9007199254740993")),
        (("--guards", "0:1e9"), ("guard_kappa", "1000000000")),
    ],
)
def test_a_wrong_guard_is_one_line_before_anything_runs(
    options: tuple[str, ...], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(capsys, *SWEEP, *options)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    for part in ("radixcache: ", *parts):
        assert part in line


def test_other_commands_have_no_guards(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "compare", *SIZE, "--guards", "0:0")
    assert ran.code == 2
    assert "--guards" in ran.err
