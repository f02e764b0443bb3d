"""`radixcache inspect` and `radixcache generate`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from radixcache.eviction_registry import EVICTION_POLICIES
from scheduler.cli.options_trace import FORMATS
from scheduler.registry import SCHEDULE_POLICIES
from scheduler.trace import registry
from tests.models.command_line import run, run_apart, write_rows

SIZES = {
    "sharegpt-like": "6",
    "few-shot": "24",
    "chat": "4",
    "agents": "1",
    "tree": "1",
    "unique": "24",
}


@pytest.mark.parametrize("kind", SIZES)
def test_what_is_generated_can_be_inspected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "trace.jsonl.gz"
    ran = run(capsys, "generate", kind, "--size", SIZES[kind], "-o", path)
    assert (ran.code, ran.out) == (0, "")
    assert f"requests to {path}" in ran.err
    assert gzip.decompress(path.read_bytes()).startswith(b'{"radixcache_trace"')
    ran = run(capsys, "inspect", path, "--json", "--quiet")
    assert ran.code == 0
    assert json.loads(ran.out)["requests"] >= 4


def test_the_same_seed_generates_the_same_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl.gz")]
    chat = ("generate", "chat", "--size", "4")
    run(capsys, *chat, "-o", paths[0])
    run_apart(*chat, "-o", paths[1], hash_seed="9")
    run(capsys, *chat, "--seed", "1", "-o", paths[2])
    first, again, other = (path.read_bytes() for path in paths)
    assert first == again
    assert first != other


def test_inspect_says_what_became_of_the_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(
        tmp_path / "mixed.jsonl",
        '{"rid":"a","t":0,"tokens":[1,-2,3]}',
        '{"rid":"b","t":1,"tokens":[1,2.5,3]}',
        '{"rid":"c","t":2,"tokens":[1,2,3]}',
    )
    ran = run(capsys, "inspect", path, "--quiet")
    assert ran.code == 0
    assert "3 rows = 1 requests + 2 skipped" in ran.err
    assert "negative" in ran.err
    assert "no whole number" in ran.err


def test_inspect_reads_only_so_many_requests(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.jsonl"
    run(capsys, "generate", "unique", "--size", "9", "-o", path)
    out = tmp_path / "statistics.json"
    ran = run(capsys, "inspect", path, "--requests", "4", "--json", "--quiet", "-o", out)
    assert ran.out == ""
    assert json.loads(out.read_text())["requests"] == 4


def test_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(form.name for form in registry.FORMATS) == FORMATS
    text = " ".join(run(capsys, "inspect", "--help").out.split())
    assert ", ".join(FORMATS) in text


def test_block_ids_may_stand_for_another_number_of_tokens(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        json.dumps({"timestamp": 0, "input_length": 40, "output_length": 1, "hash_ids": ids})
        for ids in ([0, 1, 2], [0, 1, 3])
    ]
    path = tmp_path / "blocks.jsonl"
    path.write_text("\n".join(rows))
    ran = run(capsys, "inspect", path, "-q", "--json", "--id-tokens", "16")
    assert json.loads(ran.out)["page_size"] == 16
    assert json.loads(ran.out)["ceiling_hit_rate"] == 32 / 80
    ran = run(capsys, "inspect", path, "-q")
    assert ran.code == 2
    assert "--id-tokens" in ran.err
    text = write_rows(tmp_path / "text.jsonl", json.dumps({"t": 0, "tokens": [1, 2, 3]}))
    ran = run(capsys, "inspect", text, "-q", "--id-tokens", "16")
    assert ran.code == 2
    assert "has no block ids" in ran.err


def test_help_names_every_order_and_eviction_policy(capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(run(capsys, "compare", "--help").out.split()).replace("-", "")
    for name in (*SCHEDULE_POLICIES, *EVICTION_POLICIES):
        assert f"{name.replace('-', '')}," in text
