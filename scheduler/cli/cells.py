"""Cells: the runs of a command line that differ in order, seed, load and memory."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from radixcache.errors import ConfigError
from scheduler.cli.closed_loop import SessionRows
from scheduler.cli.loaded import Requests
from scheduler.cli.progress import Bar
from scheduler.cli.runs import cost_model_of, presets_of, run_one, settings_of
from scheduler.cli.workload import Rows, read_rows, seed_matters
from scheduler.registry import make_schedule_policy
from scheduler.report.guard_setting import GuardSetting
from scheduler.report.summary import Summary
from scheduler.sim.run import check_fits

__all__ = ["CellRunner", "CellSpec", "cell_of", "only_cell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSpec:
    """One run, and what of the command line it replaces; of the loads at most one is given."""

    run: str
    """An order, or ``preset:order``."""
    seed: int
    capacity_tokens: int | None = None
    rate: float | None = None
    load: float | None = None
    time_scale: float | None = None
    guard: GuardSetting | None = None
    """None: what the command line says, else the order's own."""

    def applied(self, arguments: argparse.Namespace) -> argparse.Namespace:
        """Return the command line of this cell alone."""
        own = copy.copy(arguments)
        own.seed = self.seed
        own.capacity_tokens = self.capacity_tokens
        own.rate, own.load, own.time_scale = self.rate, self.load, self.time_scale
        if self.guard is not None:
            own.guard_base_tokens = self.guard.base_tokens
            own.guard_kappa = self.guard.kappa
        return own


def cell_of(arguments: argparse.Namespace, run: str) -> CellSpec:
    """Return the cell of a command that has one seed, load and capacity."""
    return CellSpec(
        run=run,
        seed=arguments.seed,
        capacity_tokens=arguments.capacity_tokens,
        rate=arguments.rate,
        load=arguments.load,
        time_scale=arguments.time_scale,
    )


def only_cell(arguments: argparse.Namespace) -> CellSpec:
    """Return the cell of a command that has one order too. Raises: ConfigError."""
    policy = make_schedule_policy(arguments.policy).name
    if len(presets_of(arguments.preset)) > 1:
        raise ConfigError(
            f"{arguments.command} runs one preset, not {arguments.preset!r}: name one"
        )
    return cell_of(arguments, policy)


class CellRunner:
    """Runs the cells of one command line and keeps what the next one may need.

    Rows are read or made once as long as the seed stays, and timed once as long as the load
    does; give it cells in this order.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._cost = cost_model_of(arguments)
        self._rows: tuple[Hashable, Rows | SessionRows] | None = None
        self._requests: tuple[Hashable, Requests] | None = None

    def requests(self, cell: CellSpec) -> Requests:
        """Return the requests of a cell at its times."""
        at = (cell.seed, cell.rate, cell.load, cell.time_scale)
        if self._requests is None or self._requests[0] != at:
            arguments = cell.applied(self._arguments)
            self._requests = at, self._rows_of(arguments).at(arguments, self._cost)
        return self._requests[1]

    def rate_of(self, cell: CellSpec, load: float) -> float:
        """Return the requests/s at which a DFS-optimal cache would be busy ``load`` of the time."""
        rows = self._rows_of(cell.applied(self._arguments))
        seconds = rows.bounds.optimal.prefill_tokens / self._cost.prefill_tokens_per_s
        return load * len(rows) / seconds if seconds else 1.0

    def _rows_of(self, arguments: argparse.Namespace) -> Rows | SessionRows:
        seed = arguments.seed if seed_matters(arguments) else None
        if self._rows is None or self._rows[0] != seed:
            self._rows = seed, read_rows(arguments)
        return self._rows[1]

    def check(self, cells: Sequence[CellSpec]) -> None:
        """Refuse cells of one seed and load that could not run. Raises: ConfigError."""
        loaded = self.requests(cells[0])
        settings = [
            settings_of(cell.applied(self._arguments), loaded, self._cost, cell.run)
            for cell in cells
        ]
        check_fits(loaded.each(), list(dict.fromkeys(settings)))

    def run(self, cell: CellSpec, bar: Bar) -> Summary:
        """Run a cell to its end."""
        arguments = cell.applied(self._arguments)
        return run_one(arguments, self.requests(cell), self._cost, cell.run, bar)
