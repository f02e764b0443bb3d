"""WaitingQueue: the seam between the scheduler and the order of the waiting requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from scheduler.request import RequestState

__all__ = ["Candidate", "WaitingQueue"]


class Candidate(NamedTuple):
    """A waiting request as the queue sees it now."""

    state: RequestState
    matched_tokens: int
    """Its longest cached prefix, at most its cap."""
    held: bool
    """Whether the page right after that prefix is being computed by an admitted request."""


class WaitingQueue(Protocol):
    """The waiting requests in the order of a policy.

    It reads the cache only through ``peek`` and as an observer. ``admit`` makes the path of
    a request *pending* up to its last full page; ``published`` and ``given_up`` end that.
    """

    def begin_pass(self, now: float) -> None:
        """Start a scheduling step; only orders that are made once a step use it."""
        ...

    def prefilled(self, tokens: int) -> None:
        """Learn that the step that was just planned computes so many prompt tokens."""
        ...

    def add(self, state: RequestState) -> None:
        """Take in an arrival, or a request that was retracted."""
        ...

    def remove(self, state: RequestState) -> None:
        """Forget a waiting request that was aborted."""
        ...

    def candidates(self) -> Iterator[Candidate]:
        """Yield the waiting requests, best first, as of now.

        The caller stops at the one it admits and asks again.
        """
        ...

    def look(self, state: RequestState) -> Candidate:
        """Return one waiting request as the queue sees it now."""
        ...

    @property
    def changes(self) -> int | None:
        """A number that is another one when ``candidates`` may yield anything else.

        Each ``add``, ``remove`` and ``admit`` changes it. None: it is not counted.
        """
        ...

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        """Let a request go; the rest of its path is pending."""
        ...

    def published(self, state: RequestState, tokens: int) -> None:
        """Learn that the path of an admitted request is computed up to ``tokens``."""
        ...

    def given_up(self, state: RequestState) -> None:
        """Learn that what is still pending of an admitted request never comes."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, state: object) -> bool: ...

    @property
    def backlog_tokens(self) -> int:
        """Uncached tokens of all waiting requests."""
        ...

    @property
    def matched_tokens(self) -> int:
        """Cached tokens of all waiting requests."""
        ...

    @property
    def pending_optimal_tokens(self) -> int:
        """Tokens of the distinct uncached pages that waiting requests need."""
        ...

    def check(self) -> None:
        """Verify every invariant.

        Raises:
            IntegrityError: one is broken.

        """
        ...
