"""Hit rates of every eviction policy on the Mooncake conversation trace.

A lookup replay in arrival order: no queue, no time, an empty cache at the start, only the
full 512-token blocks of a prompt, one token of each prompt computed, outputs not cached. So
the numbers depend on nothing but the policy and the capacity.

    python bench/eviction.py -o bench/results/eviction.json

The raw result has one entry a run; the table is printed as Markdown, ``random`` as the mean
of its seeds. Ghost-Gittins is held against LRU; where it is below, that is said.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from radixcache import EvictionPolicy, Random
from scheduler.lookup import LookupResult, lookup_replay
from scheduler.request import Request
from scheduler.trace import open_trace

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT.parent / "shared" / "traces" / "mooncake_conversation.jsonl.gz"
BLOCK_TOKENS = 512
CAPACITIES_PAGES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
POLICIES = (
    "lru",
    "lfu",
    "slru",
    "fifo",
    "random",
    "t-lru",
    "arc",
    "ghost-gittins",
    "optimal",
)


def runs(
    requests: Sequence[Request], capacities: Sequence[int], seeds: int
) -> Iterator[tuple[LookupResult, int | None]]:
    """Yield each result with the seed of its policy, if it has one."""
    for name, capacity in product(POLICIES, capacities):
        for seed in range(seeds) if name == "random" else (None,):
            policy: str | EvictionPolicy = name if seed is None else Random(seed)
            yield (
                lookup_replay(
                    requests,
                    BLOCK_TOKENS,
                    capacity_pages=capacity,
                    policy=policy,
                    last_token=True,
                ),
                seed,
            )


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def rates(results: Sequence[dict[str, Any]], policy: str) -> list[float]:
    """Return the cold hit rates in percent by capacity, the mean over the seeds."""
    found: dict[int, list[float]] = {}
    for result in results:
        if result["policy"] == policy:
            found.setdefault(result["capacity_pages"], []).append(100 * result["cold_hit_rate"])
    return [mean(values) for _, values in sorted(found.items())]


def markdown(results: Sequence[dict[str, Any]], capacities: Sequence[int]) -> str:
    rows = [
        "| cold token hit rate, % | " + " | ".join(f"{pages:,} pages" for pages in capacities),
        "|---" * (1 + len(capacities)),
    ]
    rows += [
        f"| {policy} | " + " | ".join(f"{rate:.2f}" for rate in rates(results, policy))
        for policy in POLICIES
    ]
    return "\n".join(f"{row} |" if row[-1] != "-" else f"{row}|" for row in rows)


def below_lru(results: Sequence[dict[str, Any]], capacities: Sequence[int]) -> list[int]:
    """Return the capacities at which ghost-Gittins is below LRU."""
    pairs = zip(rates(results, "lru"), rates(results, "ghost-gittins"), strict=True)
    return [pages for pages, (lru, index) in zip(capacities, pairs, strict=True) if index < lru]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--pages", type=int, nargs="+", default=list(CAPACITIES_PAGES))
    parser.add_argument("--seeds", type=int, default=5, help="runs of random, seeds 0, 1, ...")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if not arguments.trace.is_file():
        sys.exit(f"{arguments.trace} is absent: name the Mooncake conversation trace by --trace")
    capacities = sorted(set(arguments.pages))
    requests = list(open_trace(arguments.trace))  # only full blocks, unless asked for more
    results: list[dict[str, Any]] = []
    for result, seed in runs(requests, capacities, arguments.seeds):
        results.append({**asdict(result), "cold_hit_rate": result.cold_hit_rate, "seed": seed})
        rate = 100 * (result.cold_hit_rate or 0)
        print(f"{result.policy} {result.capacity_pages}: {rate:.2f} %", file=sys.stderr)
    print(markdown(results, capacities))
    print(f"\nghost-gittins is below lru at: {below_lru(results, capacities) or 'no capacity'}")
    if arguments.output is not None:
        changed = bool(git("status", "--porcelain", "--untracked-files=no"))
        content = {
            "command": "python " + " ".join(["bench/eviction.py", *sys.argv[1:]]),
            "commit": git("rev-parse", "HEAD") + (" with changes" if changed else ""),
            "machine": platform.machine(),
            "platform": platform.platform(),
            "python_version": platform.python_version(),
            "trace": arguments.trace.name,
            "definition": "cold, arrival order, full 512-token blocks, last-token rule",
            "results": results,
        }
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
