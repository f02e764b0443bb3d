"""`radixcache sweep`: orders x guards x loads x capacities x seeds, and rates at a target."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from radixcache.errors import ConfigError
from scheduler.cli.cells import CellRunner, CellSpec
from scheduler.cli.guards import guarded_runs
from scheduler.cli.html_output import check_html, write_html
from scheduler.cli.loaded import setting_of
from scheduler.cli.output import check_writable, emit, introduction, print_sweep, say
from scheduler.cli.parsing import command_line
from scheduler.cli.progress import Bar, progress_bar
from scheduler.cli.runs import capacity_of
from scheduler.cli.search import Probe, highest_rate
from scheduler.cli.version import installed_version
from scheduler.cli.workers import run_tasks
from scheduler.report.summary import Summary
from scheduler.report.sweep import Limit, Sweep, SweepCell, sweep_to_csv, sweep_to_json

__all__ = ["run"]

_FIRST_LOAD = 0.5
"""Load relative to the DFS optimum at which a search for the highest rate starts."""
_EXPECTED_PROBES = 9
"""Probes that a search takes as a rule, for the progress bar."""


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for the highest rate; ``cell`` is its first probe."""

    cell: CellSpec
    target_s: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class _Told:
    """What runs, for people: the requests themselves are not kept."""

    requests: int
    title: str
    subject: str
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Answer:
    cells: list[SweepCell]
    limit: Limit | None = None


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    form = _form(arguments)
    check_writable(arguments.output)
    check_html(arguments)
    runner = CellRunner(arguments)
    grid = _grid(arguments)
    searches = _searches(arguments, runner)
    told = _check(arguments, runner, [*grid, *(search.cell for search in searches)])
    say([f"runs of the grid: {len(grid)}; searches for the highest rate: {len(searches)}"])
    # Cells of one seed and load share their requests, so they follow each other.
    tasks: list[CellSpec | _Search] = [*sorted(grid, key=_by_requests), *searches]
    answers: dict[int, _Answer] = {}
    total = told.requests * (len(grid) + _EXPECTED_PROBES * len(searches))
    try:
        with progress_bar("requests", total, quiet=arguments.quiet) as bar:
            run_tasks(
                runner, arguments, _work, tasks, bar, jobs=arguments.jobs, tell=answers.__setitem__
            )
    except KeyboardInterrupt:
        if arguments.output is not None and answers and form is not None:
            emit(arguments.output, form(_sweep(arguments, told, grid, answers)))
            say([f"{arguments.output} has {len(answers)} of {len(tasks)} runs and searches"])
        raise
    sweep = _sweep(arguments, told, grid, answers)
    if form is not None:
        emit(arguments.output, form(sweep))
    if form is None or arguments.output is not None:
        print_sweep(sweep)
    write_html(arguments, "html_sweep", told.subject, told.notes, sweep)
    return _failures(sweep)


def _form(arguments: argparse.Namespace) -> Callable[[Sweep], str] | None:
    """Return what writes the rows; None: only the tables were asked for."""
    name = str(arguments.output or "")
    if arguments.json or (not arguments.csv and name.endswith(".json")):
        return sweep_to_json
    if arguments.csv or name.endswith(".csv"):
        return sweep_to_csv
    if name:
        raise ConfigError(f"output {name}: give a name in .csv or .json, or --csv or --json")
    return None


def _grid(arguments: argparse.Namespace) -> list[CellSpec]:
    """Return the cells of every order, guard, load, capacity and seed, as they are told."""
    loads: list[dict[str, float]] = [
        {axis: value}
        for axis, values in (
            ("load", arguments.loads),
            ("rate", arguments.rates),
            ("time_scale", arguments.time_scales),
        )
        for value in values or ()
    ]
    if not loads and arguments.target_ttft_p99 is None:
        setting = setting_of(arguments)
        loads = [{"time_scale": 1.0} if setting is None else {"rate": setting.rate}]
    return [
        CellSpec(run=run, guard=guard, seed=seed, capacity_tokens=capacity, **load)
        for capacity, load, (run, guard), seed in product(
            _capacities(arguments), loads, guarded_runs(arguments), arguments.seeds
        )
    ]


def _capacities(arguments: argparse.Namespace) -> Sequence[int]:
    return arguments.capacities or (capacity_of(arguments),)


def _searches(arguments: argparse.Namespace, runner: CellRunner) -> list[_Search]:
    """Return a search for each order, guard, capacity and seed, all from one rate."""
    target = arguments.target_ttft_p99
    if target is None:
        if "tolerance" in arguments.given:
            raise ConfigError("--tolerance goes with --target-ttft-p99: give both")
        return []
    if arguments.rates:
        first = arguments.rates[0]
    else:
        first = runner.rate_of(CellSpec(run="", seed=arguments.seeds[0]), _FIRST_LOAD)
    return [
        _Search(
            CellSpec(run=run, guard=guard, seed=seed, capacity_tokens=capacity, rate=first),
            target,
            arguments.tolerance,
        )
        for seed, capacity, (run, guard) in product(
            arguments.seeds, _capacities(arguments), guarded_runs(arguments)
        )
    ]


def _check(arguments: argparse.Namespace, runner: CellRunner, cells: Sequence[CellSpec]) -> _Told:
    """Refuse what could not run before anything runs; return what runs."""
    told: _Told | None = None
    for seed in arguments.seeds:
        own = [cell for cell in cells if cell.seed == seed]
        first = own[0]
        runner.check(
            # One load is enough: time has no part in it.
            [
                replace(cell, rate=first.rate, load=first.load, time_scale=first.time_scale)
                for cell in own
            ]
        )
        loaded = runner.requests(first)
        if told is None:
            told = _Told(len(loaded), loaded.name, loaded.subject, loaded.notes)
            say(introduction(loaded))
    assert told is not None
    return told


def _by_requests(cell: CellSpec) -> tuple[float, ...]:
    return (cell.seed, cell.load or 0, cell.rate or 0, cell.time_scale or 0)


def _work(runner: CellRunner, task: CellSpec | _Search, bar: Bar) -> _Answer:
    """Run a cell or a search. A fault is an answer, so that it ends no other."""
    if isinstance(task, _Search):
        return _search(runner, task, bar)
    try:
        return _Answer([_row(task, runner.run(task, bar))])
    except Exception as error:
        return _Answer([replace(_row(task), error=_told(error))])


def _search(runner: CellRunner, task: _Search, bar: Bar) -> _Answer:
    cells: list[SweepCell] = []

    def probe(rate: float) -> Probe:
        cell = replace(task.cell, rate=rate)
        share = len(runner.requests(cell))
        before = len(cells) * share
        most = _EXPECTED_PROBES * share
        summary = runner.run(cell, lambda ended: bar(min(before + ended, most)))
        result = _judged(summary, task.target_s)
        cells.append(replace(_row(cell, summary), meets_target=result is not Probe.FAILED))
        return result

    first = _row(task.cell)
    limit = Limit(
        policy=first.policy,
        capacity_tokens=first.capacity_tokens,
        seed=first.seed,
        guard=first.guard,
        rate=None,
    )
    try:
        assert task.cell.rate is not None
        found = highest_rate(probe, task.cell.rate, task.tolerance)
    except Exception as error:
        return _Answer(cells, replace(limit, error=_told(error)))
    bar(_EXPECTED_PROBES * len(runner.requests(task.cell)))
    return _Answer(cells, replace(limit, rate=found.rate, at_least=found.at_least))


def _judged(summary: Summary, target_s: float) -> Probe:
    """Tell whether a run meets the target: a queue without end never does."""
    reached = summary.values["ttft_p99_s"]
    if reached is None or reached > target_s or summary.overloaded or summary.rejected:
        return Probe.FAILED
    return Probe.PASSED if summary.load.verdict is not None else Probe.UNJUDGED


def _row(cell: CellSpec, summary: Summary | None = None) -> SweepCell:
    assert cell.capacity_tokens is not None
    assert cell.guard is not None
    return SweepCell(
        policy=cell.run,
        capacity_tokens=cell.capacity_tokens,
        seed=cell.seed,
        guard=cell.guard,
        load=cell.load,
        rate=cell.rate,
        time_scale=cell.time_scale,
        summary=summary,
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _sweep(
    arguments: argparse.Namespace,
    told: _Told,
    grid: Sequence[CellSpec],
    answers: dict[int, _Answer],
) -> Sweep:
    """Return what is there so far: the grid in its order, then the searches in theirs."""
    made = [answers[place] for place in sorted(answers)]
    places = {_key(_row(cell)): place for place, cell in enumerate(grid)}
    cells = [cell for answer in made if answer.limit is None for cell in answer.cells]
    cells.sort(key=lambda cell: places[_key(cell)])
    runs, capacities = guarded_runs(arguments), _capacities(arguments)
    found = [(answer.limit, answer.cells) for answer in made if answer.limit is not None]
    found.sort(
        key=lambda f: (
            capacities.index(f[0].capacity_tokens),
            runs.index((f[0].policy, f[0].guard)),
        )
    )
    return Sweep(
        cells=[*cells, *(cell for _, probes in found for cell in probes)],
        command=command_line(arguments),
        version=installed_version(),
        title=told.title,
        notes=told.notes,
        target_ttft_p99_s=arguments.target_ttft_p99,
        tolerance=None if arguments.target_ttft_p99 is None else arguments.tolerance,
        limits=[limit for limit, _ in found],
    )


def _key(cell: SweepCell) -> tuple[object, ...]:
    return (
        *(cell.policy, cell.guard, cell.capacity_tokens, cell.seed),
        *(cell.load, cell.rate, cell.time_scale),
    )


def _failures(sweep: Sweep) -> int:
    """Say what failed; return the exit code."""
    errors = [error for part in (sweep.cells, sweep.limits) for row in part if (error := row.error)]
    if not errors:
        return 0
    say([f"radixcache: {len(errors)} runs or searches failed, the first: {errors[0]}"])
    return 1
