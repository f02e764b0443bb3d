"""The `radixcache` command: compare, replay, inspect, generate.

Errors of the input are one line on standard error and exit code 2; Ctrl-C ends with 130, a
closed pipe quietly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from radixcache.errors import InvalidInputError, RadixCacheError
from scheduler.cli.options import make_parser

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        arguments = make_parser().parse_args(argv)
        # A command is imported when it runs: `--help` needs none of them.
        code: int = import_module(f"scheduler.cli.{arguments.command}").run(arguments)
        sys.stdout.flush()
        return code
    except (InvalidInputError, RadixCacheError) as error:
        print(f"radixcache: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("radixcache: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output is gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
