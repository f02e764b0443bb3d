"""The tables of the sweeps in bench/README.md, made from bench/results/sweep.

    python -m bench.sweep_table

Prints them and puts them between the marks of the page. Every number is the median over the
seeds; behind it stands the range where it is asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.page_blocks import RESULTS, ROOT, table_rows, write_block
from bench.sweep import COMMANDS, POLICIES

__all__ = ["combined", "headline", "page_text", "spread"]

Cell = dict[str, Any]
Result = dict[str, Any]
SHOWN = ("optimal_reached_share", "ttft_mean_s", "ttft_p99_s", "ttft_max_s")
OVER = "†"


def loaded(folder: Path) -> dict[str, Result]:
    """Return the results that are there, by workload."""
    paths = {name: folder / f"{name}.json" for name in COMMANDS}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.is_file()
    }


def columns(results: dict[str, Result]) -> list[tuple[str, str]]:
    """Return (workload, load) of each column of the combined table."""
    return [
        (name, load)
        for name, result in results.items()
        for load in dict.fromkeys(load_of(cell) for cell in grid(result))
    ]


def load_of(cell: Cell) -> str:
    """Return the load that was asked for, as it is written."""
    rate = cell["rate_requests_per_s"]
    return f"ρ {cell['load']:g}" if rate is None else f"{rate:g}/s"


def grid(result: Result) -> list[Cell]:
    """Return the runs at the loads that were asked for, without the probes of the searches."""
    return [cell for cell in result["cells"] if cell["part"] == "grid"]


def cells_of(result: Result, policy: str, load: str) -> list[Cell]:
    """Return the runs of an order at a load, one a seed."""
    return [cell for cell in grid(result) if (cell["policy"], load_of(cell)) == (policy, load)]


def seconds(value: float) -> str:
    """Return seconds with two or three digits, as the seeds agree on no more."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def percent(value: float) -> str:
    """Return a share in percent."""
    return f"{100 * value:.1f}"


def ranged(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Return the median and, where it is another text, the range."""
    low, high = form(min(values)), form(max(values))
    return form(median(values)) + (f" ({low}–{high})" if low != high else "")


def overloaded(cells: Sequence[Cell]) -> str:
    """Return the mark of an overloaded cell: for all seeds, or for how many."""
    count = sum(cell["verdict"] == "OVERLOADED" for cell in cells)
    return "" if not count else OVER if count == len(cells) else f"{OVER}{count}/{len(cells)}"


def combined(results: dict[str, Result]) -> str:
    """Return one row an order, one column a workload and load: medians alone."""
    heads = [f"{name} {load}" for name, load in columns(results)]
    rows = [["order", *heads]]
    for policy in POLICIES:
        row = [f"`{policy}`"]
        for name, load in columns(results):
            cells = cells_of(results[name], policy, load)
            if not cells:
                row.append("")
                continue
            middle = [median(cell[value] for cell in cells) for value in SHOWN]
            parts = [percent(middle[0]), *map(seconds, middle[1:])]
            row.append(" / ".join(parts) + overloaded(cells))
        rows.append(row)
    return table_rows(rows)


def headline(results: dict[str, Result]) -> str:
    """Return the highest rate of each order at each workload's target, with the range."""
    targets = {name: result["target"] for name, result in results.items() if result["target"]}
    heads = [
        f"{name.removesuffix('-rate')}, p99 ≤ {target['ttft_p99_s']:g} s"
        for name, target in targets.items()
    ]
    rows = [["requests/s", *heads]]
    known = {limit["policy"] for name in targets for limit in results[name]["limits"]}
    for policy in (policy for policy in POLICIES if policy in known):
        row = [f"`{policy}`"]
        for name in targets:
            limits = [limit for limit in results[name]["limits"] if limit["policy"] == policy]
            rates = [limit["rate_requests_per_s"] for limit in limits]
            if None in rates:
                row.append("none")
                continue
            least = "≥ " if any(limit["at_least"] for limit in limits) else ""
            row.append(least + ranged(rates, "{:.3g}".format) if rates else "")
        rows.append(row)
    return table_rows(rows)


def spread(result: Result, load: str) -> str:
    """Return one workload at one load: medians, and the range over the seeds."""
    rows = [["order", "", "hit, % of optimum", "TTFT mean, s", "p99, s", "max, s", "utilisation"]]
    for policy in POLICIES:
        cells = cells_of(result, policy, load)
        if not cells:
            continue
        forms = (percent, seconds, seconds, seconds, percent)
        row = [f"`{policy}`", overloaded(cells).replace(OVER, "OVERLOADED ").strip()]
        for name, form in zip((*SHOWN, "utilisation_share"), forms, strict=True):
            row.append(ranged([cell[name] for cell in cells], form))
        rows.append(row)
    return table_rows(rows)


def page_text(results: dict[str, Result]) -> str:
    """Return all tables and the commands that made them."""
    parts = [
        "Hit rate in % of the DFS optimum / mean / p99 / largest TTFT in simulated seconds, "
        f"medians over the seeds; {OVER} = OVERLOADED: seconds measure the length of the run.",
        combined(results),
    ]
    if any(result["target"] for result in results.values()):
        parts += ["Highest rate, median over the seeds and their range:", headline(results)]
    for name, load in columns(results):
        parts += [f"{name} at {load}:", spread(results[name], load)]
    made = [
        f"- {name}: `{result['command']}`, version {result['version']}, commit "
        f"{result['commit'][:12]}{' with changes' * result['commit'].endswith('changes')}"
        for name, result in results.items()
    ]
    return "\n\n".join([*parts, "\n".join(made)])


def main() -> None:
    """Write the tables into the README of the benchmarks, and print them."""
    parser = argparse.ArgumentParser(description="Make the tables of the sweeps.")
    parser.add_argument("--results-dir", type=Path, default=RESULTS / "sweep")
    parser.add_argument("--page", type=Path, default=ROOT / "bench" / "README.md")
    given = parser.parse_args()
    text = page_text(loaded(given.results_dir))
    write_block(given.page, "sweep", text)
    print(text)


if __name__ == "__main__":
    main()
