"""`radixcache compare`: several orders on one trace, with the optimum beside them."""

from __future__ import annotations

import argparse

from radixcache.errors import ConfigError
from scheduler.cli.cells import CellRunner, cell_of
from scheduler.cli.html_output import check_html, write_html
from scheduler.cli.options import DEFAULT_POLICIES
from scheduler.cli.output import check_writable, emit_runs, introduction, say
from scheduler.cli.progress import progress_bar
from scheduler.cli.runs import presets_of, run_names
from scheduler.cli.workers import run_tasks
from scheduler.registry import SCHEDULE_POLICIES, make_schedule_policy

__all__ = ["run", "runs_of"]


def _policies_of(text: str) -> list[str]:
    """Return the names of a comma-separated list, each known and named once.

    Raises: ConfigError.
    """
    names = list(SCHEDULE_POLICIES) if text == "all" else [n.strip() for n in text.split(",")]
    if not all(names):
        raise ConfigError(
            f"policies is {text!r}: use one of {', '.join(sorted(SCHEDULE_POLICIES))} at each "
            "place, or all"
        )
    for name in names:
        make_schedule_policy(name)
        if names.count(name) > 1:
            raise ConfigError(f"policy {name!r} is named twice: name it once")
    return names


def runs_of(arguments: argparse.Namespace) -> list[str]:
    """Return the runs: the orders, or ``preset:order`` for several presets. Raises: ConfigError."""
    several = len(presets_of(arguments.preset)) > 1
    text = arguments.policies
    if text is None and several:
        return run_names(arguments, None)
    return run_names(arguments, _policies_of(DEFAULT_POLICIES if text is None else text))


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    cells = [cell_of(arguments, run) for run in runs_of(arguments)]
    presets = presets_of(arguments.preset)
    check_writable(arguments.output)
    check_html(arguments)
    runner = CellRunner(arguments)
    runner.check(cells)
    loaded = runner.requests(cells[0])
    say(introduction(loaded))
    if len(presets) > 1:
        say(f"note: preset {preset.name}: {preset.title}" for preset in presets)
    total = len(loaded) * len(cells)
    with progress_bar("requests", total, quiet=arguments.quiet) as bar:
        summaries = run_tasks(runner, arguments, CellRunner.run, cells, bar, jobs=arguments.jobs)
    emit_runs(arguments, loaded, summaries)
    write_html(arguments, "html_compare", loaded, summaries)
    return 0
