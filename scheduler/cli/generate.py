"""`radixcache generate`: write a synthetic workload as a trace file."""

from __future__ import annotations

import argparse

from scheduler.cli.output import check_writable, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.workload import built_in
from scheduler.trace import write_trace

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    workload = built_in(arguments.kind, arguments.seed, arguments.requests)
    with progress_bar("requests", None, quiet=False) as bar:
        written = write_trace(counted(workload, bar), arguments.output)
    say([f"wrote {written} requests to {arguments.output}: {workload.title}"])
    say(f"note: {note}" for note in workload.assumptions)
    return 0
