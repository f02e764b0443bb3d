"""An option that would change nothing is refused, and what is written of a call repeats it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.models.command_line import run, write_rows
from tests.scheduler.cli.test_bad_input import GOOD_ROWS, refused

LOOKUPS: dict[str, tuple[str, ...]] = {
    "curve": (),
    "inspect": (),
    "explain": (),
    "whatif": (),
    "replay": ("--lookup",),
}


@pytest.mark.parametrize("command", LOOKUPS)
def test_a_lookup_of_a_trace_draws_nothing_and_answers_nothing(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    call = (command, path, "--quiet", *LOOKUPS[command])
    refused(run(capsys, *call, "--seed", "7"), "--seed", "TRACE", "leave it out")
    refused(run(capsys, *call, "--max-new-tokens", "7"), "--max-new-tokens", "leave it out")
    workload = (command, "--workload", "few-shot", "--size", "24", "--quiet", *LOOKUPS[command])
    assert run(capsys, *workload, "--seed", "7").code == 0


def test_a_conversion_of_a_trace_draws_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, out = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS), tmp_path / "out.jsonl"
    refused(run(capsys, "convert", path, "-o", out, "--seed", "7"), "--seed", "TRACE")
    assert run(capsys, "convert", path, "-o", out, "--max-new-tokens", "7", "--quiet").code == 0


def test_what_draws_or_answers_takes_its_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    for call in (
        ("curve", path, "--quiet", "--sample", "0.5", "--seed", "7"),
        ("replay", path, "--quiet", "--seed", "7", "--max-new-tokens", "7"),
        ("explain", path, "--quiet", "--policy", "lpm", "--seed", "7", "--max-new-tokens", "7"),
    ):
        assert run(capsys, *call).code == 0


def test_a_type_of_keys_and_values_needs_a_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    for more in ((), ("--kv-bytes-per-token", "10")):
        ran = run(capsys, "curve", path, "--kv-dtype", "fp8", *more)
        refused(ran, "--kv-dtype", "without a model", "--model")


def test_bytes_beyond_all_memory_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    for form in ((), ("--json",)):
        ran = run(capsys, "curve", path, "--kv-bytes-per-token", "1e308", *form)
        refused(ran, "--kv-bytes-per-token", "1e+12")


def test_a_file_whose_name_ends_in_a_number_is_named_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    model = tmp_path / "config-2.0"
    model.write_text(
        json.dumps({"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8})
    )
    ran = run(capsys, "curve", path, "--quiet", "--json", "--hf-config", model)
    assert json.loads(ran.out)["command"].endswith(f"--hf-config {model}")


def test_a_pipe_is_refused_and_not_waited_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pipe = tmp_path / "folder" / "pipe.jsonl"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for path in (pipe, pipe.parent):
        refused(run(capsys, "inspect", path), str(pipe), "no regular file")


def test_pages_of_the_first_row_alone_are_no_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    call = ("whatif", path, "--quiet", "--base-page-size", "2", "--page-size")
    refused(run(capsys, *call, "2"), "--page-size 2 does nothing")
    assert run(capsys, *call, "2,1").code == 0


@pytest.mark.parametrize("more", [("all",), ("visible", "--visible-share", "0.5")])
def test_answers_without_block_ids_cannot_be_asked_for(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "blocks.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}')
    for command in (("explain",), ("curve",), ("replay", "--lookup")):
        if command == ("curve",) and len(more) > 1:
            continue
        ran = run(capsys, command[0], path, *command[1:], "--cache-output", *more)
        refused(ran, f"--cache-output {more[0]}", "no block ids")


def test_two_capacities_of_the_same_pages_are_one_too_many(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    call = ("curve", path, "--quiet", "--page-size", "2", "--capacities")
    refused(run(capsys, *call, "4,2,5"), "capacities 4 and 5", "2 pages of 2 tokens", "give one")
    assert run(capsys, *call, "4,2").code == 0
