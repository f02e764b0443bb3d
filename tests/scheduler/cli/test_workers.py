"""run_tasks: answers in order, one fault ends all, and nobody is left behind."""

from __future__ import annotations

import multiprocessing
import signal

import pytest

from radixcache.errors import ConfigError
from scheduler.cli.cells import CellRunner
from scheduler.cli.parsing import parse_arguments
from scheduler.cli.workers import run_tasks
from tests.models.command_line import start
from tests.models.worker_tasks import die_at_three, fail_at_three, square


def run(work: object, tasks: list[int], jobs: int) -> tuple[list[int], list[int], list[int]]:
    arguments = parse_arguments(["compare", "--size", "5"])
    told: dict[int, int] = {}
    bars: list[int] = []
    answers = run_tasks(
        CellRunner(arguments),
        arguments,
        work,  # type: ignore[arg-type]
        tasks,
        bars.append,
        jobs=jobs,
        tell=told.__setitem__,
    )
    assert multiprocessing.active_children() == []
    return answers, [told[place] for place in sorted(told)], bars


@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_come_in_the_order_of_the_tasks(jobs: int) -> None:
    answers, told, bars = run(square, [5, 1, 4, 2], jobs)
    assert answers == told == [25, 1, 16, 4]
    assert bars[-1] == 12
    assert bars == sorted(bars)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_fault_ends_all(jobs: int) -> None:
    with pytest.raises(ZeroDivisionError, match="three"):
        run(fail_at_three, [1, 3, 2], jobs)
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="fewer --jobs"):
        run(die_at_three, [1, 3, 2], 2)
    assert multiprocessing.active_children() == []


def test_workers_end_with_a_parent_that_is_killed() -> None:
    options = ("--workload", "few-shot", "--policies", "fcfs,lpm", "--max-running", "2")
    process = start("compare", *options, "--jobs", "2")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("note: answers"):
            break
    process.send_signal(signal.SIGKILL)
    # The pipes close when the last process that holds them is gone.
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
