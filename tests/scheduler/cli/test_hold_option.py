"""`--hold`, `--hold MODE` and `--no-hold`, and the bound told in seconds."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.models.command_line import SMALL, run, write_rows

COMPARE = ("compare", *SMALL, "--jobs", "1", "--policies", "lpm", "--json")


def run_of(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, object]]:
    ran = run(capsys, *COMPARE, *options)
    assert ran.code == 0, ran.err
    (row,) = json.loads(ran.out)["runs"]
    return dict(row)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ((), "stop"),
        (("--hold",), "stop"),
        (("--hold", "stop"), "stop"),
        (("--hold", "skip"), "skip"),
        (("--hold=skip",), "skip"),
        (("--hold", "off"), "off"),
        (("--no-hold",), "off"),
        (("--hold", "--no-waiting-aware"), "stop"),
    ],
)
def test_each_form_names_a_mode(
    options: tuple[str, ...], mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_of(capsys, *options)["assumptions"]["hold"] == mode


def test_a_bare_hold_changes_what_a_policy_without_it_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = run(capsys, *COMPARE, "--policies", "plain-lpm", "--hold")
    (row,) = json.loads(ran.out)["runs"]
    assert row["assumptions"]["hold"] == "stop"


def test_a_trace_after_a_bare_hold_is_refused_and_before_it_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "two.jsonl", '{"t":0,"tokens":[1,2,3],"max_new":4}')
    rest = ("--policies", "lpm", "--jobs", "1", "--quiet")
    ran = run(capsys, "compare", *rest, "--hold", path)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    for part in ("--hold", "two.jsonl", "put TRACE before --hold", "--hold stop"):
        assert part in line
    for words in ((path, "--hold"), ("--hold", "stop", path), ("--no-hold", path)):
        assert run(capsys, "compare", *rest, *words).code == 0


def test_both_forms_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *COMPARE, "--hold", "skip", "--no-hold")
    assert (ran.code, ran.out) == (2, "")
    assert "--no-hold" in ran.err
    assert "--hold" in ran.err


def test_the_command_of_a_sweep_has_the_mode(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ("sweep", *SMALL, "--jobs", "1", "--policies", "lpm", "--json")
    first = run(capsys, *sweep, "--no-hold")
    command = json.loads(first.out)["command"]
    assert "--hold off" in command
    again = run(capsys, *shlex.split(command)[1:], "--json", "--quiet", "--jobs", "1")
    assert again.out == first.out


def test_a_lookahead_says_how_many_that_do_not_fit_are_passed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scarce = ("--workload", "sharegpt-like", "--size", "12", "--capacity-tokens", "8192")
    found = [run_of(capsys, *scarce, "--lookahead", count) for count in ("0", "64")]
    assert [row["assumptions"]["lookahead"] for row in found] == [0, 64]
    assert found[1] == run_of(capsys, *scarce)
    assert found[0]["values"] != found[1]["values"]
    ran = run(capsys, *COMPARE, "--lookahead", "-1")
    assert (ran.code, ran.out) == (2, "")
    assert "--lookahead" in ran.err


@pytest.mark.parametrize("option", [(), ("--prefill-rate", "500")])
def test_the_largest_bound_is_told_in_seconds(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    values = run_of(capsys, *option)["values"]
    rate = float(option[1]) if option else 20_000
    tokens = values["bound_max_tokens"]
    assert isinstance(tokens, int)
    assert tokens >= 4 * 8192
    assert values["bound_max_s"] == pytest.approx(tokens / rate)
    values = run_of(capsys, *option, "--policies", "fcfs")["values"]
    assert (values["bound_max_tokens"], values["bound_max_s"]) == (None, None)


def test_an_engine_without_prefill_time_has_no_bound_in_seconds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    path.write_text('{"per_prefill_token_s": 0}')
    assert run_of(capsys, "--cost-model", str(path))["values"]["bound_max_s"] is None
