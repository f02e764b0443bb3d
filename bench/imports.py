"""What importing costs beyond bare Python, each in a new interpreter.

    python -m bench imports

``import scheduler`` loads its names when they are first used; "from scheduler import Scheduler"
loads the scheduler with numpy. A value is user + system CPU time of one interpreter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from bench.runner import OURS, ROOT, Options, Results, parse_options

__all__ = ["run"]

STATEMENTS = {
    "bare Python": "pass",
    "import radixcache": "import radixcache",
    "import scheduler": "import scheduler",
    "from scheduler import Scheduler": "from scheduler import Scheduler",
    "import numpy": "import numpy",
}


def interpreter_seconds(statement: str) -> float:
    """Return the CPU time of an interpreter that runs one statement and ends."""
    command = [sys.executable, "-c", statement]
    process = os.posix_spawn(command[0], command, {**os.environ, "PYTHONPATH": str(ROOT)})
    _, status, usage = os.wait4(process, 0)
    assert status == 0, statement
    return usage.ru_utime + usage.ru_stime


def run(options: Options) -> Results:
    """Measure each statement less what bare Python took in the same round."""
    results = Results(options)
    run_each: dict[str, Callable[[], float]] = {
        name: partial(interpreter_seconds, statement) for name, statement in STATEMENTS.items()
    }
    values: dict[str, list[float]] = {name: [] for name in run_each}
    for number in range(max(options.rounds * 3, 3) + 1):
        for name, turn in run_each.items():
            seconds = turn()
            if number:
                values[name].append(seconds)
    bare = values.pop("bare Python")
    results.add("bare Python", "Python", bare)
    for name, whole in values.items():
        # Noise may make a difference negative; a time is not.
        beyond = [max(one - two, 0.0) for one, two in zip(whole, bare, strict=True)]
        results.add(f"{name}, beyond bare Python", OURS, beyond)
    return results


if __name__ == "__main__":
    run(parse_options("imports")).save()
