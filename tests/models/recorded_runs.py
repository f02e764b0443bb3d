"""Synthetic runs for the report: requests, steps and single-server queues without an engine."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from scheduler.report.recorder import Recorder

__all__ = ["ask", "ended", "queue_run", "step"]


def ask(seq: int, at: float, prompt_tokens: int = 100) -> Any:
    """Return what a request's state looks like at submit."""
    return SimpleNamespace(
        request=SimpleNamespace(prompt_tokens=prompt_tokens),
        arrival_seq=seq,
        submitted_s=at,
        admitted_s=None,
        first_token_s=None,
        finished_s=None,
        finish_reason=None,
        hit_tokens=None,
        recomputed_tokens=0,
        retractions=0,
        output_tokens=0,
        overtaken_tokens=0,
        bound_tokens=None,
        bound_s=None,
    )


def ended(state: Any, first: float, end: float, **more: Any) -> Any:
    """Return the state after its end."""
    values = {"admitted_s": state.submitted_s, "first_token_s": first, "finished_s": end}
    values |= {"hit_tokens": 0, "output_tokens": 1, "finish_reason": "length", **more}
    return SimpleNamespace(**(vars(state) | values))


def step(start: float, duration: float, **more: Any) -> Any:
    """Return a step record, zero where nothing is said."""
    values = dict.fromkeys(
        (
            "prefill_tokens", "decode_tokens", "running", "waiting", "backlog_tokens",
            "free_pages", "evictable_pages", "protected_pages", "evicted_pages", "retracted",
        ),
        0,
    )  # fmt: skip
    return SimpleNamespace(start_s=start, duration_s=duration, **(values | more))


def queue_run(
    arrivals: Sequence[float], size: Callable[[random.Random], int], seed: int
) -> Recorder:
    """Serve one request a step, in order, 1,000 tokens a second."""
    rng = random.Random(f"sizes {seed}")  # independent of arrivals drawn with the same seed
    recorder = Recorder()
    waiting: deque[tuple[Any, int]] = deque()
    backlog, now, coming = 0, 0.0, 0

    def arrive(until: float) -> None:
        nonlocal backlog, coming
        while coming < len(arrivals) and arrivals[coming] <= until:
            tokens = size(rng)
            state = ask(coming, arrivals[coming], tokens)
            recorder.on_submit(state)
            waiting.append((state, tokens))
            backlog += tokens
            coming += 1

    while coming < len(arrivals) or waiting:
        arrive(now)
        if not waiting:
            now = arrivals[coming]
            continue
        state, tokens = waiting.popleft()
        backlog -= tokens
        start, now = now, now + tokens / 1_000
        arrive(start)
        recorder.on_step(
            step(start, now - start, prefill_tokens=tokens, running=1, waiting=len(waiting),
                 backlog_tokens=backlog)
        )  # fmt: skip
        recorder.on_finish(ended(state, now, now))
    return recorder
