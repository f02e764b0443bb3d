"""Workloads of requests without sessions: few-shot prompts, and prompts that share nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.request import Request
from scheduler.trace.workload import (
    MAX_OUTPUT,
    VOCABULARY,
    Workload,
    check_sizes,
    counted,
    lone_request,
    output_tokens,
    poisson,
    random_tokens,
)

__all__ = ["few_shot", "unique"]


def few_shot(
    seed: int,
    *,
    requests: int = 4000,
    systems: int = 8,
    example_sets: int = 12,
    zipf: float = 0.6,
    rate_per_s: float = 1.0,
) -> Workload:
    """Make few-shot prompts: a system prompt, one of its example sets, a question.

    600 + 2,500 shared tokens, 64-512 of the question, 64-512 of the answer (not reused).
    The popularity of the pairs falls as rank**-zipf. Arrivals are Poisson.
    Raises: ConfigError.
    """
    counts = {"requests": requests, "systems": systems, "example_sets": example_sets}
    check_sizes(seed, rate_per_s=rate_per_s, think_s=zipf, **counts)

    def make() -> Iterator[Request]:
        rng = np.random.default_rng(seed)
        prompts = [random_tokens(rng, 600) for _ in range(systems)]
        shared = [
            prompt + random_tokens(rng, 2500) for prompt in prompts for _ in range(example_sets)
        ]
        rng.shuffle(shared)
        weights = np.arange(1, len(shared) + 1, dtype=np.float64) ** -zipf
        chosen = rng.choice(len(shared), size=requests, p=weights / weights.sum())
        arrival_s = 0.0
        for index in range(requests):
            arrival_s += float(rng.exponential(1 / rate_per_s))
            question = random_tokens(rng, int(rng.integers(64, 513)))
            data = shared[chosen[index]] + question
            yield lone_request(f"few-shot {index}", data, arrival_s, output_tokens(rng))

    return Workload(
        format="few-shot",
        title=f"{requests} few-shot prompts on {systems} x {example_sets} shared prefixes",
        assumptions=(poisson("requests", 1 / rate_per_s), "answers are in no later prompt"),
        make=lambda summary: counted(make(), summary),
    )


def unique(seed: int, *, requests: int = 2000, rate_per_s: float = 1.0) -> Workload:
    """Make prompts of 256-4,096 tokens that share nothing: the first token is unique.

    Raises: ConfigError.
    """
    check_sizes(seed, rate_per_s=rate_per_s, requests=requests)

    def make() -> Iterator[Request]:
        rng = np.random.default_rng(seed)
        arrival_s = 0.0
        for index in range(requests):
            arrival_s += float(rng.exponential(1 / rate_per_s))
            first = (VOCABULARY + index).to_bytes(4, "little")
            data = first + random_tokens(rng, int(rng.integers(255, 4096)))
            yield lone_request(f"unique {index}", data, arrival_s, output_tokens(rng))

    return Workload(
        format="unique",
        title=f"{requests} prompts that share nothing",
        assumptions=(poisson("requests", 1 / rate_per_s), f"answers are at most {MAX_OUTPUT} long"),
        make=lambda summary: counted(make(), summary),
    )
