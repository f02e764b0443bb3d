"""Workload: a synthetic trace, with the same attributes as a Trace of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from radixcache import KeyKind, PrefixKey
from radixcache.errors import ConfigError
from scheduler.request import Request
from scheduler.trace.sessions import SessionPlan, open_loop
from scheduler.trace.summary import TraceSummary

__all__ = [
    "MAX_OUTPUT",
    "VOCABULARY",
    "Workload",
    "check_sizes",
    "counted",
    "lone_request",
    "output_tokens",
    "poisson",
    "random_tokens",
]

VOCABULARY = 32_000
MIN_OUTPUT, MAX_OUTPUT = 64, 512


@dataclass(slots=True, kw_only=True)
class Workload:
    """One synthetic trace: iterate it to make its requests anew, in arrival order.

    The same seed gives the same requests in every process with one version of numpy.
    """

    format: str
    """The name of the generator."""
    title: str
    assumptions: tuple[str, ...]
    make: Callable[[TraceSummary], Iterator[Request]] | None = None
    plan: Callable[[TraceSummary], Iterator[SessionPlan]] | None = None
    """The traffic as sessions by start; without ``make``, requests are their open loop."""
    kind: KeyKind = KeyKind.TOKENS
    page_size: int | None = None
    summary: TraceSummary = field(default_factory=TraceSummary)
    """Counts of the latest pass."""

    def __iter__(self) -> Iterator[Request]:
        self.summary = TraceSummary()
        if self.make is not None:
            return self.make(self.summary)
        assert self.plan is not None, "a workload has requests or sessions"
        return open_loop(self.plan(self.summary))

    def sessions(self) -> Iterator[SessionPlan]:
        """Yield the sessions for a closed-loop replay; requests without one are none.

        Raises: ConfigError when the workload has no sessions.
        """
        if self.plan is None:
            raise ConfigError(f"{self.format} has no sessions: replay its requests as they arrive")
        self.summary = TraceSummary()
        return self.plan(self.summary)


def counted(requests: Iterable[Request], summary: TraceSummary) -> Iterator[Request]:
    """Yield the requests and count a row for each."""
    for request in requests:
        summary.took()
        yield request


def random_tokens(rng: np.random.Generator, length: int) -> bytes:
    """Draw token ids, packed."""
    return rng.integers(0, VOCABULARY, length, dtype=np.uint32).astype("<u4").tobytes()


def output_tokens(rng: np.random.Generator) -> int:
    """Draw the length of an answer, 64 to 512."""
    return int(rng.integers(MIN_OUTPUT, MAX_OUTPUT + 1))


def lone_request(rid: str, data: bytes, arrival_s: float, output: int) -> Request:
    """Make a request that belongs to no session, its answer known by length only."""
    key = PrefixKey.from_packed(data, KeyKind.TOKENS)
    return Request(
        rid=rid,
        key=key,
        prompt_tokens=len(key),
        max_new_tokens=MAX_OUTPUT,
        arrival_s=arrival_s,
        recorded_output_tokens=output,
    )


def poisson(what: str, gap_s: float) -> str:
    """Say how things arrive."""
    return f"{what} arrive as a Poisson process, {gap_s:g} s apart on average"


def check_sizes(seed: int, *, rate_per_s: float, think_s: float = 0.0, **counts: int) -> None:
    """Raise ConfigError for a seed, size, rate or time that makes no workload."""
    if type(seed) is not int or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, not {seed!r}")
    for name, count in counts.items():
        if type(count) is not int or not 1 <= count < 1 << 31:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {count!r}")
    if not 0 < rate_per_s < float("inf"):
        raise ConfigError(f"rate_per_s must be positive and finite, not {rate_per_s}")
    if not 0 <= think_s < float("inf"):
        raise ConfigError(f"think_s must be finite and not negative, not {think_s}")
