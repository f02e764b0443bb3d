"""The queue and the guard that serve a policy under a configuration."""

from __future__ import annotations

from math import inf

from radixcache import PrefixCache, RadixCache
from scheduler.config import SchedulerConfig
from scheduler.order_queues import make_tree
from scheduler.overtake_guard import OvertakeGuard
from scheduler.policies import SchedulePolicy, SGLangLPM
from scheduler.request import RequestState
from scheduler.sglang_queue import SGLangQueue
from scheduler.waiting_queue import WaitingQueue

__all__ = ["guard_bound", "make_guard", "make_queue"]

DEFAULT_KAPPA = 0.5
DEFAULT_BASE_CHUNKS = 4


def make_queue(
    policy: SchedulePolicy, cache: PrefixCache, *, hold: bool, waiting_aware: bool
) -> WaitingQueue:
    """Return a new queue in the order of ``policy``, over ``cache``.

    ``hold``: a request whose next page is being computed is held and ranked by the length it
    will have. ``waiting_aware``: a cache that can spare pages spares what waiting requests
    need; every other cache is left as it is.
    """
    if isinstance(policy, SGLangLPM):
        return SGLangQueue(cache)
    sparing = cache if waiting_aware and isinstance(cache, RadixCache) else None
    tree = make_tree(
        policy, cache, hold=hold, on_unneeded=None if sparing is None else sparing.rank_fell
    )
    if sparing is not None:
        sparing.set_protection(tree.protected_tokens)
    return tree


def guard_bound(
    policy: SchedulePolicy, base_tokens: float | None, kappa: float | None, chunk_tokens: int
) -> tuple[float, float]:
    """Return base and kappa of the guard of a policy; None: what is not said otherwise.

    A policy that asks for a guard gets a bound of 4 chunks + half of the backlog at arrival;
    for any other there is one if a part of it is given, else the base is ``inf``. Ref: README,
    How it works: the guard.
    """
    base = base_tokens
    if base is None:
        wanted = policy.default_guard or kappa is not None
        base = DEFAULT_BASE_CHUNKS * chunk_tokens if wanted else inf
    if kappa is None:
        kappa = DEFAULT_KAPPA if policy.default_guard else 0.0
    return base, kappa


def make_guard(policy: SchedulePolicy, config: SchedulerConfig) -> OvertakeGuard[RequestState]:
    """Return the guard of a configuration; without a bound it only measures."""
    base, kappa = guard_bound(
        policy, config.guard_base_tokens, config.guard_kappa, config.chunk_tokens
    )
    class_of = policy.priority_class if policy.has_classes else None
    return OvertakeGuard(base_tokens=base, kappa=kappa, class_of=class_of)
