"""Requests: what a run replays, its bounds and what was assumed, before any policy runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from radixcache import KeyKind
from scheduler.optimal import OptimalBound, OptimalMeter, computed_key
from scheduler.request import Request
from scheduler.sim.closed_loop import ClosedLoop
from scheduler.sim.run import with_oracle_length
from scheduler.sim.source import OpenLoop, RequestSource
from scheduler.trace.sessions import SessionPlan, open_loop

__all__ = [
    "DEFAULT_CAPACITY_TOKENS",
    "WORKLOAD_SETTINGS",
    "Bounds",
    "Requests",
    "Sessions",
    "Setting",
    "adapt_by",
    "bounds_of",
    "setting_of",
]

DEFAULT_CAPACITY_TOKENS = 1_048_576


class Setting(NamedTuple):
    """The KV memory and the load at which a built-in workload tells orders apart."""

    capacity_tokens: int
    rate: float
    """Requests/s: the default cost model carries them with a good order."""


WORKLOAD_SETTINGS: dict[str, Setting] = {
    "sharegpt-like": Setting(65_536, 8.0),
    "few-shot": Setting(131_072, 8.0),
    "chat": Setting(1_048_576, 20.0),
    "agents": Setting(1_572_864, 3.0),
    "tree": Setting(262_144, 20.0),
    "unique": Setting(1_048_576, 6.0),
}


def setting_of(arguments: argparse.Namespace) -> Setting | None:
    """Return the setting of the built-in workload, None for a trace."""
    return None if arguments.trace is not None else WORKLOAD_SETTINGS[arguments.workload]


def adapt_by(arguments: argparse.Namespace) -> Callable[[Request], Request]:
    """Return what the command line does to each request before it is sent."""

    def adapt(request: Request) -> Request:
        return with_oracle_length(request) if arguments.oracle_lengths else request

    return adapt


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no policy can beat on these requests."""

    optimal: OptimalBound
    ceiling_hit_rate: float | None
    """Hit rate of an unbounded cache in arrival order, with the last-token rule."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a closed loop; made anew for each run, so that they take no memory."""

    plans: Callable[[], Iterable[SessionPlan]]
    turns: int
    start_scale: float
    adapt: Callable[[Request], Request]

    def source(self) -> ClosedLoop:
        """Return a fresh source of all turns."""
        return ClosedLoop(
            self.plans(),
            expected_requests=self.turns,
            start_scale=self.start_scale,
            adapt=self.adapt,
        )


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a run: in order of arrival with scaled times, or as sessions."""

    name: str
    kind: KeyKind
    page_size: int
    requests: list[Request]
    """Of an open loop; empty where ``sessions`` are given."""
    bounds: Bounds
    assumptions: Mapping[str, str | float | int | bool | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What became of the rows of the file, and what it did not say."""
    sessions: Sessions | None = None

    def __len__(self) -> int:
        return len(self.requests) if self.sessions is None else self.sessions.turns

    def each(self) -> Iterator[Request]:
        """Yield every request, for what does not depend on time."""
        if self.sessions is None:
            yield from self.requests
        else:
            yield from map(self.sessions.adapt, open_loop(self.sessions.plans()))

    def source(self) -> RequestSource:
        """Return a fresh source for one run."""
        return OpenLoop(self.requests) if self.sessions is None else self.sessions.source()


def bounds_of(requests: Iterable[Request], page_size: int) -> Bounds:
    """Return the optimum and the ceiling, recorded outputs cached as each request says."""
    meter = OptimalMeter(page_size)
    hits = 0
    for request in requests:
        hits += meter.add(
            request.key,
            request.prompt_tokens,
            computed_key(request),
            max_match_tokens=request.max_match_tokens,
        )
    total = meter.prompt_tokens
    return Bounds(meter.bound(), hits / total if total else None)
