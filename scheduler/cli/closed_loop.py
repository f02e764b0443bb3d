"""Sessions of a workload or a trace, to be replayed in a closed loop."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from radixcache import KeyKind
from radixcache.errors import ConfigError
from scheduler.cli.loaded import (
    Bounds,
    Requests,
    Sessions,
    adapt_by,
    bounds_of,
    rate_of,
)
from scheduler.request import Request
from scheduler.sim.arrivals import load_span_scale, poisson_starts, rate_span_scale
from scheduler.sim.closed_loop import CLOSED_LOOP
from scheduler.sim.cost_model import StepCost
from scheduler.trace import Trace, spread_ticks
from scheduler.trace.sessions import OPEN_LOOP, OUTPUT_TOKEN_S, SessionPlan, open_loop, sessions_of
from scheduler.trace.workload import Workload

__all__ = ["SessionRows", "read_sessions"]

Assumed = dict[str, str | float | int | bool | None]


@dataclass(frozen=True, slots=True)
class _Extent:
    sessions: int
    turns: int
    span_s: float


@dataclass(frozen=True, slots=True)
class SessionRows:
    """The sessions of a source as they were read, with the bounds of all turns."""

    name: str
    kind: KeyKind
    page_size: int
    bounds: Bounds
    notes: tuple[str, ...]
    plans: Callable[[], Iterable[SessionPlan]]
    extent: _Extent
    adapt: Callable[[Request], Request]
    assumed: Assumed

    def __len__(self) -> int:
        return self.extent.turns

    def at(self, arguments: argparse.Namespace, cost: StepCost) -> Requests:
        """Return the sessions at the starts that were asked for."""
        assumed = dict(self.assumed)
        plans, factor = _started(arguments, self.plans, self.extent, self.bounds, cost, assumed)
        return Requests(
            name=self.name,
            kind=self.kind,
            page_size=self.page_size,
            requests=[],
            bounds=self.bounds,
            assumptions=assumed,
            notes=self.notes,
            sessions=Sessions(plans, self.extent.turns, factor, self.adapt),
        )


def read_sessions(
    arguments: argparse.Namespace, source: Trace | Workload, name: str, page_size: int
) -> SessionRows:
    """Return the sessions of a source, with the bounds of all turns.

    Sessions of a workload are made anew for each run. Those of a trace are kept, as what
    each turn adds. Raises: ConfigError where there are no sessions.
    """
    assumed: Assumed = {"arrivals": CLOSED_LOOP}
    plans = _plans(arguments, source, assumed)
    extent = _extent(plans())
    if extent.turns == extent.sessions:
        raise ConfigError(
            f"{name} has no session with a second turn: leave --closed-loop out to replay its "
            "requests as they arrive"
        )
    adapt = adapt_by(arguments)
    bounds = bounds_of(map(adapt, open_loop(plans())), page_size)
    notes = [note for note in source.assumptions if note != OPEN_LOOP]
    if isinstance(source, Trace):
        notes = [*source.summary.lines(), *notes]
    return SessionRows(
        name=name,
        kind=source.kind,
        page_size=page_size,
        bounds=bounds,
        notes=tuple(notes),
        plans=plans,
        extent=extent,
        adapt=adapt,
        assumed=assumed,
    )


def _plans(
    arguments: argparse.Namespace, source: Trace | Workload, assumed: Assumed
) -> Callable[[], Iterable[SessionPlan]]:
    """Return what gives the sessions, at most ``--requests`` turns of them."""
    limit: int | None = arguments.requests
    if isinstance(source, Workload):
        if source.plan is None:
            raise ConfigError(f"{source.title} have no sessions: leave --closed-loop out")
        return lambda: _first_turns(source.sessions(), limit)
    if source.kind is not KeyKind.TOKENS:
        raise ConfigError(
            f"{source.path} has {source.kind.value} keys: only token keys tell what a turn adds, "
            "leave --closed-loop out"
        )
    requests = list(islice(source, limit))
    if not arguments.keep_ticks:
        requests, report = spread_ticks(requests, seed=arguments.seed)
        if report.tick_s is not None:
            assumed["ticks"] = f"spread inside {report.tick_s:g} s"
    kept = sessions_of(requests)
    assumed["think_times"] = (
        f"recorded gaps without answers of {OUTPUT_TOKEN_S * 1000:g} ms a token"
    )
    return lambda: kept


def _first_turns(plans: Iterable[SessionPlan], limit: int | None) -> Iterator[SessionPlan]:
    """Yield sessions until they have ``limit`` turns; the last one is cut to fit."""
    left = limit
    for plan in plans:
        if left is None:
            yield plan
            continue
        if left <= 0:
            return
        yield plan if len(plan.turns) <= left else replace(plan, turns=plan.turns[:left])
        left -= len(plan.turns)


def _extent(plans: Iterable[SessionPlan]) -> _Extent:
    sessions = turns = 0
    first = last = 0.0
    for plan in plans:
        first = first if sessions else plan.start_s
        last = plan.start_s
        sessions += 1
        turns += len(plan.turns)
    return _Extent(sessions, turns, last - first)


def _started(
    arguments: argparse.Namespace,
    plans: Callable[[], Iterable[SessionPlan]],
    extent: _Extent,
    bounds: Bounds,
    cost: StepCost,
    assumed: Assumed,
) -> tuple[Callable[[], Iterable[SessionPlan]], float]:
    """Return the sessions at the starts that were asked for, and the factor on these."""
    rate = rate_of(arguments) if extent.span_s or arguments.poisson else arguments.rate
    if arguments.poisson:
        if rate is None:
            raise ConfigError("Poisson arrivals need a rate: give --rate in requests/s")
        assumed["starts"] = f"Poisson, {rate:g} requests/s offered"
        mean_turns, seed = extent.turns / extent.sessions, arguments.seed
        return (
            lambda: poisson_starts(plans(), rate, mean_turns, np.random.default_rng(seed)),
            1.0,
        )
    factor = arguments.time_scale or 1.0
    load = arguments.load
    if rate is not None:
        factor = rate_span_scale(extent.span_s, extent.turns - 1, rate)
        assumed["rate"] = f"{rate:g} requests/s if all turns came while sessions start"
    elif load is not None:
        factor = load_span_scale(
            extent.span_s, load, bounds.optimal.prefill_tokens, cost.prefill_tokens_per_s
        )
        assumed["load"] = (
            f"{load:g} of what the DFS optimum could carry, if all turns came while sessions start"
        )
    assumed["start_scale"] = round(factor, 6)
    return plans, factor
