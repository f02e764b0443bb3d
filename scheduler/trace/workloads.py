"""The synthetic workloads by name; each takes a seed and can be scaled.

Ref: the kinds of traffic are those RadixAttention was measured on, arXiv 2312.07104.
"""

from __future__ import annotations

from collections.abc import Callable

from radixcache.errors import ConfigError
from scheduler.trace.chat_sessions import agents, chat
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


def make_workload(name: str, *, seed: int, size: int | None = None) -> Workload:
    """Make a workload by name; ``size`` counts its requests, sessions or problems.

    Raises: ConfigError for an unknown name or an impossible size.
    """
    if name not in WORKLOADS:
        raise ConfigError(f"unknown workload {name!r}; known: {', '.join(WORKLOADS)}")
    make, scale = WORKLOADS[name]
    return make(seed) if size is None else make(seed, **{scale: size})
