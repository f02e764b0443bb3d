"""Workloads of sessions: people who chat, and agents who call tools."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import numpy as np

from radixcache import PrefixKey
from radixcache.errors import ConfigError
from scheduler.trace.sessions import OPEN_LOOP, SessionPlan, Turn
from scheduler.trace.summary import TraceSummary
from scheduler.trace.tokenizer import PieceTokenizer
from scheduler.trace.workload import (
    MAX_OUTPUT,
    Workload,
    check_sizes,
    output_tokens,
    poisson,
    random_tokens,
)

__all__ = ["TimestampPlace", "agents", "chat"]

TimestampPlace: TypeAlias = Literal["before", "after"]
"""Where a timestamp stands: before the system prompt, or after it."""
FIRST_MOMENT = datetime(2026, 11, 30, 10)  # no zone: text in a prompt

COLD_SHARE = 0.04
MEAN_STEPS = 40


def chat(
    seed: int,
    *,
    sessions: int = 1500,
    mean_turns: float = 6.0,
    think_s: float = 30.0,
    rate_per_s: float = 1.0,
    timestamp: TimestampPlace | None = None,
) -> Workload:
    """Make chats: one of 8 system prompts, then questions on top of the whole history.

    1 + Poisson(mean_turns - 1) turns; questions of 16-400 tokens, answers of 64-512 that
    are part of the next prompt; think times are exponential. Chats start as a Poisson
    process of ``rate_per_s / mean_turns``. ``timestamp`` writes when a chat started, in the
    tokens of the built-in tokenizer, before or after its system prompt; nothing else differs.
    Raises: ConfigError.
    """
    check_sizes(seed, rate_per_s=rate_per_s, think_s=think_s, sessions=sessions)
    if not 1 <= mean_turns < 1e6:
        raise ConfigError(f"mean_turns must be from 1 to a million, not {mean_turns}")

    def plan(summary: TraceSummary) -> Iterator[SessionPlan]:
        rng = np.random.default_rng(seed)
        prompts = [random_tokens(rng, int(rng.integers(150, 1200))) for _ in range(8)]
        start_s = 0.0
        for index in range(sessions):
            start_s += float(rng.exponential(mean_turns / rate_per_s))
            opening = prompts[int(rng.integers(len(prompts)))]
            if timestamp is not None:
                stamp = _stamp(start_s)
                opening = stamp + opening if timestamp == "before" else opening + stamp
            turns = []
            for number in range(1 + int(rng.poisson(mean_turns - 1))):
                question = random_tokens(rng, int(rng.integers(16, 401)))
                turns.append(
                    Turn(
                        added=question if number else opening + question,
                        output=random_tokens(rng, output_tokens(rng)),
                        think_s=float(rng.exponential(think_s)) if number else 0.0,
                        max_new_tokens=MAX_OUTPUT,
                    )
                )
                summary.took()
            yield SessionPlan(session_id=f"chat {index}", start_s=start_s, turns=tuple(turns))

    stamped = "" if timestamp is None else f", a timestamp {timestamp} the system prompt"
    return Workload(
        format="chat",
        title=f"{sessions} chats of about {mean_turns:g} turns{stamped}",
        assumptions=(
            poisson("chats", mean_turns / rate_per_s),
            f"think times are exponential with mean {think_s:g} s",
            OPEN_LOOP,
        ),
        plan=plan,
    )


def _stamp(start_s: float) -> bytes:
    """Write a time as ``2026-11-30 10:32:07``, packed."""
    moment = FIRST_MOMENT + timedelta(seconds=int(start_s))
    return PrefixKey(PieceTokenizer().encode(moment.strftime("%Y-%m-%d %H:%M:%S"))).data


def agents(
    seed: int, *, sessions: int = 250, think_s: float = 4.0, rate_per_s: float = 1.0
) -> Workload:
    """Make coding agents: about 40 steps each on one growing history, mean prompt 38k tokens.

    One of 4 tool descriptions of 5k tokens, a task of 1-4k, then each step adds an answer of
    64-256 tokens and what its tool returned, 200-2,400; think times (tools) are exponential.
    4 % of all requests are cold one-shot prompts of 10-40k tokens. Raises: ConfigError.
    """
    check_sizes(seed, rate_per_s=rate_per_s, think_s=think_s, sessions=sessions)

    def plan(summary: TraceSummary) -> Iterator[SessionPlan]:
        rng = np.random.default_rng(seed)
        tools = [random_tokens(rng, 5000) for _ in range(4)]
        colds = round(sessions * MEAN_STEPS * COLD_SHARE / (1 - COLD_SHARE))
        gap_s = (sessions * MEAN_STEPS + colds) / rate_per_s / sessions
        agent_starts = np.cumsum(rng.exponential(gap_s, sessions))
        cold_starts = rng.uniform(0, agent_starts[-1], colds)
        starts = [(float(s), f"agent {i}") for i, s in enumerate(agent_starts)]
        starts += [(float(s), f"cold {i}") for i, s in enumerate(np.sort(cold_starts))]
        for start_s, name in sorted(starts):
            if name.startswith("cold"):
                turns = _cold_turns(rng)
            else:
                turns = _agent_turns(rng, tools[int(rng.integers(len(tools)))], think_s)
            for _ in turns:
                summary.took()
            yield SessionPlan(session_id=name, start_s=start_s, turns=turns)

    return Workload(
        format="agents",
        title=f"{sessions} agents of about {MEAN_STEPS} steps and some cold prompts",
        assumptions=(
            "agents start as a Poisson process, cold prompts uniformly among them",
            f"think times are exponential with mean {think_s:g} s",
            OPEN_LOOP,
        ),
        plan=plan,
    )


def _agent_turns(rng: np.random.Generator, tools: bytes, think_s: float) -> tuple[Turn, ...]:
    """Draw the steps of one agent."""
    turns = []
    added = tools + random_tokens(rng, int(rng.integers(1000, 4001)))
    for number in range(int(rng.integers(MEAN_STEPS // 2, MEAN_STEPS * 3 // 2 + 1))):
        turns.append(
            Turn(
                added=added,
                output=random_tokens(rng, int(rng.integers(64, 257))),
                think_s=float(rng.exponential(think_s)) if number else 0.0,
                max_new_tokens=MAX_OUTPUT,
            )
        )
        added = random_tokens(rng, int(rng.integers(200, 2401)))
    return tuple(turns)


def _cold_turns(rng: np.random.Generator) -> tuple[Turn, ...]:
    """Draw a one-shot prompt that shares nothing."""
    turn = Turn(
        added=random_tokens(rng, int(rng.integers(10_000, 40_001))),
        output=random_tokens(rng, output_tokens(rng)),
        think_s=0.0,
        max_new_tokens=MAX_OUTPUT,
    )
    return (turn,)
