"""Every wrong input: one line on standard error, exit code 2, and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.cli.version import installed_version
from tests.models.command_line import ROOT, SMALL, Ran, run, run_apart, write_rows

FULL = "/dev/full"

GOOD_ROWS = (
    '{"rid":"a","t":0,"tokens":[1,2,3],"max_new":4}',
    '{"rid":"b","t":0,"tokens":[1,2,4],"max_new":4}',
)
BAD_ROWS = ('{"rid":"a","t":0,"tokens":[1,-2,3]}', '{"rid":"b","t":1,"tokens":[1,2.5,3]}')


def refused(ran: Ran, *parts: str) -> None:
    assert ran.code == 2
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert line.startswith("radixcache: ")
    for part in parts:
        assert part in line


OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown policy": (("--policies", "best"), ("'best'", "use one of", "lpm")),
    "no policy": (("--policies", ""), ("policies", "use one of", "lpm")),
    "empty policy": (("--policies", "lpm,"), ("policies", "use one of")),
    "policy twice": (("--policies", "lpm,fcfs,lpm"), ("'lpm'", "once")),
    "small capacity": (("--capacity-tokens", "3000"), ("3000", "give at least")),
    "less than a page": (("--capacity-tokens", "5"), ("5", "at least one page")),
    "NaN load": (("--load", "nan"), ("--load", "'nan'", "finite number above 0")),
    "endless load": (("--load", "inf"), ("--load", "finite number above 0")),
    "negative rate": (("--rate", "-1"), ("--rate", "finite number above 0")),
    "no time scale": (("--time-scale", "0"), ("--time-scale", "finite number above 0")),
    "two loads": (("--rate", "1", "--load", "1"), ("--load", "--rate")),
    "page size 0": (("--page-size", "0"), ("--page-size", "whole number of at least 1")),
    "half a page": (("--page-size", "1.5"), ("--page-size", "whole number of at least 1")),
    "no chunk": (("--chunk-tokens", "0"), ("--chunk-tokens", "at least 1")),
    "nobody runs": (("--max-running", "0"), ("--max-running", "at least 1")),
    "no jobs": (("--jobs", "0"), ("--jobs", "at least 1")),
    "negative seed": (("--seed", "-1"), ("--seed", "at least 0")),
    "unknown eviction": (("--eviction", "oldest"), ("'oldest'", "use one of", "lru")),
    "misspelt option": (("--polices", "lpm"), ("--polices", "did you mean --policies?", "compare")),
    "unknown hold": (("--hold", "tight"), ("--hold", "stop")),
    "shared hold": (("--hold", "share"), ("publish",)),
    "reserve above 1": (("--output-reserve-ratio", "1.5"), ("--output-reserve-ratio", "0 to 1")),
    "Poisson without a rate": (("--poisson", "--load", "1"), ("--rate",)),
    "prefill without end": (("--prefill-rate", "1e-300"), ("per_prefill_token_s", "seconds")),
    "no prefill rate": (("--prefill-rate", "0"), ("--prefill-rate", "above 0")),
    "two models": (("--prefill-rate", "1", "--cost-model", "x"), ("--cost-model", "give one")),
    "missing model": (("--cost-model", "nowhere.json"), ("nowhere.json", "No such file")),
    "model is a folder": (("--cost-model", "/"), ("cost model /", "directory")),
    "more than 64 bits": (("--requests", "9" * 30), ("--requests", "below 2**63")),
    "a digit too many": (("--max-running", "9" * 12), ("max_running", "at most 1048576")),
    "endless memory": (("--capacity-tokens", "9" * 15), ("capacity_tokens", "less than 2**31")),
    "endless kappa": (("--guard-kappa", "1e308"), ("guard_kappa", "0 to 1048576")),
    "endless bound": (("--guard-base-tokens", "9" * 18), ("guard_base_tokens", "inf")),
    "unknown option": (("--frobnicate",), ("--frobnicate", "--help")),
    "format of a workload": (("--format", "mooncake"), ("--format", "TRACE")),
    "strict workload": (("--strict",), ("--strict", "TRACE")),
    "lengths of a workload": (("--max-new-tokens", "7"), ("--max-new-tokens", "TRACE")),
    "output in no folder": (("-o", "/no/such/folder/x"), ("/no/such/folder/x", "existing folder")),
    "output is a folder": (("-o", "/"), ("output /", "give a file")),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_option_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    options, parts = OPTIONS[name]
    refused(run(capsys, "compare", *SMALL, *options), *parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{", ("JSON",)),
        ("[" * 100_000, ("cannot be read as JSON",)),
        ("[1]", ("no JSON object", "step_s")),
        ('{"step_s": 1' + "0" * 400 + "}", ("step_s", "from 0 to 1e+12")),
        ('{"step": 1}', ("'step'", "step_s")),
        ('{"step_s": NaN}', ("step_s", "nan")),
        ('{"step_s": -1}', ("step_s", "-1")),
        ('{"step_s": "1"}', ("step_s", "seconds")),
        ('{"step_s": true}', ("step_s", "seconds")),
        ('{"calibrated": 1}', ("calibrated", "true or false")),
        ('{"step_s": 0, "per_prefill_token_s": 0}', ("step_s above 0",)),
    ],
)
def test_a_bad_cost_model_is_one_line(
    text: str, parts: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    refused(run(capsys, "compare", *SMALL, "--cost-model", path), "cost model", *parts)


@pytest.mark.parametrize("command", ["compare", "replay", "inspect"])
def test_what_is_no_trace_is_one_line(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty, prose = tmp_path / "empty", tmp_path / "prose"
    empty.touch()
    prose.write_text("All happy families are alike.\n")
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)))
    refused(run(capsys, command, empty), "empty", "at least one request")
    refused(run(capsys, command, prose), "no trace of a known format", "mooncake")
    refused(run(capsys, command, binary), "no trace of a known format")
    refused(run(capsys, command, tmp_path), "folder", "give the path of a trace file")
    refused(run(capsys, command, tmp_path / "none"), "No such file", "check the path")
    refused(run(capsys, command, prose, "--format", "csv"), "'csv'", "mooncake")


@pytest.mark.parametrize("command", ["compare", "replay", "inspect"])
def test_a_trace_without_one_good_row_is_one_line(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "bad.jsonl", *BAD_ROWS)
    refused(run(capsys, command, path), "bad.jsonl", "2 rows", "negative")
    refused(run(capsys, command, path, "--strict"), "bad.jsonl:2", "negative")
    header_only = write_rows(tmp_path / "header.jsonl")
    refused(run(capsys, command, header_only), "header.jsonl", "no request")


def test_bad_rows_are_counted_beside_good_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "mixed.jsonl", *BAD_ROWS, *GOOD_ROWS[1:])
    ran = run(capsys, "compare", path, "--policies", "lpm", "--quiet", "--jobs", "1")
    assert ran.code == 0
    assert "3 rows = 1 requests + 2 skipped" in ran.err


def test_what_comes_at_one_moment_has_no_rate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "now.jsonl", *GOOD_ROWS)
    refused(run(capsys, "compare", path, "--rate", "1"), "one moment", "Poisson")
    refused(run(capsys, "compare", path, "--load", "1"), "one moment", "Poisson")
    ran = run(capsys, "compare", path, "--rate", "1", "--poisson", "--quiet", "--jobs", "1")
    assert ran.code == 0


@pytest.mark.parametrize(
    "options", [("--time-scale", "1e300"), ("--rate", "1e-300"), ("--prefill-rate", "1e-10")]
)
def test_a_run_without_end_is_refused(
    options: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(capsys, "compare", *SMALL, "--policies", "lpm", "--jobs", "1", *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1].startswith("radixcache: the clock of this run reaches")


def test_more_memory_than_32_bits_of_tokens_runs(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(
        capsys,
        "compare",
        *SMALL,
        "--policies",
        "lpm",
        "--jobs",
        "1",
        "--capacity-tokens",
        "100_000_000_000",
    )
    assert ran.code == 0


def test_a_page_size_that_is_not_the_blocks_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "blocks.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}')
    for command in ("compare", "replay", "inspect"):
        refused(run(capsys, command, path, "--page-size", "16"), "blocks of 512", "give 512")


def test_replay_takes_one_policy_and_lookup_no_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "now.jsonl", *GOOD_ROWS)
    refused(run(capsys, "replay", path, "--policy", "fcfs,lpm"), "'fcfs,lpm'", "use one of")
    refused(run(capsys, "replay", path, "--policy", "all"), "'all'", "use one of")
    refused(run(capsys, "replay", path, "--last-token"), "--lookup")
    lookup = ("replay", path, "--lookup")
    refused(run(capsys, *lookup, "--eviction", "oldest"), "'oldest'", "optimal")
    refused(run(capsys, *lookup, "--capacity-tokens", "3"), "less than a page of 64")
    refused(run(capsys, *lookup, "--rate", "3"), "--rate", "--lookup")
    refused(run(capsys, *lookup, "--policy", "fcfs"), "--policy", "--lookup")


def test_a_trace_and_a_workload_exclude_each_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "now.jsonl", *GOOD_ROWS)
    refused(run(capsys, "compare", path, "--workload", "chat"), "--workload", "TRACE")


def test_generate_refuses_before_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    refused(run(capsys, "generate", "few-shot"), "--output")
    refused(run(capsys, "generate", "poems", "-o", "x"), "'poems'", "few-shot")
    refused(run(capsys, "generate", "chat", "-o", "/no/such/x"), "existing folder")
    refused(run(capsys, "generate", "chat", "--size", "0", "-o", "x"), "at least 1")
    refused(run(capsys, "generate", "chat", "-o", "/dev/null"), "no regular file")
    assert Path("/dev/null").is_char_device()
    for name in ("x.csv", "x", "x.jsonl.bz2"):
        refused(run(capsys, "generate", "chat", "-o", name), name, ".jsonl.gz")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"radixcache {installed_version()}\n", "")


def test_no_command_or_a_wrong_one_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    refused(run(capsys), "COMMAND")
    refused(run(capsys, "frobnicate"), "frobnicate", "compare")


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)])
def test_a_full_disk_is_one_line(form: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "compare", *SMALL, "--policies", "lpm", "--jobs", "1", *form, "-o", FULL)
    assert (ran.code, ran.out) == (2, "")
    *notes, last = ran.err.splitlines()
    assert "No space left" in last
    assert "give another file" in last
    assert not any(note.startswith("radixcache:") for note in notes)


def test_full_standard_output_is_one_line() -> None:
    command = [sys.executable, "-m", "scheduler", "compare", *SMALL, "--jobs", "1"]
    with Path(FULL).open("w") as full:
        ran = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 2
    assert "No space left" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert "Exception" not in ran.stderr


def test_a_fault_in_worker_processes_is_one_line(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "now.jsonl", *GOOD_ROWS)
    refused(run_apart("compare", path, "--jobs", "2", "--capacity-tokens", "1"), "one page")


def test_what_a_trace_says_steers_no_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "\x1b[31m\n.jsonl"
    path.write_text(
        '{"radixcache_trace":1,"notes":["\\u001b]0;x\\u0007\\nnote: forged \\u202e"]}\n'
        + "\n".join(GOOD_ROWS)
    )
    for call in (("inspect", path, "-q"), ("whatif", path, "-q", "--pin", "\x1b[31m:3")):
        ran = run(capsys, *call)
        assert ran.err
        assert all(character == "\n" or character.isprintable() for character in ran.err)
        assert not any(line.startswith("note: forged") for line in ran.err.splitlines())
