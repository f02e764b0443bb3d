"""Requests: what a run replays, its bounds and what was assumed, before any policy runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from radixcache import KeyKind
from radixcache.errors import ConfigError
from scheduler.optimal import OptimalBound, OptimalMeter, computed_key
from scheduler.request import Request
from scheduler.samples import fan_out
from scheduler.sim.closed_loop import ClosedLoop
from scheduler.sim.run import with_oracle_length
from scheduler.sim.source import OpenLoop
from scheduler.trace.sessions import SessionPlan, open_loop

__all__ = [
    "DEFAULT_CAPACITY_TOKENS",
    "Bounds",
    "Requests",
    "Sessions",
    "Setting",
    "adapt_by",
    "bounds_of",
    "check_outputs",
    "rate_of",
    "said_of_outputs",
    "setting_of",
    "subject_of",
]

DEFAULT_CAPACITY_TOKENS = 1_048_576


class Setting(NamedTuple):
    """The KV memory and the load at which a built-in workload tells orders apart."""

    capacity_tokens: int
    rate: float
    """Requests/s: the default cost model carries them with a good order."""


_SETTINGS: dict[str, Setting] = {
    "sharegpt-like": Setting(65_536, 8.0),
    "few-shot": Setting(131_072, 8.0),
    "chat": Setting(1_048_576, 20.0),
    "agents": Setting(1_572_864, 3.0),
    "tree": Setting(262_144, 20.0),
    "unique": Setting(1_048_576, 6.0),
}


def setting_of(arguments: argparse.Namespace) -> Setting | None:
    """Return the setting of the built-in workload, None for a trace."""
    return None if arguments.trace is not None else _SETTINGS[arguments.workload]


def rate_of(arguments: argparse.Namespace) -> float | None:
    """Return the rate asked for, or the workload's own where no load was asked for at all."""
    setting = setting_of(arguments)
    asked = (arguments.rate, arguments.load, arguments.time_scale)
    if setting is not None and asked == (None, None, None):
        return setting.rate
    rate: float | None = arguments.rate
    return rate


def adapt_by(arguments: argparse.Namespace) -> Callable[[Request], Request]:
    """Return what the command line does to each request before it is sent."""
    caching, share = arguments.cache_output, arguments.visible_share
    if (caching == "visible") != (share is not None):
        raise ConfigError(
            "--cache-output visible and --visible-share go together: give the share of the "
            "answer that stays cached"
        )

    def adapt(request: Request) -> Request:
        if arguments.oracle_lengths:
            request = with_oracle_length(request)
        if caching is None:
            return request
        tokens = request.recorded_output_tokens
        visible = None
        if share is not None:
            visible = round(share * (request.max_new_tokens if tokens is None else tokens))
        return replace(request, cache_output=caching, visible_tokens=visible)

    return adapt


def check_outputs(arguments: argparse.Namespace, kind: KeyKind) -> None:
    """Refuse to cache outputs of block ids, which have none of their own. Raises: ConfigError."""
    if kind is KeyKind.BLOCKS and arguments.cache_output not in {None, "none"}:
        raise ConfigError(
            f"--cache-output {arguments.cache_output}: the outputs of this trace have no block ids "
            "and cannot be looked up: leave it out"
        )


def said_of_outputs(arguments: argparse.Namespace) -> dict[str, str]:
    """Say how much of each answer is cached, where the command line and not the row does."""
    if arguments.cache_output is None:
        return {}
    if arguments.visible_share is not None:
        return {"cache_output": f"the first {100 * arguments.visible_share:g} %"}
    return {"cache_output": str(arguments.cache_output)}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no policy can beat on these requests."""

    optimal: OptimalBound
    prompts: int
    requests: int
    """Prompts, every sample counted."""
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
        return self.bounds.requests

    @property
    def subject(self) -> str:
        """What a report says it is about."""
        return subject_of(self.name, len(self), self.bounds.optimal.prompt_tokens)

    def each(self) -> Iterator[Request]:
        """Yield every request, for what does not depend on time."""
        if self.sessions is None:
            yield from self.requests
        else:
            yield from map(self.sessions.adapt, open_loop(self.sessions.plans()))

    def source(self) -> OpenLoop | ClosedLoop:
        """Return a fresh source for one run."""
        return OpenLoop(self.requests) if self.sessions is None else self.sessions.source()


def subject_of(title: str, requests: int, prompt_tokens: int) -> str:
    """Return in a line what a result is about."""
    return f"{title}: {requests:,} requests, {prompt_tokens:,} prompt tokens"


def bounds_of(requests: Iterable[Request], page_size: int) -> Bounds:
    """Return the optimum and the ceiling, recorded outputs cached as each request says."""
    meter = OptimalMeter(page_size)
    hits = prompts = count = 0
    for request in requests:
        prompts += 1
        for sample in fan_out(request):
            count += 1
            hits += meter.add(
                sample.key,
                sample.prompt_tokens,
                computed_key(sample),
                max_match_tokens=sample.max_match_tokens,
            )
    total = meter.prompt_tokens
    return Bounds(meter.bound(), prompts, count, hits / total if total else None)
