"""`radixcache replay`: one order in full, and the plain lookup of a cache simulator."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from scheduler.report.metrics import METRICS
from tests.models.command_line import run, run_apart


@pytest.fixture
def trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "few.jsonl"
    assert run(capsys, "generate", "few-shot", "--size", "20", "-o", path).code == 0
    return path


def test_it_shows_every_metric(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    ran = run(capsys, "replay", trace, "--quiet")
    assert ran.code == 0
    shown = {line.split()[0] for line in ran.out.splitlines()}
    assert {m.name for m in METRICS} <= shown
    assert "ended: stop" in ran.out
    assert "20 rows = 20 requests + 0 skipped" in ran.err


def test_it_is_the_run_of_compare(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    for form in ("--json", "--csv"):
        replayed = run(capsys, "replay", trace, "--policy", "spf", form, "--quiet")
        compared = run(
            capsys, "compare", trace, "--policies", "spf", form, "--quiet", "--jobs", "1"
        )
        written = compared.out.replace(
            f"radixcache compare {trace} --policies spf", f"radixcache replay {trace} --policy spf"
        )
        assert replayed == compared._replace(out=written)


def test_a_trace_replays_as_the_workload_it_was_written_from(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    options = ("--policies", "lpm", "--load", "0.9", "--quiet", "--jobs", "1", "--json")
    options += ("--capacity-tokens", "131072")
    written = run(capsys, "compare", trace, *options)
    made = run(capsys, "compare", "--workload", "few-shot", "--size", "20", *options)
    assert json.loads(written.out)["runs"][0]["values"] == json.loads(made.out)["runs"][0]["values"]


def test_other_hash_seeds_give_the_same_bytes(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    here = run(capsys, "replay", trace, "--quiet")
    assert run_apart("replay", trace, "--quiet", hash_seed="5") == here


def test_lookup_reports_by_its_own_definition(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    ran = run(capsys, "replay", trace, "--lookup", "--quiet")
    assert ran.code == 0
    assert "Definition: requests in arrival order" in ran.out
    assert "unbounded" in ran.out


def test_lookup_gives_json_and_csv(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    lookup = ("replay", trace, "--lookup", "--quiet", "--capacity-tokens", "16384")
    as_json = json.loads(run(capsys, *lookup, "--json").out)
    (as_csv,) = csv.DictReader(io.StringIO(run(capsys, *lookup, "--csv").out))
    assert as_json["requests"] == int(as_csv["requests"]) == 20
    assert as_json["capacity_pages"] == 256
    assert float(as_csv["cold_hit_rate"]) == as_json["cold_hit_rate"]


def test_lookup_obeys_capacity_and_eviction(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    def hits(*options: str) -> float:
        ran = run(capsys, "replay", trace, "--lookup", "--json", "--quiet", *options)
        return float(json.loads(ran.out)["cold_hit_rate"])

    small = ("--capacity-tokens", "8192")
    assert hits() >= hits(*small, "--eviction", "optimal") >= hits(*small)
    assert hits("--last-token") <= hits()


def test_lookup_caches_outputs_when_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    assert run(capsys, "generate", "sharegpt-like", "--size", "5", "-o", path).code == 0
    lookup = ("replay", path, "--lookup", "--json", "--quiet")
    options = ((), ("--cache-output", "none"), ("--cache-output", "all"))
    plain, none, whole = (json.loads(run(capsys, *lookup, *more).out) for more in options)
    assert {**plain, "command": ""} == {**none, "command": ""}
    assert not plain["cached_outputs"]
    assert whole["cached_outputs"]
    assert whole["hit_tokens"] > plain["hit_tokens"]
    half = run(capsys, *lookup, "--cache-output", "visible", "--visible-share", "0.5")
    assert plain["hit_tokens"] < json.loads(half.out)["hit_tokens"] < whole["hit_tokens"]


def test_lookup_refuses_outputs_of_block_ids(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mooncake.jsonl"
    path.write_text('{"timestamp":0,"input_length":600,"output_length":9,"hash_ids":[0,1]}\n')
    ran = run(capsys, "replay", path, "--lookup", "--cache-output", "all", "--quiet")
    assert (ran.code, ran.out) == (2, "")
    assert "outputs of this trace have no block ids" in ran.err
