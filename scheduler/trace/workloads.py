"""The synthetic workloads by name; each takes a seed and can be scaled.

Ref: the kinds of traffic are those RadixAttention was measured on, arXiv 2312.07104.
"""

from __future__ import annotations

from collections.abc import Callable

from radixcache.errors import ConfigError
from scheduler.trace.chat_sessions import TimestampPlace, agents, chat
from scheduler.trace.sharegpt_shapes import sharegpt_like
from scheduler.trace.single_prompts import few_shot, unique
from scheduler.trace.thought_trees import tree
from scheduler.trace.workload import Workload

__all__ = ["WORKLOADS", "make_workload"]

WORKLOADS: dict[str, tuple[Callable[..., Workload], str]] = {
    "sharegpt-like": (sharegpt_like, "conversations"),
    "few-shot": (few_shot, "requests"),
    "chat": (chat, "sessions"),
    "agents": (agents, "sessions"),
    "tree": (tree, "problems"),
    "unique": (unique, "requests"),
}
"""The maker of each workload, and the option that scales it."""


def make_workload(
    name: str, *, seed: int, size: int | None = None, timestamp: TimestampPlace | None = None
) -> Workload:
    """Make a workload by name; ``size`` counts its requests, sessions or problems.

    ``timestamp`` puts the time before or after the system prompts of ``chat``.
    Raises: ConfigError for an unknown name, an impossible size or a timestamp elsewhere.
    """
    if name not in WORKLOADS:
        raise ConfigError(f"unknown workload {name!r}; known: {', '.join(WORKLOADS)}")
    make, scale = WORKLOADS[name]
    options: dict[str, object] = {} if size is None else {scale: size}
    if timestamp is not None:
        if make is not chat:
            raise ConfigError(
                f"{name} has no system prompt with a timestamp: leave it out, or make chat"
            )
        options["timestamp"] = timestamp
    return make(seed, **options)
