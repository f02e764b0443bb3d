"""The table of eviction policies in bench/README.md, from bench/results/eviction.json."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.eviction import below_lru, markdown
from bench.page_blocks import RESULTS, ROOT, write_block

__all__ = ["page_text"]


def page_text(result: dict[str, Any]) -> str:
    """Return the table, and where ghost-Gittins is below LRU."""
    rows = result["results"]
    capacities = sorted({row["capacity_pages"] for row in rows})
    seeds = len({row["seed"] for row in rows} - {None})
    below = ", ".join(f"{pages:,}" for pages in below_lru(rows, capacities)) or "none of these"
    return "\n\n".join(
        [
            markdown(rows, capacities),
            f"- {result['trace']}: {result['definition']}; `random` is the mean of {seeds} seeds\n"
            f"- capacities at which ghost-gittins is below lru: {below}\n"
            f"- `{result['command']}`, commit {result['commit'][:12]}",
        ]
    )


def main() -> None:
    """Write the table into the README of the benchmarks, and print it."""
    parser = argparse.ArgumentParser(description="Make the table of eviction policies.")
    parser.add_argument("--result", type=Path, default=RESULTS / "eviction.json")
    parser.add_argument("--page", type=Path, default=ROOT / "bench" / "README.md")
    given = parser.parse_args()
    text = page_text(json.loads(given.result.read_text(encoding="utf-8")))
    write_block(given.page, "eviction", text)
    print(text)


if __name__ == "__main__":
    main()
