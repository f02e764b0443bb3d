"""The orders by name, built in and plugged in; and a check for names of eviction policies."""

from __future__ import annotations

from importlib.metadata import entry_points

from radixcache import EVICTION_POLICIES
from radixcache.errors import ConfigError
from scheduler.orders import (
    DLPM,
    HRRN,
    KLPM,
    LOF,
    AgedTiesLPM,
    CoveredFirstLPM,
    DFSWeight,
    LPMAging,
    PlainLPM,
    Prioritized,
    RandomOrder,
    ThroughputLPM,
)
from scheduler.policies import FCFS, LPM, SPF, SchedulePolicy, SGLangLPM

__all__ = ["ENTRY_POINT_GROUP", "SCHEDULE_POLICIES", "check_eviction", "make_schedule_policy"]

ENTRY_POINT_GROUP = "radixcache.schedule_policies"
"""Other distributions announce their orders here: name = "module:Class"."""
LOW_FIRST = "low-priority"
"""What stands before the + where small priorities go first."""

SCHEDULE_POLICIES: dict[str, type[SchedulePolicy]] = {
    policy.name: policy
    for policy in (
        FCFS,
        SPF,
        SGLangLPM,
        LPM,
        ThroughputLPM,
        AgedTiesLPM,
        CoveredFirstLPM,
        PlainLPM,
        LPMAging,
        KLPM,
        DLPM,
        HRRN,
        DFSWeight,
        LOF,
        RandomOrder,
        Prioritized,
    )
}


def make_schedule_policy(name: str) -> SchedulePolicy:
    """Return a new policy by its name.

    ``priority+NAME`` puts the priority of a request before the order NAME, the larger first;
    ``low-priority+NAME`` the smaller first. A name that is
    not built in is looked for among the installed entry points of ``ENTRY_POINT_GROUP``.

    Raises:
        ConfigError: no policy has this name, or what is plugged in under it is no policy.

    """
    policy = SCHEDULE_POLICIES.get(name)
    if policy is not None:
        return policy()
    first, plus, rest = name.partition("+")
    if plus and first in {Prioritized.name, LOW_FIRST}:
        return Prioritized(make_schedule_policy(rest), low_first=first == LOW_FIRST)
    plugged = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.value)
    for entry in plugged:
        if entry.name == name:
            made = entry.load()()
            if not isinstance(made, SchedulePolicy):
                raise ConfigError(
                    f"policy {name!r} is plugged in as {entry.value}, which makes a "
                    f"{type(made).__name__}: give a SchedulePolicy class"
                )
            return made
    known = ", ".join(sorted([*SCHEDULE_POLICIES, *(entry.name for entry in plugged)]))
    raise ConfigError(
        f"policy is {name!r}: use one of {known}, or priority+NAME or low-priority+NAME"
    )


def check_eviction(name: str, *more: str) -> None:
    """Refuse an eviction policy that is neither known nor one of ``more``. Raises: ConfigError."""
    known = [*sorted(EVICTION_POLICIES), *more]
    if name not in known:
        raise ConfigError(f"eviction is {name!r}: use one of {', '.join(known)}")
