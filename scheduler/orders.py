"""More orders with static keys, each served exactly by the waiting tree."""

from __future__ import annotations

from typing import ClassVar

from radixcache.errors import ConfigError
from scheduler.config import HoldMode
from scheduler.policies import FCFS, LPM, SchedulePolicy, SortKey
from scheduler.request import RequestState

__all__ = [
    "DLPM",
    "HRRN",
    "KLPM",
    "LOF",
    "AgedTiesLPM",
    "CoveredFirstLPM",
    "DFSWeight",
    "LPMAging",
    "PlainLPM",
    "Prioritized",
    "RandomOrder",
    "ThroughputLPM",
]

_WORD = 2**64 - 1


class PlainLPM(SchedulePolicy):
    """Longest cached prefix first, ties by arrival, and nothing else: no hold, guard or sparing.

    What SGLang means by ``lpm``, exact at every queue length; it starves cold requests.

    Ref: arXiv 2312.07104, section 3.
    """

    name = "plain-lpm"

    def within(self, state: RequestState) -> SortKey:
        """Return the arrival."""
        return (state.arrival_seq,)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (minus matched, arrival)."""
        return (-matched_tokens, *within_key)


class ThroughputLPM(PlainLPM):
    """The default LPM with ties by arrival instead of fewest uncached: for throughput.

    Ref: README, Orders.
    """

    name = "lpm-fcfs-ties"
    default_hold: ClassVar[HoldMode] = "stop"
    default_guard = True
    default_waiting_aware = True


class AgedTiesLPM(LPM):
    """The default LPM, but ties age: a wait of N prefill tokens counts as N/4 uncached tokens less.

    Short prompts still go first among those that match equally much, but a long one is no
    longer overtaken by each shorter one until the guard ends it. Prompts that arrive at one
    time are ordered as by ``lpm``, so the DFS optimum is reached as there.

    The order of uncached - waited / 4 is that of uncached + (prefill tokens before the
    arrival) / 4, which does not change while a request waits; ``AgedTiesQueue`` counts them.

    Ref: README, Orders.
    """

    name = "lpm-aged-ties"
    static_keys = False
    tokens_per_token = 4
    """Prefill tokens waited for that count as one uncached token less."""

    def __init__(self) -> None:
        self.prefilled_tokens = 0
        """Prefill tokens so far; the queue counts them."""

    def within(self, state: RequestState) -> SortKey:
        """Return (4 · tokens to prefill + prefill tokens before the arrival, arrival)."""
        tokens = self.tokens_per_token * state.prefill_tokens + self.prefilled_tokens
        return (tokens, state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (minus matched, 4 · uncached + prefill tokens before the arrival, arrival)."""
        aged = within_key[0] - self.tokens_per_token * matched_tokens
        return (-matched_tokens, aged, within_key[1])


class CoveredFirstLPM(SchedulePolicy):
    """LPM, but prompts whose whole usable prefix is cached go before all others.

    Reaches the DFS optimum with cached outputs and unbounded memory.

    Ref: README, How it works: the optimum.
    """

    name = "lpm-covered-first"
    default_hold = "stop"
    default_guard = True
    default_waiting_aware = True

    def within(self, state: RequestState) -> SortKey:
        """Return (usable prefix, tokens to prefill, arrival)."""
        return (state.cap_tokens, state.prefill_tokens, state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (not covered, minus matched, usable prefix, uncached, arrival)."""
        cap, prefill, arrival = within_key
        return (cap > matched_tokens, -matched_tokens, cap, prefill - matched_tokens, arrival)


class LOF(SchedulePolicy):
    """Longest output first, by ``max_new_tokens``.

    Ref: SGLang ``schedule_policy.py``, ``_sort_by_longest_output``.
    """

    name = "lof"

    def within(self, state: RequestState) -> SortKey:
        """Return (minus output limit, arrival)."""
        return (-state.request.max_new_tokens, state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (minus output limit, arrival)."""
        return within_key


class RandomOrder(SchedulePolicy):
    """A random order that depends on seed and arrival only; the same in every process.

    Ref: SGLang ``schedule_policy.py``, ``_sort_randomly``; SplitMix64 (Steele et al., 2014).
    """

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def within(self, state: RequestState) -> SortKey:
        """Return (a number drawn for this arrival, arrival)."""
        z = (self._seed + (state.arrival_seq + 1) * 0x9E3779B97F4A7C15) & _WORD
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _WORD
        return (z ^ (z >> 31), state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return the same."""
        return within_key


class LPMAging(SchedulePolicy):
    """LPM with linear ageing: each pass waited counts as N tokens of prefix.

    The order of -(matched + N · passes waited) is that of N · pass of arrival - matched,
    which does not change while a request waits.

    Ref: SGLang PR 31723.
    """

    name = "lpm-aging"
    static_keys = False

    def __init__(self, tokens_per_pass: int = 64) -> None:
        self._tokens = tokens_per_pass
        self.passes = 0
        """Passes so far; the queue counts them."""

    def within(self, state: RequestState) -> SortKey:
        """Return (N · pass of arrival, arrival)."""
        return (self._tokens * self.passes, state.arrival_seq)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (N · pass of arrival - matched, arrival)."""
        return (within_key[0] - matched_tokens, within_key[1])


class Prioritized(SchedulePolicy):
    """Highest ``Request.priority`` first, then another order; ``low_first``: lowest first.

    Who runs already is preempted only with ``SchedulerConfig.preempt_priority_gap``. A guard
    needs the same classes: ``class_of=policy.priority_class``.

    Ref: SGLang ``schedule_policy.py`` (either sign), vLLM v1 ``request_queue.py`` (lowest first).
    """

    name = "priority"
    has_classes = True

    def __init__(self, order: SchedulePolicy | None = None, *, low_first: bool = False) -> None:
        self._sign = 1 if low_first else -1
        self._order = order = FCFS() if order is None else order
        if not order.static_keys:
            raise ConfigError(
                f"priority cannot go before {order.name!r}, which has no static key: use an "
                "order such as lpm, spf or fcfs"
            )
        # What the other order asks for goes for both.
        self.default_hold = order.default_hold  # type: ignore[misc]
        self.default_lookahead = order.default_lookahead  # type: ignore[misc]
        self.default_guard = order.default_guard  # type: ignore[misc]
        self.default_waiting_aware = order.default_waiting_aware  # type: ignore[misc]

    def priority_class(self, state: RequestState) -> int:
        """Return minus priority; with ``low_first`` the priority."""
        return self._sign * state.request.priority

    def within(self, state: RequestState) -> SortKey:
        """Return (class, the other order's)."""
        return (self.priority_class(state), *self._order.within(state))

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        """Return (class, the other order's)."""
        return (within_key[0], *self._order.across(matched_tokens, within_key[1:]))


class KLPM(PlainLPM):
    """Every k-th pick is the oldest request, the others are LPM's; see ``KLPMQueue``.

    Ref: arXiv 2502.04677.
    """

    name = "k-lpm"
    static_keys = False

    def __init__(self, k: int = 8) -> None:
        self.k = k


class HRRN(FCFS):
    """Highest response ratio next; ``HRRNQueue`` scans, as the ratio is no sum of keys.

    Ref: SGLang PR 32911.
    """

    name = "hrrn"
    static_keys = False
    default_lookahead = 64


class DFSWeight(FCFS):
    """Depth first through the cached tree, the heavier child first; see ``DFSWeightQueue``.

    Ref: SGLang ``base_prefix_cache.py``, ``_dfs_weight_order``.
    """

    name = "dfs-weight"
    static_keys = False


class DLPM(PlainLPM):
    """Deficit LPM: LPM among clients that have not used up their share; see ``DLPMQueue``.

    Ref: arXiv 2501.14312.
    """

    name = "dlpm"
    static_keys = False

    def __init__(
        self, *, quantum: int = 8192, prefill_weight: int = 1, decode_weight: int = 2
    ) -> None:
        self.quantum = quantum
        self.prefill_weight = prefill_weight
        self.decode_weight = decode_weight
