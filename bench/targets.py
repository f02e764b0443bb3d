"""The table of the ten targets in both READMEs, made from the raw JSON in bench/results.

    python -m bench.targets

A cell without a result is left empty. A ratio is the median over the rounds of peer / ours; "="
behind it means that the rounds show no significant difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyperf

from bench.__main__ import BENCHMARKS
from bench.peer_registry import PEER_VERSIONS
from bench.runner import OURS, ROOT, shown
from bench.significance import differ, median_ratio
from radixcache import EVICTION_POLICIES

__all__ = ["Raw", "Row", "rows", "table", "write_table"]

START, END = "<!-- targets: made by python -m bench.targets -->", "<!-- end of targets -->"
OBSERVED = "radixcache, observed"
WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6")
ENGINE_STEP_S = 0.008
SIZES = ("1,000", "1,000,000")


class Row(NamedTuple):
    """One line of the table."""

    target: str
    measured: str = ""
    peer: str = ""
    ratio: str = ""
    met: bool | None = None
    bench: str = ""


class Raw:
    """The raw values, by benchmark, operation and subject."""

    def __init__(self, folder: Path) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = {}
        self.origins: dict[str, str] = {}
        for path in (folder / f"{name}.json" for name in BENCHMARKS):
            if not path.is_file():
                continue
            suite = pyperf.BenchmarkSuite.load(str(path))
            for row in suite.get_benchmarks():
                facts = row.get_metadata()
                if "operation" not in facts:
                    continue
                key = (path.stem, facts["operation"], facts["subject"])
                self._values[key] = list(row.get_values())
                self.origins[path.stem] = (
                    f"{facts['commit']}, {facts.get('cpu_model_name', '?')}, "
                    f"Python {facts['python_version']}, seed {facts['seed']}, {facts['date'][:10]}"
                )

    def get(self, bench: str, operation: str, subject: str = OURS) -> list[float]:
        """Return the values, none if there is no such result."""
        return self._values.get((bench, operation, subject), [])

    def best_peer(self, bench: str, operation: str) -> tuple[str, list[float]]:
        """Return the fastest peer's name and values; an empty name if none was measured."""
        found = [(name, self.get(bench, operation, name)) for name in PEER_VERSIONS]
        measured = [(name, values) for name, values in found if values]
        return min(measured, key=lambda pair: median(pair[1]), default=("", []))


def beside_peer(
    raw: Raw, bench: str, operation: str, target: str, least: float, subject: str = OURS
) -> Row:
    """Compare an operation with the fastest peer's in the same run."""
    ours, (peer, theirs) = raw.get(bench, operation, subject), raw.best_peer(bench, operation)
    if not ours:
        return Row(target, bench=bench)
    if not theirs:
        return Row(target, shown(median(ours), "second"), bench=bench)
    ratio = median_ratio(ours, theirs)
    equal = "" if differ(ours, theirs) else " ="
    return Row(
        target,
        shown(median(ours), "second"),
        f"{peer} {shown(median(theirs), 'second')}",
        f"{ratio:.1f}x{equal}",
        ratio >= least and not equal,
        bench,
    )


def at_most(
    values: Iterable[float], limit: float, target: str, bench: str, unit: str = "second"
) -> Row:
    """Compare a median with a limit."""
    found = list(values)
    if not found:
        return Row(target, bench=bench)
    return Row(target, shown(median(found), unit), met=median(found) <= limit, bench=bench)


def growth(raw: Raw, bench: str, operations: tuple[str, str], limit: float, target: str) -> Row:
    """Compare how much more the second operation takes than the first."""
    first, second = (raw.get(bench, operation) for operation in operations)
    if not first or not second:
        return Row(target, bench=bench)
    factor = median(second) / median(first)
    return Row(target, f"{factor:.2f}x", met=factor <= limit, bench=bench)


def cache_rows(raw: Raw) -> Iterator[Row]:
    """Yield the rows of targets 1 to 3."""
    for call in ("match", "insert"):
        for name in WORKLOADS:
            least = 2.5 if name == "W5" else 3.0
            text = f"1. {call}, {name}: {least:g}x the best peer"
            yield beside_peer(raw, "peers", f"{call} {name}", text, least)
    for name in WORKLOADS:
        least = 2.5 if name == "W5" else 6.0
        text = f"2. whole request, events on, {name}: {least:g}x the best peer"
        yield beside_peer(raw, "loop", f"request {name}", text, least, OBSERVED)
    for leaves, least in ((10_000, 15), (100_000, 100)):
        operation = f"evict a leaf, beside peers of {leaves:,}"
        ours, theirs = raw.get("evict", operation), raw.get("evict", operation, "SGLang Rust")
        text = f"3. evict one leaf of {leaves:,}: {least}x SGLang's default"
        if not ours or not theirs:
            yield Row(text, bench="evict")
            continue
        ratio = median_ratio(ours, theirs)
        yield Row(
            text,
            shown(median(ours), "second"),
            f"SGLang Rust {shown(median(theirs), 'second')}",
            f"{ratio:.0f}x",
            ratio >= least,
            "evict",
        )
    for what, limit in (("heap pops a page", 1.1), ("evict a page", 3.0)):
        for policy in EVICTION_POLICIES:
            pair = (f"{what} of 1,000, {policy}", f"{what} of 1,000,000, {policy}")
            if raw.get("evict", pair[1]):
                text = f"3. {what}, {policy}, 1,000,000 leaves / 1,000: at most {limit:g}x"
                row = growth(raw, "evict", pair, limit, text)
                alone = [raw.get("evict", f"pop an entry of {n}", "heapq alone") for n in SIZES]
                if what == "evict a page" and all(alone):
                    factor = median(alone[1]) / median(alone[0])
                    row = row._replace(peer=f"heapq alone {factor:.2f}x")
                yield row


def engine_rows(raw: Raw) -> Iterator[Row]:
    """Yield the rows of targets 4 to 10."""
    step, large = "step with 10,000 waiting", "step with 100,000 waiting"
    yield at_most(
        raw.get("schedule", step), 150e-6, "4. a step with 10,000 waiting: 150 µs", "schedule"
    )
    text = "4. a step, 100,000 waiting / 10,000: at most 2x"
    yield growth(raw, "schedule", (step, large), 2.0, text)
    ours = raw.get("schedule", "step with 8,192 waiting")
    theirs = raw.get("schedule", "pass with 8,192 waiting", "SGLang Rust")
    text = "4. SGLang's pass over 8,192 waiting: 500 of our steps"
    if ours and theirs:
        ratio = median(theirs) / median(ours)
        peer = f"SGLang Rust {shown(median(theirs), 'second')}"
        yield Row(
            text, shown(median(ours), "second"), peer, f"{ratio:,.0f}x", ratio >= 500, "schedule"
        )
    else:
        yield Row(text, bench="schedule")
    values = raw.get("replay", "lookup a request, lru, 10000 blocks")
    text = "5. Mooncake, lookup, one capacity: 40,000 requests/s"
    if values:
        rate = 1 / median(values)
        yield Row(text, f"{rate:,.0f} requests/s", met=rate >= 40_000, bench="replay")
    else:
        yield Row(text, bench="replay")
    curve = raw.get("replay", "capacity curve, one pass")
    yield at_most(curve, 3.0, "5. the whole capacity curve: 3 s", "replay")
    byte_rows = (
        ("resident bytes a token, W1", 16, "6. bytes a cached token, W1, page 16: 16"),
        ("bytes a node beyond payload, W1", 700, "6. bytes a node beyond its payload: 700"),
    )
    for operation, limit, text in byte_rows:
        row = at_most(raw.get("memory", operation), limit, text, "memory", "byte")
        peer, theirs = raw.best_peer("memory", operation)
        yield row._replace(peer=f"{peer} {shown(median(theirs), 'byte')}") if theirs else row
    for module in ("radixcache", "scheduler"):
        values = raw.get("imports", f"import {module}, beyond bare Python")
        yield at_most(values, 0.030, f"7. import {module}, beyond bare Python: 30 ms", "imports")
    pair = tuple(
        f"schedule + complete 256 running at {size} tokens" for size in ("4,096", "131,072")
    )
    text = "8. a decode step, 256 running at 128k: 150 µs"
    yield at_most(raw.get("step", pair[1]), 150e-6, text, "step")
    yield growth(raw, "step", (pair[0], pair[1]), 1.1, "8. the same, 128k / 4k context: 1.1x")
    for phase, way in (("filling", "never frozen"), ("filling", "frozen"), ("serving", "frozen")):
        longest = max(raw.get("pauses", f"longest pause, {phase}, {way}"), default=None)
        text = f"9. longest collector pause, 200,000 nodes, {phase}, {way}: 2 ms"
        row = at_most([] if longest is None else [longest], 0.002, text, "pauses")
        yield row if way == "frozen" else row._replace(met=None)
    costs = raw.get("overhead", "cache and queue a step, without reuse")
    text = "10. cache and queue without reuse, of an 8 ms step: 0.3 %"
    if costs:
        share = median(costs) / ENGINE_STEP_S
        yield Row(text, f"{share:.2%}", met=share <= 0.003, bench="overhead")
    else:
        yield Row(text, bench="overhead")


def rows(raw: Raw) -> list[Row]:
    """Return the whole table."""
    parts: tuple[Callable[[Raw], Iterator[Row]], ...] = (cache_rows, engine_rows)
    return [row for part in parts for row in part(raw)]


def table(raw: Raw) -> str:
    """Return the table as Markdown."""
    marks = {True: "yes", False: "**no**", None: ""}
    lines = [
        "| target | measured | peer | ratio | met | command |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows(raw):
        command = f"`python -m bench {row.bench}`"
        cells = (row.target, row.measured, row.peer, row.ratio, marks[row.met], command)
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    lines += [f"- {name}.json: {origin}" for name, origin in raw.origins.items()]
    versions = ", ".join(f"{name} {version}" for name, version in PEER_VERSIONS.items())
    lines.append(f"- peers: {versions}")
    return "\n".join(lines)


def write_table(page: Path, text: str) -> None:
    """Put the table between its marks in a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Write the table into the README and into that of the benchmarks, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results-dir", type=Path, default=ROOT / "bench" / "results")
    pages = [ROOT / "README.md", ROOT / "bench" / "README.md"]
    parser.add_argument("--pages", type=Path, nargs="+", default=pages)
    given = parser.parse_args()
    text = table(Raw(given.results_dir))
    for page in given.pages:
        write_table(page, text)
    print(text)


if __name__ == "__main__":
    main()
