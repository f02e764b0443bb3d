"""What happened to requests in one call: small records, in the order it happened."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from scheduler.request import RequestState

__all__ = ["Admitted", "Event", "Finished", "FirstToken", "Retracted"]


class Admitted(NamedTuple):
    """A request left the queue and got its pages."""

    state: RequestState
    cached_tokens: int
    """Tokens found in the cache: a hit the first time, resumed work later."""
    resumed: bool
    """Whether it had been admitted before, and retracted."""
    forced: bool
    """Whether the overtake guard took it instead of the best candidate."""


class FirstToken(NamedTuple):
    """A request got its first output token."""

    state: RequestState


class Finished(NamedTuple):
    """A request reached its end; it is told once for each request."""

    state: RequestState
    reason: str


class Retracted(NamedTuple):
    """A running request gave its pages back and waits again."""

    state: RequestState
    lost_tokens: int
    """Computed tokens that were not published, so must be computed once more."""


Event: TypeAlias = Admitted | FirstToken | Finished | Retracted
