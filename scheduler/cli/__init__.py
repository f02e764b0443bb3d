"""The `radixcache` command and its errors.

Commands: compare, sweep, replay, curve, inspect, explain, whatif, convert, generate, calibrate,
validate. Errors of the input are one line on standard error and exit code 2; Ctrl-C ends with 130,
a closed pipe quietly.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from radixcache.errors import RadixCacheError
from scheduler.cli.parsing import parse_arguments

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal has no ±
    try:
        arguments = parse_arguments(argv)
        # A command is imported when it runs: `--help` needs none of them.
        code: int = import_module(f"scheduler.cli.{arguments.command}").run(arguments)
        sys.stdout.flush()
        return code
    except RadixCacheError as error:
        return _refuse(str(error))
    except SystemExit as done:  # of --help
        return int(done.code or 0)
    except KeyboardInterrupt:
        if argv is None:  # the process ends with the command: one interrupt is enough
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("radixcache: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        place = error.filename or "standard output"
        return _refuse(f"{place}: {error.strerror or error}: use another file with --output")


def _refuse(message: str) -> int:
    # Imported for an error only: `--help` does without.
    printable = import_module("scheduler.report.html.text").printable
    print(f"radixcache: {printable(' '.join(message.split()))}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Send what is left in the buffer nowhere: Python would complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
