"""SchedulerConfig: every setting of the scheduler, with its unit, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, cast, get_args

from radixcache.errors import ConfigError

__all__ = [
    "MOST_BOUND_TOKENS",
    "MOST_KAPPA",
    "MOST_TOKENS",
    "AdaptiveRatio",
    "HoldMode",
    "PublishMode",
    "RetractOrder",
    "SchedulerConfig",
    "StepMode",
]

MOST_TOKENS = 2**30
"""Tokens of one request, a page or a chunk: positions and what a step adds to them are int32."""
MOST_RUNNING = 2**20
MOST_STEP_TOKENS = 2**20
MOST_BOUND_TOKENS = 2**53
"""B0 of a guard: a float holds it, and bounds near it, exactly."""
MOST_KAPPA = 2**20

HoldMode = Literal["stop", "skip", "share", "off"]
PublishMode = Literal["complete", "schedule"]
StepMode = Literal["mixed", "prefill-first"]
RetractOrder = Literal["least-lost", "last-admitted", "fewest-output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveRatio:
    """An estimate of the share of its output a running request will still need.

    It falls in each decode step and jumps to what was seen when memory ran out. A request is
    admitted if its own output, clipped, fits whole beside the estimates of the running ones;
    nothing of it is reserved.

    Ref: SGLang 0.5.23 ``new_token_ratio_tracker.py``, ``schedule_policy.py`` (PrefillAdder).
    Raises: ConfigError for a value out of its range.
    """

    initial: float = 0.7
    least: float = 0.098
    """Where the fall ends: 0.14 of 0.7."""
    decay_steps: int = 600
    """Decode steps from ``initial`` to ``least``."""
    clip_tokens: int = 4096
    """Outputs count as at most so long."""
    retract_steps: int = 20
    """Steps that the estimate after a retraction looks ahead."""

    def __post_init__(self) -> None:
        for name in ("initial", "least"):
            _check_share(name, getattr(self, name))
        if self.least > self.initial:
            raise ConfigError(f"least is {self.least}: give at most initial, {self.initial}")
        for name in ("decay_steps", "clip_tokens"):
            _check_int(name, getattr(self, name), 1, MOST_TOKENS)
        _check_int("retract_steps", self.retract_steps, 0, MOST_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Settings of a ``Scheduler``.

    Raises:
        ConfigError: a value is out of its range.

    """

    page_size: int
    """Tokens of a page; the cache's."""
    chunk_tokens: int = 8192
    """Prefill tokens a step may run; each running request adds its decode token."""
    max_running: int = 256
    """Admitted requests at a time."""
    max_in_flight: int = 1
    """Batches scheduled and not completed: 2 overlaps the engine with the scheduler."""
    max_tokens_per_step: int = 1
    """k: tokens one request may gain in a step; above 1 for speculative decoding."""
    publish: PublishMode = "complete"
    """When computed pages enter the cache: after their step, or as it is scheduled."""
    output_reserve_ratio: float | AdaptiveRatio = 1.0
    """Share of ``max_new_tokens`` reserved at admission; below 1 requests may be retracted."""
    steps: StepMode = "mixed"
    """Decodes and prefill in one step, or decodes only when there is nothing to prefill."""
    decodes_in_budget: bool = False
    """Whether the tokens of decodes come out of ``chunk_tokens``."""
    retract: RetractOrder = "least-lost"
    """Which running request gives its pages back first, when memory runs out."""
    publish_retracted: bool = True
    """Whether the output computed so far stays in the cache at a retraction."""
    preempt_priority_gap: int | None = None
    """How much lower the priority of a running request must be for a waiting one to take its
    place; None: nobody is preempted for priority. Needs a priority order."""
    lookahead: int | None = None
    """Candidates that do not fit and may be skipped; None: what the policy says; 0: it blocks."""
    hold: HoldMode | None = None
    """What to do with a request whose next page is being computed; None: what the policy says."""
    guard_base_tokens: float | None = None
    """B0 of the overtake guard, ``inf`` for no bound; None: 4 chunks if the policy has a guard."""
    guard_kappa: float | None = None
    """Share of the backlog at arrival on top; None: 0.5 if the policy has a guard, else 0."""
    prefill_tokens_per_s: float | None = None
    """Prefill rate of the engine, by which a request's bound is also told in seconds; None: it
    is told in tokens alone. Decides nothing."""
    waiting_aware: bool | None = None
    """Whether eviction spares what waiting requests need; None: what the policy says."""
    max_waiting: int | None = None
    """Requests that may wait; a retracted one always may."""
    window_requests: int = 1000
    """Finished requests in the sliding window of ``report()``."""

    def __post_init__(self) -> None:
        for name, most in (
            ("page_size", MOST_TOKENS),
            ("chunk_tokens", MOST_TOKENS),
            ("max_running", MOST_RUNNING),
            ("max_in_flight", None),
            ("max_tokens_per_step", MOST_STEP_TOKENS),
            ("window_requests", MOST_TOKENS),
        ):
            _check_int(name, getattr(self, name), 1, most)
        for name, least in (("lookahead", 0), ("max_waiting", 0), ("preempt_priority_gap", 1)):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), least)
        if not isinstance(self.output_reserve_ratio, AdaptiveRatio):
            _check_share("output_reserve_ratio", self.output_reserve_ratio)
        for name, known in (
            ("publish", get_args(PublishMode)),
            ("hold", (*get_args(HoldMode), None)),
            ("steps", get_args(StepMode)),
            ("retract", get_args(RetractOrder)),
            ("decodes_in_budget", (True, False)),
            ("publish_retracted", (True, False)),
            ("waiting_aware", (True, False, None)),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(f"{name} is {value!r}: use {', '.join(map(repr, known))}")
        _check_bound(self.guard_base_tokens)
        _check_kappa(self.guard_kappa)
        _check_rate(self.prefill_tokens_per_s)
        if self.hold == "share" and self.publish != "schedule":
            raise ConfigError(
                "hold 'share' needs pages that are published as they are scheduled: "
                "set publish='schedule', or use hold 'stop' or 'skip'"
            )
        least = self.max_running * self.max_tokens_per_step
        if self.decodes_in_budget and self.chunk_tokens < least:
            raise ConfigError(
                f"chunk_tokens is {self.chunk_tokens}: with decodes_in_budget give at least "
                f"max_running * max_tokens_per_step = {least}"
            )


def _check_int(name: str, value: object, least: int, most: int | None = None) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} is {value!r}: give an int of at least {least}")
    if most is not None and value > most:
        raise ConfigError(f"{name} is {value}: give an int of at most {most}")


def _check_share(name: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= cast(float, value) <= 1):
        raise ConfigError(f"{name} is {value!r}: give a number from 0 to 1")


def _check_bound(value: object) -> None:
    if value is None or value == inf:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (
        number and 0 <= cast(float, value) <= MOST_BOUND_TOKENS and value == int(cast(float, value))
    ):
        raise ConfigError(
            f"guard_base_tokens is {value!r}: give a whole number of tokens from 0 to "
            f"{MOST_BOUND_TOKENS}, inf, or None"
        )


def _check_kappa(value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= cast(float, value) <= MOST_KAPPA):
        raise ConfigError(
            f"guard_kappa is {value!r}: give a number from 0 to {MOST_KAPPA}, or None"
        )


def _check_rate(value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0 < cast(float, value) < inf):
        raise ConfigError(
            f"prefill_tokens_per_s is {value!r}: give a finite number above 0, or None"
        )
