"""What the JSON documents of all commands have in common."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.models.command_line import SMALL, run, write_rows

COMMANDS = (
    ("compare", "--policies", "lpm", "--jobs", "1"),
    ("sweep", "--policies", "lpm", "--jobs", "1"),
    ("replay",),
    ("replay", "--lookup"),
    ("curve",),
    ("inspect",),
    ("explain",),
    ("explain", "--policy", "lpm"),
    ("whatif", "--page-size", "16"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_document_says_what_it_is_of_and_its_command_gives_it_again(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    ran = run(capsys, *command, *SMALL, "--json")
    document = json.loads(ran.out)
    assert document["title"].startswith("24 few-shot prompts")
    assert document["version"]
    for note in document["notes"]:
        assert f"note: {note}\n" in ran.err
    words = shlex.split(document["command"])
    assert words[0] == "radixcache"
    assert run(capsys, *words[1:], "--json", "--quiet").out == ran.out


@pytest.mark.parametrize("command", [("replay", "--lookup"), ("explain",)], ids=" ".join)
def test_a_lookup_takes_every_option_of_the_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = write_rows(tmp_path / "trace.jsonl", '{"t": 0, "tokens": [1, 2, 3]}')
    options = ("--format", "radixcache", "--requests", "1", "--strict")
    assert run(capsys, *command, path, *options, "--tokenizer", "pieces", "-q").code == 0
    row = '{"timestamp":0,"input_length":100,"output_length":3,"hash_ids":[1,2]}\n'
    path = tmp_path / "mooncake.jsonl"
    path.write_text(row)
    assert run(capsys, *command, path, "--id-tokens", "64", "-q").code == 0
