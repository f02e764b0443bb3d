"""The queue that serves a policy."""

from __future__ import annotations

from radixcache import PrefixCache
from scheduler.policies import SchedulePolicy, SGLangLPM
from scheduler.sglang_queue import SGLangQueue
from scheduler.waiting_queue import WaitingQueue
from scheduler.waiting_tree import WaitingTree

__all__ = ["make_queue"]


def make_queue(policy: SchedulePolicy, cache: PrefixCache) -> WaitingQueue:
    """Return a new queue in the order of ``policy``, over ``cache``."""
    if isinstance(policy, SGLangLPM):
        return SGLangQueue(cache)
    return WaitingTree(cache, policy)
