"""The guards of a sweep's runs, from the command line."""

from __future__ import annotations

import argparse

from radixcache.errors import ConfigError
from scheduler.cli.compare import runs_of
from scheduler.cli.options import option_of
from scheduler.cli.runs import order_of
from scheduler.queues import guard_bound
from scheduler.registry import make_schedule_policy
from scheduler.report.guard_setting import UNBOUNDED, GuardSetting

__all__ = ["guarded_runs"]


def guarded_runs(arguments: argparse.Namespace) -> list[tuple[str, GuardSetting]]:
    """Return the runs of one load, capacity and seed: each order under each of its guards.

    With ``--guards`` an order that has a guard of its own gets them all, any other none; without,
    each has what the command line and its default say.

    Raises: ConfigError where no order has a guard, or a guard is also given elsewhere.
    """
    runs = runs_of(arguments)
    if arguments.guards is None:
        return [(run, _own_guard(arguments, run)) for run in runs]
    for name in ("guard_base_tokens", "guard_kappa"):
        if getattr(arguments, name) is not None:
            raise ConfigError(f"--guards and {option_of(name)} exclude each other: give one")
    asking = {run for run in runs if make_schedule_policy(order_of(arguments, run)).default_guard}
    if not asking:
        raise ConfigError(f"--guards: none of the orders {', '.join(runs)} has a guard: add lpm")
    return [
        (run, guard)
        for run in runs
        for guard in (arguments.guards if run in asking else (UNBOUNDED,))
    ]


def _own_guard(arguments: argparse.Namespace, run: str) -> GuardSetting:
    base, kappa = guard_bound(
        make_schedule_policy(order_of(arguments, run)),
        arguments.guard_base_tokens,
        arguments.guard_kappa,
        arguments.chunk_tokens,
    )
    guard = GuardSetting(base, kappa)
    return guard if guard.bounded else UNBOUNDED
