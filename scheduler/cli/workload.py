"""The requests of a run: a trace file or a built-in workload, with what was assumed."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import islice

import numpy as np

from radixcache import KeyKind
from radixcache.errors import ConfigError
from scheduler.cli.closed_loop import SessionRows, read_sessions
from scheduler.cli.loaded import Bounds, Requests, adapt_by, bounds_of, rate_of
from scheduler.request import Request
from scheduler.sim.arrivals import load_time_scale, poisson, rate_time_scale, scaled
from scheduler.sim.cost_model import StepCost
from scheduler.trace import (
    PieceTokenizer,
    ReadOptions,
    Tokenizer,
    Trace,
    Workload,
    load_tokenizer,
    make_workload,
    open_trace,
    spread_ticks,
)

__all__ = [
    "Rows",
    "notes_on",
    "opened",
    "page_size_of",
    "read_rows",
    "seed_matters",
    "title_of",
    "tokenizer_of",
]

DEFAULT_PAGE_SIZE = 64


def tokenizer_of(arguments: argparse.Namespace) -> Tokenizer:
    """Return the tokenizer of the command line. Raises: ConfigError."""
    return load_tokenizer(arguments.tokenizer or PieceTokenizer.name)


def opened(
    arguments: argparse.Namespace,
    *,
    partial_block: bool = False,
    tokenizer: Tokenizer | None = None,
) -> Trace | Workload:
    """Open the trace that the command line names, or make its workload.

    ``tokenizer`` is what ``tokenizer_of`` gave, where it is asked for text afterwards.
    """
    if arguments.trace is None:
        return make_workload(arguments.workload, seed=arguments.seed, size=arguments.size)
    options = ReadOptions(
        strict=arguments.strict,
        max_new_tokens=arguments.max_new_tokens,
        partial_block=partial_block,
        tokenizer=tokenizer or tokenizer_of(arguments),
    )
    trace = open_trace(arguments.trace, format=arguments.format, options=options)
    if arguments.tokenizer is not None and not _reads_text(trace):
        raise ConfigError(
            f"--tokenizer does nothing with {trace.path} ({trace.title}), which holds no text: "
            "leave it out"
        )
    return trace


def _reads_text(trace: Trace) -> bool:
    """Tell whether a reader may need the tokenizer; rows of the own format may mix."""
    said = any("tokenizer" in sentence for sentence in trace.assumptions)
    return said or (trace.format == "radixcache" and trace.kind is KeyKind.TOKENS)


def title_of(source: Trace | Workload) -> str:
    """Return what is replayed, in a line."""
    return f"{source.path}: {source.title}" if isinstance(source, Trace) else source.title


def notes_on(source: Trace | Workload) -> list[str]:
    """Return what became of the rows, once they were read, and what was assumed."""
    counted = source.summary.lines() if isinstance(source, Trace) else []
    return [*counted, *source.assumptions]


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


@dataclass(frozen=True, slots=True)
class Rows:
    """Requests as they were read or made, before their times are scaled."""

    name: str
    kind: KeyKind
    page_size: int
    bounds: Bounds
    notes: tuple[str, ...]
    requests: list[Request]

    def __len__(self) -> int:
        return len(self.requests)

    def at(self, arguments: argparse.Namespace, cost: StepCost) -> Requests:
        """Return the requests at the arrival times that were asked for.

        Cost: O(requests); keys are shared.
        """
        requests, assumed = _timed(arguments, self.requests, self.bounds, cost)
        return Requests(
            name=self.name,
            kind=self.kind,
            page_size=self.page_size,
            requests=requests,
            bounds=self.bounds,
            assumptions=assumed,
            notes=self.notes,
        )


def read_rows(arguments: argparse.Namespace) -> Rows | SessionRows:
    """Read or make the requests of a command, and find their bounds.

    Of the arrival options only ``seed`` matters, and that where ``seed_matters``.
    """
    source = opened(arguments)
    page_size = page_size_of(source, arguments.page_size)
    if arguments.closed_loop:
        return read_sessions(arguments, source, title_of(source), page_size)
    requests = list(map(adapt_by(arguments), islice(source, arguments.requests)))
    return Rows(
        name=title_of(source),
        kind=source.kind,
        page_size=page_size,
        bounds=bounds_of(requests, page_size),
        notes=tuple(notes_on(source)),
        requests=requests,
    )


def seed_matters(arguments: argparse.Namespace) -> bool:
    """Tell whether other seeds give other rows: a trace is read as it is."""
    return arguments.trace is None or arguments.closed_loop


def _timed(
    arguments: argparse.Namespace, requests: list[Request], bounds: Bounds, cost: StepCost
) -> tuple[list[Request], dict[str, str | float | int | bool | None]]:
    """Return the requests at the arrival times that were asked for."""
    assumed: dict[str, str | float | int | bool | None] = {}
    seed, rate = arguments.seed, rate_of(arguments)
    if arguments.poisson:
        if rate is None:
            raise ConfigError("Poisson arrivals need a rate: give --rate in requests/s")
        assumed["arrivals"] = f"Poisson at {rate:g} requests/s"
        return poisson(requests, rate, np.random.default_rng(seed)), assumed
    if not arguments.keep_ticks:
        requests, report = spread_ticks(requests, seed=seed)
        if report.tick_s is not None:
            assumed["ticks"] = f"spread inside {report.tick_s:g} s"
    else:
        assumed["ticks"] = "kept as recorded"
    load = arguments.load
    factor = arguments.time_scale or 1.0
    if rate is not None:
        factor = rate_time_scale(requests, rate)
        assumed["rate"] = f"{rate:g} requests/s on average"
    elif load is not None:
        factor = load_time_scale(
            requests, load, bounds.optimal.prefill_tokens, cost.prefill_tokens_per_s
        )
        assumed["load"] = f"{load:g} of what the DFS optimum could carry"
    assumed["time_scale"] = round(factor, 6)
    return scaled(requests, factor), assumed
