"""The requests of a run: a trace file or a built-in workload, with what was assumed."""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np

from radixcache.errors import ConfigError
from scheduler.cli.closed_loop import closed_loop
from scheduler.cli.loaded import DEFAULT_LOAD, Bounds, Requests, adapt_by, bounds_of
from scheduler.request import Request
from scheduler.sim.arrivals import load_time_scale, poisson, rate_time_scale, scaled
from scheduler.sim.cost_model import CostModel
from scheduler.trace import ReadOptions, Trace, open_trace, spread_ticks
from scheduler.trace.workload import Workload
from scheduler.trace.workloads import make_workload

__all__ = ["Bounds", "Requests", "built_in", "load_requests", "opened", "page_size_of"]

DEFAULT_PAGE_SIZE = 64
# Requests a session, conversation or problem gives on average; the others count requests.
_REQUESTS_EACH = {"sharegpt-like": 5, "chat": 6, "agents": 43, "tree": 52}


def built_in(kind: str, seed: int, requests: int | None) -> Workload:
    """Return a synthetic workload of about ``requests`` requests."""
    size = None if requests is None else max(1, round(requests / _REQUESTS_EACH.get(kind, 1)))
    return make_workload(kind, seed=seed, size=size)


def opened(arguments: argparse.Namespace, *, partial_block: bool = False) -> Trace:
    """Open the trace that the command line names."""
    options = ReadOptions(
        strict=arguments.strict,
        max_new_tokens=arguments.max_new_tokens,
        partial_block=partial_block,
    )
    return open_trace(arguments.trace, format=arguments.format, options=options)


def page_size_of(trace: Trace | Workload, asked: int | None) -> int:
    """Return the page size: the trace's blocks, or what was asked for.

    Raises: ConfigError where both exist and differ.
    """
    if trace.page_size is not None and asked not in {None, trace.page_size}:
        raise ConfigError(
            f"page size is {asked}, but this trace has blocks of {trace.page_size} tokens: "
            f"leave --page-size out or give {trace.page_size}"
        )
    return trace.page_size or asked or DEFAULT_PAGE_SIZE


def load_requests(arguments: argparse.Namespace, cost: CostModel) -> Requests:
    """Read or make the requests of a run, scale their times and find their bounds."""
    source: Trace | Workload
    if arguments.trace is None:
        source = built_in(arguments.workload, arguments.seed, arguments.requests)
        name = source.title
    else:
        source = opened(arguments)
        name = f"{source.path} ({source.title})"
    page_size = page_size_of(source, arguments.page_size)
    if arguments.closed_loop:
        return closed_loop(arguments, source, name, page_size, cost)
    requests = list(islice(source, arguments.requests))
    notes = list(source.assumptions)
    if isinstance(source, Trace):
        notes = [*source.summary.lines(), *notes]
    requests = list(map(adapt_by(arguments), requests))
    bounds = bounds_of(requests, page_size)
    requests, assumed = _timed(arguments, requests, bounds, cost)
    return Requests(
        name=name,
        kind=source.kind,
        page_size=page_size,
        requests=requests,
        bounds=bounds,
        assumptions=assumed,
        notes=tuple(notes),
    )


def _timed(
    arguments: argparse.Namespace, requests: list[Request], bounds: Bounds, cost: CostModel
) -> tuple[list[Request], dict[str, str | float | int | bool | None]]:
    """Return the requests at the arrival times that were asked for."""
    assumed: dict[str, str | float | int | bool | None] = {}
    seed = arguments.seed
    if arguments.poisson:
        if arguments.rate is None:
            raise ConfigError("Poisson arrivals need a rate: give --rate in requests/s")
        assumed["arrivals"] = f"Poisson at {arguments.rate:g} requests/s"
        return poisson(requests, arguments.rate, np.random.default_rng(seed)), assumed
    if not arguments.keep_ticks:
        requests, report = spread_ticks(requests, seed=seed)
        if report.tick_s is not None:
            assumed["ticks"] = f"spread inside {report.tick_s:g} s"
    else:
        assumed["ticks"] = "kept as recorded"
    load = arguments.load
    if arguments.trace is None and arguments.rate is None and arguments.time_scale is None:
        load = load or DEFAULT_LOAD
    factor = arguments.time_scale or 1.0
    if arguments.rate is not None:
        factor = rate_time_scale(requests, arguments.rate)
        assumed["rate"] = f"{arguments.rate:g} requests/s on average"
    elif load is not None:
        factor = load_time_scale(
            requests, load, bounds.optimal.prefill_tokens, cost.prefill_tokens_per_s
        )
        assumed["load"] = f"{load:g} of what the DFS optimum could carry"
    assumed["time_scale"] = round(factor, 6)
    return scaled(requests, factor), assumed
