"""Arrival times of a replay: as recorded and scaled, or a Poisson process of a given rate.

The same scales serve requests and, in a closed loop, the starts of sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from radixcache.errors import ConfigError
from scheduler.request import Request
from scheduler.trace.sessions import SessionPlan

__all__ = [
    "load_span_scale",
    "load_time_scale",
    "poisson",
    "poisson_starts",
    "rate_span_scale",
    "rate_time_scale",
    "recorded_span_s",
    "scaled",
]


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{name} is {value!r}: give a finite number above 0")
    return float(value)


def recorded_span_s(requests: Sequence[Request]) -> float:
    """Return the seconds from the first to the last arrival."""
    if not requests:
        return 0.0
    return requests[-1].arrival_s - requests[0].arrival_s


def rate_span_scale(span_s: float, gaps: int, rate: float) -> float:
    """Return the factor on a span with ``gaps`` requests after its first that gives ``rate``.

    Raises: ConfigError where there is no span to scale.
    """
    if span_s <= 0:
        raise ConfigError(
            f"all {gaps + 1} requests arrive at one moment, so no time scale gives "
            f"{rate!r} requests/s: use Poisson arrivals"
        )
    return gaps / (_positive("rate", rate) * span_s)


def rate_time_scale(requests: Sequence[Request], rate: float) -> float:
    """Return the factor on recorded times that gives ``rate`` requests a second on average.

    Raises: ConfigError where the trace has no span to scale.
    """
    return rate_span_scale(recorded_span_s(requests), len(requests) - 1, rate)


def load_span_scale(
    span_s: float, load: float, optimal_prefill_tokens: int, tokens_per_s: float
) -> float:
    """Return the factor at which a DFS-optimal cache would be busy ``load`` of the span.

    At 1 only the optimum is stable: scale = (C* / tokens_per_s) / (load * span).
    Raises: ConfigError where there is no span to scale.
    """
    if span_s <= 0:
        raise ConfigError(
            f"everything arrives at one moment, so load {load!r} has no time scale: "
            "use Poisson arrivals"
        )
    return (optimal_prefill_tokens / tokens_per_s) / (_positive("load", load) * span_s)


def load_time_scale(
    requests: Sequence[Request], load: float, optimal_prefill_tokens: int, tokens_per_s: float
) -> float:
    """Return ``load_span_scale`` of the requests' span."""
    return load_span_scale(recorded_span_s(requests), load, optimal_prefill_tokens, tokens_per_s)


def scaled(requests: Iterable[Request], time_scale: float) -> list[Request]:
    """Return the requests with times from 0 on, multiplied by ``time_scale``."""
    factor = _positive("time scale", time_scale)
    rows = list(requests)
    if not rows:
        return rows
    origin = rows[0].arrival_s
    return [replace(row, arrival_s=(row.arrival_s - origin) * factor) for row in rows]


def poisson(requests: Iterable[Request], rate: float, rng: np.random.Generator) -> list[Request]:
    """Return the requests in their order, with exponential gaps of mean ``1 / rate`` seconds."""
    rows = list(requests)
    times = np.cumsum(rng.exponential(1 / _positive("rate", rate), size=len(rows)))
    return [replace(row, arrival_s=float(t)) for row, t in zip(rows, times, strict=True)]


def poisson_starts(
    sessions: Iterable[SessionPlan], rate: float, mean_turns: float, rng: np.random.Generator
) -> Iterator[SessionPlan]:
    """Yield the sessions in their order, with starts that offer ``rate`` requests a second."""
    gap_s = mean_turns / _positive("rate", rate)
    start_s = 0.0
    for session in sessions:
        start_s += float(rng.exponential(gap_s))
        yield replace(session, start_s=start_s)
