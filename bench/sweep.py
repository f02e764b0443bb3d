"""Orders side by side on four workloads: hit rate, TTFT, and the highest rate at a target.

    python -m bench.sweep [NAME ...] [--jobs N] [--traces-dir DIR]

Each workload is one ``radixcache sweep`` command: every order, three seeds, arrivals that are
spread and output lengths that nobody knows. Its rows go to ``bench/results/sweep/NAME.json``,
with the command, the version and the commit; seconds are simulated, so another machine gets
the same bytes. ``python -m bench.sweep_table`` makes the tables from them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.page_blocks import RESULTS, ROOT

__all__ = ["COMMANDS", "condensed", "main"]

POLICIES = (
    "fcfs",
    "spf",
    "sglang-lpm",
    "plain-lpm",
    "lpm-aging",
    "k-lpm",
    "dlpm",
    "hrrn",
    "lpm-fcfs-ties",
    "lpm-aged-ties",
    "lpm",
)
MOONCAKE = "mooncake_conversation.jsonl.gz"
FEW_SHOT = "--workload few-shot --page-size 64 --capacities 131072"
CHAT = "--workload chat --closed-loop --page-size 128 --capacities 262144 --prefill-rate 1300"
AGENTS = "--workload agents --closed-loop --page-size 256 --capacities 1572864"
EVERY = f"--policies {','.join(POLICIES)} --seeds 0,1,2"
FEWER = "fcfs,spf,sglang-lpm,hrrn,lpm-fcfs-ties,lpm-aged-ties,lpm"
TARGET = "--target-ttft-p99 5 --tolerance 0.05"
COMMANDS: dict[str, str] = {
    "few-shot": f"{FEW_SHOT} --size 800 --rates 7,10 {EVERY}",
    "agents": f"{AGENTS} --size 80 --rates 7 {EVERY}",
    "chat": f"{CHAT} --size 400 --loads 0.7 {EVERY}",
    "mooncake": f"TRACES/{MOONCAKE} --requests 2000 --capacities 4194304 --loads 0.5,0.9 "
    f"--policies {FEWER} --seeds 0,1,2",
    "few-shot-rate": f"{FEW_SHOT} --size 800 {TARGET} --policies {FEWER} --seeds 0,1,2",
    "agents-rate": f"{AGENTS} --size 40 {TARGET} --policies {FEWER} --seeds 0,1,2",
    "chat-rate": f"{CHAT} --size 200 {TARGET} --policies {FEWER} --seeds 0,1,2",
    "mooncake-rate": f"TRACES/{MOONCAKE} --requests 2000 --capacities 4194304 "
    f"--target-ttft-p99 20 --tolerance 0.05 --policies {FEWER} --seeds 0,1,2",
}
"""The options of each command; TRACES is the folder of traces."""

KEPT_VALUES = (
    "cold_hit_rate_share",
    "optimal_reached_share",
    "offered_requests_per_s",
    "utilisation_share",
    "drain_requests_per_s",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "ttft_max_s",
    "running_mean_requests",
    "overtaken_max_tokens",
    "overtaken_bound_share",
    "bound_max_s",
)
KEPT_PLACES = (
    *("policy", "seed", "load", "rate_requests_per_s", "part", "verdict"),
    *("meets_target", "is_limit"),
)


def condensed(document: dict[str, Any]) -> dict[str, Any]:
    """Return what the tables need of a sweep's JSON, and what was assumed in all its runs.

    Raises: ValueError where a run failed.
    """
    failed = [row["error"] for row in (*document["cells"], *document["limits"]) if row["error"]]
    if failed:
        raise ValueError(f"{len(failed)} runs failed, the first: {failed[0]}")
    cells = document["cells"]
    assumed = [cell["run"]["assumptions"] for cell in cells]
    shared = {
        name: value
        for name, value in assumed[0].items()
        if all(other.get(name) == value for other in assumed)
    }
    return {
        "command": document["command"],
        "version": document["version"],
        "target": document["target"],
        "assumptions": shared,
        "limits": [
            {name: limit[name] for name in ("policy", "seed", "rate_requests_per_s", "at_least")}
            for limit in document["limits"]
        ],
        "cells": [
            {name: cell[name] for name in KEPT_PLACES}
            | {name: cell["run"]["values"][name] for name in KEPT_VALUES}
            for cell in cells
        ],
    }


def written(result: dict[str, Any]) -> str:
    """Return a result as JSON with one line a row, as it is compared by people."""
    heads = {name: value for name, value in result.items() if not isinstance(value, list)}
    lines = json.dumps(heads, indent=1, allow_nan=False)[:-2]
    for name in ("limits", "cells"):
        rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in result[name])
        lines += f',\n "{name}": [\n  {rows}\n ]'
    return lines + "\n}\n"


def run_command(name: str, traces: Path, jobs: int) -> dict[str, Any]:
    """Run the command of a workload; return its condensed result."""
    folder_of_traces = os.path.relpath(traces, ROOT)
    words = [word.replace("TRACES", folder_of_traces) for word in COMMANDS[name].split()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "scheduler", "sweep", *words]
        subprocess.run([*command, "--jobs", str(jobs), "-o", path, "-q"], cwd=ROOT, check=True)
        return condensed(json.loads(path.read_text(encoding="utf-8")))


def commit() -> str:
    """Return the commit of the code that runs, and whether it has changes."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "radixcache", "scheduler")
    return git("rev-parse", "HEAD") + (" with changes" if changed else "")


def main() -> None:
    """Run the commands that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMMANDS))
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument(
        "--traces-dir", type=Path, default=ROOT.parent / "shared" / "traces", metavar="DIR"
    )
    parser.add_argument("--results-dir", type=Path, default=RESULTS / "sweep", metavar="DIR")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(COMMANDS))
    if unknown:
        parser.error(f"no workload is called {unknown[0]!r}: use {', '.join(COMMANDS)}")
    for name in given.names or COMMANDS:
        if name.startswith("mooncake") and not (given.traces_dir / MOONCAKE).is_file():
            print(f"{name}: skipped, {given.traces_dir / MOONCAKE} is absent")
            continue
        result = {"commit": commit()} | run_command(name, given.traces_dir, given.jobs)
        given.results_dir.mkdir(parents=True, exist_ok=True)
        (given.results_dir / f"{name}.json").write_text(written(result), encoding="utf-8")


if __name__ == "__main__":
    main()
