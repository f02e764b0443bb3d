"""SchedulerConfig: every setting of the scheduler, with its unit, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from radixcache.errors import ConfigError

__all__ = ["HoldMode", "PublishMode", "SchedulerConfig"]

HoldMode = Literal["stop", "skip", "share", "off"]
PublishMode = Literal["complete", "schedule"]


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
    output_reserve_ratio: float = 1.0
    """Share of ``max_new_tokens`` reserved at admission; below 1 requests may be retracted."""
    lookahead: int | None = None
    """Candidates that do not fit and may be skipped; None: what the policy says; 0: it blocks."""
    hold: HoldMode | None = None
    """What to do with a request whose next page is being computed; None: what the policy says."""
    max_waiting: int | None = None
    """Requests that may wait; a retracted one always may."""
    window_requests: int = 1000
    """Finished requests in the sliding window of ``report()``."""

    def __post_init__(self) -> None:
        for name in ("page_size", "chunk_tokens", "max_running", "max_in_flight"):
            self._check_int(name, 1)
        self._check_int("max_tokens_per_step", 1)
        self._check_int("window_requests", 1)
        for name in ("lookahead", "max_waiting"):
            if getattr(self, name) is not None:
                self._check_int(name, 0)
        ratio = self.output_reserve_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float):
            raise ConfigError(f"output_reserve_ratio is {ratio!r}: give a number from 0 to 1")
        if not (math.isfinite(ratio) and 0 <= ratio <= 1):
            raise ConfigError(f"output_reserve_ratio is {ratio!r}: give a number from 0 to 1")
        if self.publish not in get_args(PublishMode):
            raise ConfigError(f"publish is {self.publish!r}: use 'complete' or 'schedule'")
        if self.hold is not None and self.hold not in get_args(HoldMode):
            raise ConfigError(f"hold is {self.hold!r}: use 'stop', 'skip', 'share', 'off' or None")
        if self.hold == "share" and self.publish != "schedule":
            raise ConfigError(
                "hold 'share' needs pages that are published as they are scheduled: "
                "set publish='schedule', or use hold 'stop' or 'skip'"
            )

    def _check_int(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if type(value) is not int or value < least:
            raise ConfigError(f"{name} is {value!r}: give an int of at least {least}")
