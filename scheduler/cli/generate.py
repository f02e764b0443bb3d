"""`radixcache generate`: write a synthetic workload as a trace file."""

from __future__ import annotations

import argparse

from radixcache.errors import ConfigError
from scheduler.cli.output import check_trace_name, check_writable, emit, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.trace import make_workload, sharegpt_json, write_trace

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    path = arguments.output
    check_writable(path, replaced=True)
    if path.endswith((".json", ".json.gz")):
        return _write_sharegpt(arguments)
    check_trace_name(path)
    workload = make_workload(
        arguments.kind,
        seed=arguments.seed,
        size=arguments.size,
        timestamp=arguments.timestamp,
    )
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        written = write_trace(counted(workload, bar), path, notes=workload.assumptions)
    say([f"wrote {written} requests to {path}: {workload.title}"])
    say(f"note: {note}" for note in workload.assumptions)
    return 0


def _write_sharegpt(arguments: argparse.Namespace) -> int:
    path = arguments.output
    if arguments.kind != "sharegpt-like" or path.endswith(".gz"):
        raise ConfigError(
            f"output {path}: a .json file holds a ShareGPT array, which only sharegpt-like is, "
            "unpacked: give a name that ends in .jsonl or .jsonl.gz"
        )
    if arguments.timestamp is not None:
        raise ConfigError(
            f"--timestamp {arguments.timestamp} goes with chat: leave it out for sharegpt-like"
        )
    size = {} if arguments.size is None else {"conversations": arguments.size}
    emit(path, b"".join(sharegpt_json(arguments.seed, **size)).decode())
    say([f"wrote ShareGPT conversations to {path}"])
    return 0
