"""Orders of the waiting requests: sort keys that know neither the queue nor the cache."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from radixcache.errors import ConfigError
from scheduler.config import HoldMode
from scheduler.request import RequestState

__all__ = [
    "FCFS",
    "LPM",
    "SCHEDULE_POLICIES",
    "SPF",
    "SGLangLPM",
    "SchedulePolicy",
    "SortKey",
    "make_schedule_policy",
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

    Ref: SGLang, arXiv 2312.07104, section 3; the short ties reach the DFS optimum.
    """

    name = "lpm"
    default_hold = "stop"

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
    default_lookahead = 0

    def within(self, state: RequestState) -> SortKey:
        """Return the arrival."""
        return (state.arrival_seq,)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (minus matched, arrival)."""
        return (-matched_tokens, *within_key)


SCHEDULE_POLICIES: dict[str, type[SchedulePolicy]] = {
    policy.name: policy for policy in (FCFS, LPM, SPF, SGLangLPM)
}


def make_schedule_policy(name: str) -> SchedulePolicy:
    """Return a new policy by its name.

    Raises:
        ConfigError: no policy has this name.

    """
    policy = SCHEDULE_POLICIES.get(name)
    if policy is None:
        raise ConfigError(f"policy is {name!r}: use one of {', '.join(sorted(SCHEDULE_POLICIES))}")
    return policy()
