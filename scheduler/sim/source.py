"""Where a simulated engine's requests come from: a list with times, or sessions that answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from radixcache.errors import ConfigError
from scheduler.request import Request, RequestState

__all__ = ["OpenLoop", "RequestSource"]


class RequestSource(Protocol):
    """Requests in order of arrival; a source may make new ones as earlier ones finish."""

    def next_arrival_s(self) -> float | None:
        """Return the time of the next request known so far, or None."""
        ...

    def pop(self) -> Request:
        """Return the request that arrives next."""
        ...

    def first_token(self, state: RequestState, now: float) -> None:
        """Learn that the prompt of a request is computed and its answer has begun."""
        ...

    def finished(self, state: RequestState, now: float) -> None:
        """Learn that a request ended."""
        ...

    def rejected(self, request: Request, now: float) -> None:
        """Learn that a request was refused as it arrived."""
        ...

    @property
    def expected_requests(self) -> int:
        """Requests in all, for a progress bar."""
        ...


class OpenLoop:
    """Requests that arrive at their recorded times, whatever the engine does.

    Raises: ConfigError where times go back.
    """

    __slots__ = ("_next", "_requests")

    def __init__(self, requests: Sequence[Request]) -> None:
        for earlier, later in pairwise(requests):
            if later.arrival_s < earlier.arrival_s:
                raise ConfigError(
                    f"request {later.rid!r} arrives at {later.arrival_s} s, before "
                    f"{earlier.rid!r} at {earlier.arrival_s} s: sort them by arrival_s"
                )
        self._requests = requests
        self._next = 0

    def next_arrival_s(self) -> float | None:
        """Return the time of the next request, None after the last."""
        if self._next == len(self._requests):
            return None
        return self._requests[self._next].arrival_s

    def pop(self) -> Request:
        """Return the next request."""
        self._next += 1
        return self._requests[self._next - 1]

    def first_token(self, state: RequestState, now: float) -> None:
        """Do nothing: nobody waits for an answer."""

    def finished(self, state: RequestState, now: float) -> None:
        """Do nothing: nobody waits for an answer."""

    def rejected(self, request: Request, now: float) -> None:
        """Do nothing: nobody waits for an answer."""

    @property
    def expected_requests(self) -> int:
        """Requests in all."""
        return len(self._requests)
