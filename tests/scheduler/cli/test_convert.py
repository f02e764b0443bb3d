"""`radixcache convert`: any trace in another format, with the same hits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.models.command_line import run, write_rows
from tests.scheduler.cli.test_bad_input import refused

ROWS = (
    '{"rid":"secret-1","t":7.5,"tokens":[101,102,103,104,105],"output_ids":[106,107],'
    '"session":"alice","client":"acme","namespace":{"cache_salt":"acme"}}',
    '{"rid":"secret-2","t":9.25,"tokens":[101,102,103,104,105,106,107,108],"session":"alice",'
    '"client":"acme","namespace":{"cache_salt":"acme"},"samples":2}',
    '{"rid":"secret-3","t":9.5,"tokens":[101,102,103,104]}',
)


def hit_tokens(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> int:
    ran = run(capsys, "inspect", path, "--json", "--quiet", *options)
    assert ran.code == 0, ran.err
    return round(json.loads(ran.out)["optimal_hit_rate"] * json.loads(ran.out)["prompt"]["total"])


def test_native_keeps_every_byte_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl.gz"
    assert run(capsys, "generate", "chat", "--size", "3", "-o", first).code == 0
    ran = run(capsys, "convert", first, "-o", second, "--quiet")
    assert (ran.code, ran.out) == (0, "")
    assert "wrote" in ran.err
    assert gzip.decompress(second.read_bytes()) == first.read_bytes()


def test_mooncake_rows_of_a_trace_of_tokens(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, out = write_rows(tmp_path / "own.jsonl", *ROWS), tmp_path / "out.jsonl"
    ran = run(capsys, "convert", path, "--to", "mooncake", "--block-tokens", "4", "-o", out, "-q")
    assert ran.code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0] == {
        "timestamp": 7500,
        "input_length": 5,
        "output_length": 2,
        "hash_ids": [0, 1],
        "session_id": "alice",
    }
    assert [row["hash_ids"] for row in rows] == [[0, 1], [0, 2], [0, 2], [3]]
    for note in (
        "wrote 4 requests",
        "a block id stands for 4 tokens",
        "answers have no block ids, so no later prompt hits them; answers left out (1)",
        "client: no place in a row (2)",
        "output length not recorded: the most it asks for is written (2)",
    ):
        assert note in ran.err


@pytest.mark.parametrize("to", ["native", "mooncake"])
def test_anonymised_traces_hold_no_name_and_no_token(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, to: str
) -> None:
    path, out = write_rows(tmp_path / "own.jsonl", *ROWS), tmp_path / "out.jsonl"
    options = ("--anonymise", "--block-tokens", "4", "--to", to, "-o", out, "-q")
    assert run(capsys, "convert", path, *options).code == 0
    text = out.read_text()
    for told in ("secret", "alice", "acme", "10", "own.jsonl"):
        assert told not in text
    assert '"s1"' in text
    assert '"t":0.0' in text or '"timestamp":0,' in text
    if to == "native":
        assert hit_tokens(capsys, out) == hit_tokens(capsys, path, "--page-size", "4") == 8


@pytest.mark.parametrize("trace", ["sharegpt_dummy.json", "agent_miniswe.jsonl.gz"])
def test_anonymised_shipped_traces_keep_their_prompt_hits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shared_dir: Path, trace: str
) -> None:
    out, again = tmp_path / "out.jsonl.gz", tmp_path / "again.jsonl"
    path = shared_dir / "traces" / trace
    assert run(capsys, "convert", path, "--anonymise", "--block-tokens", "16", "-o", out).code == 0
    assert run(capsys, "convert", out, "--anonymise", "-o", again).code == 0
    assert again.read_bytes() == gzip.decompress(out.read_bytes())
    options = ("--json", "--quiet", "--page-size", "16", "--last-token")
    before, after = (
        json.loads(run(capsys, "replay", "--lookup", file, *options).out) for file in (path, out)
    )
    # The lookup of block ids also finds last blocks that are not full, up to the last token.
    assert before["prompt_tokens"] == after["prompt_tokens"]
    assert before["hit_tokens"] <= after["hit_tokens"]
    assert after["hit_tokens"] - before["hit_tokens"] < 16 * before["requests"]


def test_the_built_in_workload_can_be_converted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    options = ("--workload", "few-shot", "--size", "24", "--to", "mooncake", "--requests", "9")
    assert run(capsys, "convert", *options, "-o", out, "-q").code == 0
    assert len(out.read_text().splitlines()) == 9


def test_what_cannot_be_converted_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, out = write_rows(tmp_path / "own.jsonl", *ROWS), tmp_path / "out.jsonl"
    refused(run(capsys, "convert", path), "--output")
    refused(run(capsys, "convert", path, "-o", "x.csv"), "x.csv", ".jsonl.gz")
    refused(run(capsys, "convert", path, "-o", path), "the trace itself")
    refused(run(capsys, "convert", path, "-o", out, "--to", "azure"), "'azure'", "mooncake")
    refused(run(capsys, "convert", path, "-o", out, "--block-tokens", "4"), "--anonymise")
    refused(run(capsys, "convert", tmp_path / "no.jsonl", "-o", out), "No such file")
    (tmp_path / "empty.jsonl").touch()
    refused(run(capsys, "convert", tmp_path / "empty.jsonl", "-o", out), "is empty")
    blocks = tmp_path / "blocks.jsonl"
    blocks.write_text('{"radixcache_trace":1,"kind":"blocks","page_size":48}\n'
                      '{"t":0,"block_ids":[1],"n":48}\n')  # fmt: skip
    refused(run(capsys, "convert", blocks, "-o", out, "--to", "mooncake", "-q"), "multiple of 48")
    assert not out.exists()
