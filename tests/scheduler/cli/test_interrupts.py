"""Ctrl-C and a closed pipe end the command without a traceback and without leftovers."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.models.command_line import SMALL, start

LONG = ("compare", "--workload", "few-shot", "--size", "4000", "--policies", "fcfs,lpm")


def wait_for_the_runs(process: subprocess.Popen[str]) -> str:
    """Read the lines that are said before the first policy runs."""
    assert process.stderr is not None
    read = ""
    for line in process.stderr:
        read += line
        if line.startswith("note: answers"):
            break
    return read


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("everyone", [True, False], ids=["terminal", "kill"])
def test_an_interrupt_is_one_line_and_130(jobs: str, everyone: bool) -> None:
    process = start(*LONG, "--jobs", jobs)
    said = wait_for_the_runs(process)
    assert "DFS-optimal" in said
    if everyone:  # as a terminal does: to the workers, too
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    # The pipes close when the last process that holds them is gone: no worker is left.
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "radixcache: interrupted\n")


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]], ids=["table", "json", "csv"])
def test_a_closed_pipe_ends_quietly(form: list[str]) -> None:
    with start("compare", *SMALL, "--policies", "lpm", "--jobs", "1", *form) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "Error" not in err
    assert "Exception" not in err
