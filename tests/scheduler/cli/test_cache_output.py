from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import main

CHAT = ("--workload", "chat", "--size", "3", "--policies", "lpm", "--rate", "1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["compare", "--quiet", "--json", "--jobs", "1", *arguments]) == 0
    runs = json.loads(capsys.readouterr().out)
    return (runs if isinstance(runs, list) else runs["runs"])[0]


def test_less_cached_output_gives_fewer_hits_and_a_lower_optimum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [
        run(capsys, *CHAT, "--cache-output", "all"),
        run(capsys, *CHAT, "--cache-output", "visible", "--visible-share", "0.5"),
        run(capsys, *CHAT, "--cache-output", "none"),
    ]
    hits = [r["values"]["cold_hit_rate_share"] for r in runs]
    assert hits == sorted(hits, reverse=True)
    assert len(set(hits)) == 3
    assert runs[1]["assumptions"]["cache_output"] == "the first 50 %"


@pytest.mark.parametrize("wrong", [("--visible-share", "0.5"), ("--cache-output", "visible")])
def test_a_share_and_visible_go_together(
    capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...]
) -> None:
    assert main(["compare", "--quiet", *CHAT, *wrong]) == 2
    assert "go together" in capsys.readouterr().err


def test_samples_and_aborts_of_a_trace_are_replayed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.jsonl"
    rows: list[dict[str, Any]] = [{"radixcache_trace": 1, "kind": "tokens"}]
    prompt = list(range(500))
    rows.append({"rid": "a", "t": 0.0, "tokens": prompt, "max_new": 64, "samples": 4})
    rows.append({"rid": "b", "t": 0.0, "tokens": prompt, "max_new": 64, "abort_after_s": 0.1})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    row = run(capsys, str(path), "--policies", "fcfs", "--page-size", "16")
    assert row["assumptions"]["samples"] == "5 answers to 2 prompts, as requests"
    assert row["ended"] == {"abort": 1, "stop": 4}
