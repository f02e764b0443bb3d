"""Orders of the waiting requests: sort keys that know neither the queue nor the cache."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from scheduler.config import HoldMode
from scheduler.request import RequestState

__all__ = [
    "FCFS",
    "LPM",
    "SPF",
    "SGLangLPM",
    "SchedulePolicy",
    "SortKey",
]

SortKey: TypeAlias = tuple[float, ...]


class SchedulePolicy:
    """An order: ``across(matched, within(state))``, smallest first.

    ``within`` orders requests of the same matched length and ends in the arrival number;
    ``across`` must agree with it there.
    """

    name: ClassVar[str]
    default_hold: ClassVar[HoldMode] = "off"
    """What to do with a request whose next page is being computed."""
    default_lookahead: ClassVar[int] = 64
    """Candidates that do not fit and may be skipped."""
    default_guard: ClassVar[bool] = False
    """Whether overtaking is bounded."""
    default_waiting_aware: ClassVar[bool] = False
    """Whether eviction spares what waiting requests need."""
    has_classes: ClassVar[bool] = False
    """Whether requests of a smaller ``priority_class`` always come first."""
    static_keys: ClassVar[bool] = True
    """False: a queue of its own serves it, so it cannot be wrapped in another order."""

    def priority_class(self, state: RequestState) -> int:
        """Return the class of a request; the smaller goes first."""
        return 0

    def within(self, state: RequestState) -> SortKey:
        """Return the key among requests with the same matched length."""
        raise NotImplementedError

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return the key among all, of a request that matches ``matched_tokens``."""
        raise NotImplementedError


class FCFS(SchedulePolicy):
    """First come, first served: nobody is overtaken."""

    name = "fcfs"
    default_lookahead = 0

    def within(self, state: RequestState) -> SortKey:
        """Return the arrival."""
        return (state.arrival_seq,)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return the arrival."""
        return within_key


class LPM(SchedulePolicy):
    """Longest cached prefix first, ties by fewest uncached tokens.

    The default: with hold, overtake guard and waiting-aware eviction.

    Ref: SGLang, arXiv 2312.07104, section 3; the short ties reach the DFS optimum.
    """

    name = "lpm"
    default_hold: ClassVar[HoldMode] = "stop"
    default_guard = True
    default_waiting_aware = True

    def within(self, state: RequestState) -> SortKey:
        """Return (tokens to prefill, arrival)."""
        return (state.prefill_tokens, state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (minus matched, uncached, arrival)."""
        return (-matched_tokens, within_key[0] - matched_tokens, within_key[1])


class SPF(SchedulePolicy):
    """Shortest prefill first: fewest uncached tokens.

    Ref: SGLang ``schedule_policy.py``, shortest-prefill-first.
    """

    name = "spf"

    def within(self, state: RequestState) -> SortKey:
        """Return (tokens to prefill, arrival)."""
        return (state.prefill_tokens, state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (uncached, arrival)."""
        return (within_key[0] - matched_tokens, within_key[1])


class SGLangLPM(SchedulePolicy):
    """The baseline as SGLang ships it: its order is made once a step by ``SGLangQueue``.

    Ref: SGLang 0.5.23 ``schedule_policy.py``.
    """

    name = "sglang-lpm"
    static_keys = False
    default_lookahead = 0

    def within(self, state: RequestState) -> SortKey:
        """Return the arrival."""
        return (state.arrival_seq,)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (minus matched, arrival)."""
        return (-matched_tokens, *within_key)
