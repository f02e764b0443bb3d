"""No command writes over what it reads, or into a folder that is its trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.models.command_line import ROOT, run, write_rows
from tests.scheduler.cli.test_bad_input import GOOD_ROWS, refused

LOG = ROOT / "examples/logs/vllm.log.gz"
COMMANDS: dict[str, tuple[str, ...]] = {
    "compare": ("--jobs", "1"),
    "sweep": ("--jobs", "1"),
    "replay": (),
    "replay --lookup": ("--lookup",),
    "curve": (),
    "inspect": (),
    "explain": (),
    "whatif": (),
    "convert": (),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_takes_no_trace_s_place(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    before = path.read_bytes()
    other_name = tmp_path / "link.jsonl"
    os.link(path, other_name)
    command, options = name.split(maxsplit=1)[0], COMMANDS[name]
    for output in (path, other_name, tmp_path / ".." / tmp_path.name / "trace.jsonl"):
        ran = run(capsys, command, path, "--quiet", *options, "-o", output)
        refused(ran, str(output), "the trace itself", "another file")
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["compare", "sweep", "curve", "explain"])
def test_a_report_takes_no_trace_s_place(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    refused(run(capsys, command, path, "--html", path), "html", "the trace itself")


def test_a_result_takes_no_other_input_s_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", *GOOD_ROWS)
    other = tmp_path / "other.json"
    other.write_text("{}")
    for command, option in (
        ("replay", "--cost-model"),
        ("curve", "--hf-config"),
        ("inspect", "--tokenizer"),
    ):
        ran = run(capsys, command, path, option, other, "-o", other)
        refused(ran, "output", "read by this command", "another file")
    assert other.read_text() == "{}"
    vocabulary = tmp_path / "vocabulary"
    vocabulary.mkdir()
    (vocabulary / "tokenizer.json").write_text("{}")
    call = ("inspect", path, "--tokenizer", vocabulary, "-o")
    refused(run(capsys, *call, vocabulary / "tokenizer.json"), "read by this command")
    refused(run(capsys, *call, vocabulary / "other.json"), "is neither a tokenizer.json")
    log = tmp_path / "server.log.gz"
    log.write_bytes(LOG.read_bytes())
    for command in ("calibrate", "validate"):
        refused(run(capsys, command, log, "-o", log), "output", "read by this command")
    assert log.read_bytes() == LOG.read_bytes()


def test_a_result_joins_no_folder_that_is_the_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    path = write_rows(folder / "a.jsonl", *GOOD_ROWS)
    outside = write_rows(tmp_path / "outside.jsonl", *GOOD_ROWS)
    (folder / "b.jsonl").symlink_to(outside)
    before = path.read_bytes(), outside.read_bytes()
    for output in (path, folder / "new.json", outside):
        ran = run(capsys, "curve", folder, "--quiet", "--json", "-o", output)
        refused(ran, str(output), "would be a file of the trace", "outside")
    refused(run(capsys, "convert", folder, "-o", folder / "new.jsonl"), "would be a file")
    assert (path.read_bytes(), outside.read_bytes()) == before
    beside = folder / "curve.txt"
    assert run(capsys, "curve", folder, "--quiet", "-o", beside).code == 0
    assert beside.read_text()
