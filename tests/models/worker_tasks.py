"""Work for worker processes; a module of its own, so that they can import it."""

from __future__ import annotations

import os

from scheduler.cli.cells import CellRunner
from scheduler.cli.progress import Bar

__all__ = ["die_at_three", "fail_at_three", "square"]


def square(runner: CellRunner, number: int, bar: Bar) -> int:
    """Return the square."""
    bar(number)
    return number**2


def fail_at_three(runner: CellRunner, number: int, bar: Bar) -> int:
    """Raise for 3."""
    if number == 3:
        raise ZeroDivisionError("three")
    return square(runner, number, bar)


def die_at_three(runner: CellRunner, number: int, bar: Bar) -> int:
    """End the process for 3, as the kernel does when memory is out."""
    if number == 3:
        os._exit(9)
    return square(runner, number, bar)
