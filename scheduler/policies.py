"""Orders of the waiting requests: sort keys that know neither the queue nor the cache."""

from __future__ import annotations

from typing import TypeAlias

from radixcache.errors import ConfigError
from scheduler.config import HoldMode
from scheduler.request import RequestState

__all__ = [
    "FCFS",
    "LPM",
    "SCHEDULE_POLICIES",
    "SPF",
    "PriorityFirst",
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

    name: str
    default_hold: HoldMode = "off"
    """What to do with a request whose next page is being computed."""
    default_lookahead: int = 64
    """Candidates that do not fit and may be skipped."""
    has_classes: bool = False
    """Whether requests of a smaller ``priority_class`` always come first."""

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


class PriorityFirst(SchedulePolicy):
    """Priority before all else, then another order; ``priority+lpm`` or ``low-priority+lpm``.

    Larger priorities go first, with ``low_first`` smaller ones. Exact where the other order
    is: at one matched length both keys start with the same class.

    Ref: SGLang ``schedule_policy.py`` (priority scheduling, either sign), vLLM v1
    ``request_queue.py`` (PriorityRequestQueue, smaller first).
    """

    has_classes = True

    def __init__(self, order: SchedulePolicy, *, low_first: bool = False) -> None:
        if isinstance(order, SGLangLPM | PriorityFirst):
            raise ConfigError(
                f"priority cannot go before {order.name!r}: use one of {', '.join(_COMPOSABLE)}"
            )
        self.name = f"{'low-' if low_first else ''}priority+{order.name}"
        self.default_hold = order.default_hold
        self.default_lookahead = order.default_lookahead
        self._order = order
        self._sign = 1 if low_first else -1

    def priority_class(self, state: RequestState) -> int:
        """Return the priority, negated unless small ones go first."""
        return self._sign * state.request.priority

    def within(self, state: RequestState) -> SortKey:
        """Return (class, the other order's key)."""
        return (self.priority_class(state), *self._order.within(state))

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (class, the other order's key)."""
        return (within_key[0], *self._order.across(matched_tokens, within_key[1:]))


SCHEDULE_POLICIES: dict[str, type[SchedulePolicy]] = {
    policy.name: policy for policy in (FCFS, LPM, SPF, SGLangLPM)
}


_COMPOSABLE = tuple(sorted(set(SCHEDULE_POLICIES) - {SGLangLPM.name}))


def make_schedule_policy(name: str) -> SchedulePolicy:
    """Return a new policy by its name; ``priority+`` or ``low-priority+`` may stand before one.

    Raises:
        ConfigError: no policy has this name, or priority cannot go before it.

    """
    sign, plus, order = name.partition("+")
    if plus and sign in {"priority", "low-priority"}:
        return PriorityFirst(make_schedule_policy(order), low_first=sign == "low-priority")
    policy = SCHEDULE_POLICIES.get(name)
    if policy is None:
        raise ConfigError(
            f"policy is {name!r}: use one of {', '.join(sorted(SCHEDULE_POLICIES))}, or "
            "priority+ORDER or low-priority+ORDER"
        )
    return policy()
