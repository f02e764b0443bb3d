"""Runs the `radixcache` command for tests, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler.cli import main

ROOT = Path(__file__).resolve().parents[2]

SMALL = ("--workload", "few-shot", "--size", "24", "--quiet")
"""A workload that runs in a moment."""


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    """Run the command in this process."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return Ran(code, out, err)


def start(*arguments: str | Path, hash_seed: str = "0") -> subprocess.Popen[str]:
    """Start the command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "scheduler", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        start_new_session=True,
    )


def run_apart(*arguments: str | Path, hash_seed: str = "0") -> Ran:
    """Run the command in a process of its own.

    It returns once every process that shares its outputs is gone, workers included.
    """
    process = start(*arguments, hash_seed=hash_seed)
    out, err = process.communicate(timeout=300)
    return Ran(process.returncode, out, err)


def write_rows(path: Path, *rows: str) -> Path:
    """Write a trace in the project's own format."""
    path.write_text("\n".join(['{"radixcache_trace":1,"kind":"tokens"}', *rows]) + "\n")
    return path
