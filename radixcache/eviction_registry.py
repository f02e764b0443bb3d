"""The built-in eviction policies by name."""

from __future__ import annotations

from radixcache.errors import ConfigError
from radixcache.eviction import (
    FIFO,
    FILO,
    LFU,
    LRU,
    MRU,
    SLRU,
    EvictionPolicy,
    Priority,
    Random,
)
from radixcache.eviction_adaptive import ARC, TLRU
from radixcache.gittins import GhostGittins

__all__ = ["EVICTION_POLICIES", "make_policy"]

EVICTION_POLICIES: dict[str, type[EvictionPolicy]] = {
    policy.name: policy
    for policy in (LRU, LFU, FIFO, FILO, MRU, SLRU, Priority, Random, TLRU, ARC, GhostGittins)
}
"""The built-in policies by name; each can be made without arguments."""


def make_policy(policy: str | type[EvictionPolicy] | EvictionPolicy) -> EvictionPolicy:
    """Return the policy of a name, an instance of a class, or the instance given.

    Raises:
        ConfigError: the name is unknown, or it is no policy.

    """
    if isinstance(policy, str):
        if policy not in EVICTION_POLICIES:
            known = ", ".join(sorted(EVICTION_POLICIES))
            raise ConfigError(f"unknown eviction policy {policy!r}: use one of {known}")
        return EVICTION_POLICIES[policy]()
    if isinstance(policy, type):
        policy = policy()
    if not callable(getattr(policy, "rank", None)):
        raise ConfigError(f"{policy!r} is no eviction policy: give it rank(node)")
    return policy
