"""Where a command's result goes: a table for people, JSON or CSV for programs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from radixcache.errors import ConfigError
from scheduler.cli.loaded import Requests
from scheduler.cli.parsing import command_line
from scheduler.cli.version import installed_version
from scheduler.report.html.text import printable
from scheduler.report.plain_text import HIDDEN
from scheduler.report.summary import Summary, to_csv, to_json
from scheduler.report.sweep import Sweep
from scheduler.report.sweep_table import render_sweep
from scheduler.report.table import print_table, render_table

__all__ = [
    "check_trace_name",
    "check_writable",
    "emit",
    "emit_runs",
    "frame_of",
    "introduction",
    "print_sweep",
    "say",
]


def check_writable(path: str | None, *, replaced: bool = False) -> None:
    """Refuse an output path before hours of work go into it.

    ``replaced``: a new file takes the path's place, so that it must not be a device or a pipe.
    Raises: ConfigError.
    """
    if path is None:
        return
    if replaced and Path(path).exists() and not Path(path).is_file():
        raise ConfigError(f"output {path}: is no regular file: give a file in an existing folder")
    parent = Path(path).resolve().parent
    if Path(path).is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ConfigError(f"output {path}: cannot be written: give a file in an existing folder")


def check_trace_name(path: str) -> None:
    """Refuse a name that does not say what a trace is written as. Raises: ConfigError."""
    if not path.endswith((".jsonl", ".jsonl.gz")):
        raise ConfigError(
            f"output {path}: a trace is written as JSONL: give a name that ends in .jsonl or "
            ".jsonl.gz"
        )


def say(lines: Iterable[str]) -> None:
    """Print lines for people to standard error, beside the result.

    What a trace or a path brings along can neither break a line nor steer the terminal.
    """
    for line in lines:
        print(printable(line).replace("\n", "\\n"), file=sys.stderr)


def emit(path: str | None, text: str) -> None:
    """Write a result to its file, or to standard output."""
    if path is None:
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"output {path}: cannot be written ({error.strerror}): give another file"
        ) from error


def frame_of(arguments: argparse.Namespace, title: str, notes: Iterable[str]) -> dict[str, object]:
    """Return what every JSON document says of itself: what made it, and of what."""
    return {
        "command": command_line(arguments),
        "version": installed_version(),
        "title": title,
        "notes": list(notes),
    }


def introduction(loaded: Requests) -> list[str]:
    """Return what there is to say before the runs: what runs, and what no policy can beat."""
    optimal = loaded.bounds.optimal
    ceiling, best = loaded.bounds.ceiling_hit_rate, optimal.hit_rate
    lines = [loaded.subject]
    if best is not None and ceiling is not None:
        exact = "" if optimal.exact else " (counted by HyperLogLog, within 1.3 points)"
        lines.append(
            f"DFS-optimal hit rate {100 * best:.2f} %{exact}; "
            f"unbounded cache in arrival order {100 * ceiling:.2f} %"
        )
    return [*lines, *(f"note: {note}" for note in loaded.notes)]


def emit_runs(
    arguments: argparse.Namespace, loaded: Requests, summaries: Sequence[Summary]
) -> None:
    """Give out the runs in the form that was asked for."""
    if arguments.json:
        frame = frame_of(arguments, loaded.name, loaded.notes)
        emit(arguments.output, to_json(summaries, **frame))
    elif arguments.csv:
        emit(arguments.output, to_csv(summaries))
    elif arguments.output is None:
        print_table(summaries, Console())
    else:
        emit(arguments.output, render_table(summaries))


def print_sweep(sweep: Sweep) -> None:
    """Print the tables of a sweep; on a terminal what is overloaded stands out."""
    text = render_sweep(sweep)
    console = Console()
    if not console.is_terminal:
        sys.stdout.write(text)
        return
    for line in text.splitlines():
        hot = "OVERLOADED" in line and HIDDEN in line and not line.startswith(HIDDEN)
        console.print(Text(line, style="yellow" if hot else ""), soft_wrap=True)
