from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import main


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str]:
    assert main(["compare", "--quiet", "--json", "--jobs", "1", *arguments]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


CHAT = ("--workload", "chat", "--requests", "12", "--policies", "fcfs,lpm", "--closed-loop")


def test_a_closed_loop_says_so_and_runs_every_turn(capsys: pytest.CaptureFixture[str]) -> None:
    runs, notes = compared(capsys, *CHAT)
    assert "closed loop" in json.dumps(runs)
    assert "arrivals are fixed" not in notes
    assert compared(capsys, *CHAT) == (runs, notes)


def test_a_written_trace_of_sessions_replays_closed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    assert main(["generate", "chat", "--size", "2", "-o", str(path)]) == 0
    capsys.readouterr()
    runs, _ = compared(capsys, str(path), "--closed-loop", "--rate", "3")
    text = json.dumps(runs)
    assert "closed loop" in text
    assert "30 ms a token" in text


@pytest.mark.parametrize("workload", ["few-shot", "unique"])
def test_what_has_no_sessions_has_no_closed_loop(
    capsys: pytest.CaptureFixture[str], workload: str
) -> None:
    assert main(["compare", "--quiet", "--workload", workload, "--closed-loop"]) == 2
    assert "--closed-loop" in capsys.readouterr().err


def test_starts_may_be_poisson(capsys: pytest.CaptureFixture[str]) -> None:
    runs, _ = compared(capsys, *CHAT, "--poisson", "--rate", "2")
    assert "Poisson, 2 requests/s offered" in json.dumps(runs)
