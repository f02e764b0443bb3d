"""``python -m bench [NAME ...] [options]``: each benchmark in a fresh process, then the table."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

__all__ = ["BENCHMARKS", "main"]

BENCHMARKS = (
    "imports",
    "memory",
    "micro",
    "peers",
    "loop",
    "evict",
    "schedule",
    "replay",
    "step",
    "overhead",
    "pauses",
)
"""In the order they run."""


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all; return 1 if one failed."""
    names = [word for word in arguments if word in BENCHMARKS]
    options = [word for word in arguments if word not in BENCHMARKS]
    if len(arguments) and not names and not arguments[0].startswith("-"):
        print(f"no benchmark is called {arguments[0]!r}: use {', '.join(BENCHMARKS)}")
        return 2
    if not names and {"-h", "--help"} & set(options):
        print(f"{__doc__}\n\nNAME: {', '.join(BENCHMARKS)}\noptions: python -m bench NAME --help")
        return 0
    root = Path(__file__).resolve().parents[1]
    failed = []
    for name in names or BENCHMARKS:
        start = time.monotonic()
        command = [sys.executable, "-m", f"bench.{name}", *options]
        if subprocess.run(command, cwd=root, check=False).returncode:
            failed.append(name)
        print(f"{name}: {time.monotonic() - start:.0f} s\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    if "--fast" not in options:
        return subprocess.run(
            [sys.executable, "-m", "bench.targets"], cwd=root, check=False
        ).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
