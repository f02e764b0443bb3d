"""What all benchmarks share: options, alternating rounds, raw results in pyperf's format, ratios.

Subjects take turns round by round in one process, so a slow phase of the machine hits all of
them; a value is one round. Only ratios inside one run count.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyperf

from bench.significance import differ, median_ratio

__all__ = [
    "OURS",
    "ROOT",
    "Options",
    "Results",
    "Series",
    "alternate",
    "cpu_seconds",
    "parse_options",
    "per_call",
]

ROOT = Path(__file__).resolve().parents[1]
OURS = "radixcache"
"""Subject of everything of this project."""

_KEPT_METADATA = (
    "cpu_model_name", "cpu_count", "cpu_freq", "platform", "python_implementation",
    "python_version", "python_compiler", "load_avg_1min", "date", "perf_version",
)  # fmt: skip
_SCALES = {
    "second": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "byte": ((2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "integer": ((1.0, ""),),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    name: str
    rounds: int
    seed: int
    fast: bool
    """Small sizes: to see that it works, not to measure."""
    everything: bool
    """Also what takes minutes and is far behind anyway."""
    peers_dir: Path | None
    traces_dir: Path
    results_dir: Path
    save: bool

    def size(self, full: int, small: int) -> int:
        """Return the size to run."""
        return small if self.fast else full


def parse_options(name: str, arguments: Sequence[str] | None = None) -> Options:
    """Read the command line of one benchmark."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}")
    parser.add_argument("--rounds", type=int, default=7, help="rounds after one to warm up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="small sizes, nothing written")
    parser.add_argument("--everything", action="store_true", help="the slow corners too")
    parser.add_argument("--peers-dir", type=Path, help="folder of the unpacked peers")
    parser.add_argument(
        "--traces-dir", type=Path, default=ROOT.parent / "shared" / "traces", help="real traces"
    )
    parser.add_argument("--results-dir", type=Path, default=ROOT / "bench" / "results")
    given = parser.parse_args(arguments)
    return Options(
        name=name,
        rounds=2 if given.fast else given.rounds,
        seed=given.seed,
        fast=given.fast,
        everything=given.everything,
        peers_dir=given.peers_dir,
        traces_dir=given.traces_dir,
        results_dir=given.results_dir,
        save=not given.fast,
    )


@dataclass(frozen=True, slots=True)
class Series:
    """One value a round of one operation of one subject."""

    operation: str
    subject: str
    values: tuple[float, ...]
    unit: str = "second"
    """pyperf's: second, byte or integer."""
    facts: tuple[tuple[str, str | int | float], ...] = ()

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)


def cpu_seconds() -> float:
    """Return the CPU time of this thread: what other processes do does not count."""
    return time.thread_time()


def per_call(function: Callable[..., object], arguments: Iterable[tuple[object, ...]]) -> float:
    """Return CPU seconds a call over all the argument tuples."""
    calls = list(arguments)
    start = cpu_seconds()
    for call in calls:
        function(*call)
    return (cpu_seconds() - start) / len(calls)


def alternate(
    rounds: int, subjects: Mapping[str, Callable[[], Mapping[str, float]]]
) -> dict[str, dict[str, list[float]]]:
    """Run all subjects in turn, ``rounds`` times after a warm-up; return operation -> values.

    Before each turn garbage is collected and what is left is frozen, so that the collector
    sees in a turn only what the turn itself makes.
    """
    found: dict[str, dict[str, list[float]]] = {name: {} for name in subjects}
    for number in range(rounds + 1):
        for name, turn in subjects.items():
            gc.collect()
            gc.freeze()
            values = turn()
            gc.unfreeze()
            if number:
                for operation, value in values.items():
                    found[name].setdefault(operation, []).append(value)
    return found


class Results:
    """Collects the series of one benchmark, prints them, and writes the raw values."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.series: list[Series] = []
        print(f"== {options.name}", flush=True)

    def add(
        self,
        operation: str,
        subject: str,
        values: Sequence[float],
        unit: str = "second",
        **facts: str | int | float,
    ) -> Series:
        """Note one row and print it."""
        series = Series(operation, subject, tuple(values), unit, tuple(facts.items()))
        self.series.append(series)
        spread = f"{shown(min(values), unit)} to {shown(max(values), unit)}"
        print(
            f"{operation:44s} {subject:24s} {shown(series.median, unit):>10s}   ({spread})",
            flush=True,
        )
        return series

    def compare(self, ours: Series, theirs: Series) -> None:
        """Print how many times the second takes what the first takes, if they differ."""
        print(f"{'':44s} {theirs.subject:24s} {verdict(ours.values, theirs.values)}", flush=True)

    def add_group(
        self,
        found: Mapping[str, Mapping[str, Sequence[float]]],
        label: str,
        **facts: str | int | float,
    ) -> None:
        """Note what ``alternate`` found, each operation beside its peers, and compare."""
        names = list(found)
        for operation in dict.fromkeys(op for name in names for op in found[name]):
            rows = [
                self.add(
                    f"{operation} {label}".strip(), name, found[name][operation], "second", **facts
                )
                for name in names
                if operation in found[name]
            ]
            ours = next((row for row in rows if row.subject == OURS), None)
            for row in rows if ours is not None else ():
                if row is not ours:
                    assert ours is not None
                    self.compare(ours, row)

    def skip(self, what: str) -> None:
        """Say what is not measured, and why."""
        print(f"skipped: {what}", flush=True)

    def save(self) -> None:
        """Write ``<results>/<name>.json``."""
        if not self.options.save or not self.series:
            return
        path = self.options.results_dir / f"{self.options.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        suite = pyperf.BenchmarkSuite([_benchmark(row, self.options) for row in self.series])
        suite.dump(str(path), replace=True)
        print(f"wrote {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


def shown(value: float, unit: str) -> str:
    """Return a value with the unit that suits its size."""
    scales = _SCALES[unit]
    scale, suffix = next((pair for pair in scales if abs(value) >= pair[0]), scales[-1])
    number = f"{value / scale:.3g}" if abs(value / scale) < 1000 else f"{value / scale:,.0f}"
    return f"{number} {suffix}".strip()


def verdict(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Say how the other compares with ours, or that nothing can be said."""
    ratio = median_ratio(ours, theirs)
    if not differ(ours, theirs):
        return f"{ratio:.2f}x: no significant difference"
    return f"{ratio:.2f}x"


def _benchmark(row: Series, options: Options) -> pyperf.Benchmark:
    collected = pyperf.Run([1.0], collect_metadata=True).get_metadata()
    metadata = {key: collected[key] for key in _KEPT_METADATA if key in collected}
    metadata |= {
        "name": f"{row.operation} | {row.subject}",
        "unit": row.unit,
        "operation": row.operation,
        "subject": row.subject,
        "commit": _commit(),
        "seed": options.seed,
        "rounds": options.rounds,
        "command": " ".join(["python", "-m", f"bench {options.name}", *_given_options()]),
        **dict(row.facts),
    }
    # pyperf takes no zero; a nanosecond, or a billionth of a byte, stands for nothing at all.
    values = [max(value, 1e-9) for value in row.values]
    return pyperf.Benchmark([pyperf.Run(values, metadata=metadata, collect_metadata=False)])


def _given_options() -> list[str]:
    """Return the command line without the folders of this machine."""
    given = sys.argv[1:]
    return [word for word in given if "/" not in word and not word.endswith("-dir")]


def _commit() -> str:
    """Return the commit, with "-dirty" where the code, not a page or a result, differs from it."""
    described = _git("describe", "--always", "--abbrev=12")
    changed = _git("status", "--porcelain", "--", "*.py", "pyproject.toml")
    return f"{described or 'unknown'}{'-dirty' if changed else ''}"


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
