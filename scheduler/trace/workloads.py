"""Seeded synthetic workloads; the same seed gives the same requests in every process.

Each is an iterable of Request, like a trace, and can be written with ``write_trace``. The
draws are those of numpy's default generator: another numpy may draw others.
Ref: the kinds of traffic are those RadixAttention was measured on, arXiv 2312.07104.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from radixcache import KeyKind, PrefixKey
from radixcache.errors import ConfigError
from scheduler.request import Request
from scheduler.trace.sessions import OPEN_LOOP, SessionPlan, Turn, open_loop

__all__ = ["VOCABULARY", "Workload", "chat", "few_shot", "random_tokens", "unique"]

VOCABULARY = 32_000
MIN_OUTPUT, MAX_OUTPUT = 64, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One synthetic trace: iterate it to make its requests anew, in arrival order."""

    name: str
    title: str
    assumptions: tuple[str, ...]
    make: Callable[[], Iterator[Request]]
    plan: Callable[[], Iterator[SessionPlan]] | None = None
    """The same traffic as sessions in order of their starts; None where there are none."""
    kind: KeyKind = KeyKind.TOKENS
    page_size: None = None

    def __iter__(self) -> Iterator[Request]:
        return self.make()


def random_tokens(rng: np.random.Generator, length: int) -> bytes:
    """Draw token ids, packed."""
    return rng.integers(0, VOCABULARY, length, dtype=np.uint32).astype("<u4").tobytes()


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
    """
    _check(
        seed, requests=requests, systems=systems, example_sets=example_sets, rate_per_s=rate_per_s
    )

    def make() -> Iterator[Request]:
        rng = np.random.default_rng(seed)
        system_prompts = [random_tokens(rng, 600) for _ in range(systems)]
        shared = [
            system + random_tokens(rng, 2500)
            for system in system_prompts
            for _ in range(example_sets)
        ]
        rng.shuffle(shared)
        weights = np.arange(1, len(shared) + 1, dtype=np.float64) ** -zipf
        chosen = rng.choice(len(shared), size=requests, p=weights / weights.sum())
        times_s = np.cumsum(rng.exponential(1 / rate_per_s, requests))
        questions = rng.integers(64, 513, requests)
        outputs = rng.integers(MIN_OUTPUT, MAX_OUTPUT + 1, requests)
        for index in range(requests):
            data = shared[chosen[index]] + random_tokens(rng, int(questions[index]))
            yield _single(f"few-shot {index}", data, float(times_s[index]), int(outputs[index]))

    return Workload(
        name="few-shot",
        title=f"{requests} few-shot prompts on {systems} x {example_sets} shared prefixes",
        assumptions=(_poisson(rate_per_s), "answers are never part of a later prompt"),
        make=make,
    )


def unique(seed: int, *, requests: int = 2000, rate_per_s: float = 1.0) -> Workload:
    """Make prompts of 256-4,096 tokens that share nothing: the first token is unique."""
    _check(seed, requests=requests, rate_per_s=rate_per_s)

    def make() -> Iterator[Request]:
        rng = np.random.default_rng(seed)
        times_s = np.cumsum(rng.exponential(1 / rate_per_s, requests))
        prompts = rng.integers(256, 4097, requests)
        outputs = rng.integers(MIN_OUTPUT, MAX_OUTPUT + 1, requests)
        for index in range(requests):
            first = (VOCABULARY + index).to_bytes(4, "little")
            data = first + random_tokens(rng, int(prompts[index]) - 1)
            yield _single(f"unique {index}", data, float(times_s[index]), int(outputs[index]))

    return Workload(
        name="unique",
        title=f"{requests} prompts that share nothing",
        assumptions=(_poisson(rate_per_s),),
        make=make,
    )


def chat(
    seed: int,
    *,
    sessions: int = 1500,
    mean_turns: float = 6.0,
    think_s: float = 30.0,
    rate_per_s: float = 1.0,
) -> Workload:
    """Make chats: one of 8 system prompts, then questions on top of the whole history.

    1 + Poisson(mean_turns - 1) turns; questions of 16-400 tokens, answers of 64-512 that
    are part of the next prompt; think times are exponential. Sessions start as a Poisson
    process of ``rate_per_s / mean_turns``.
    """
    _check(seed, sessions=sessions, rate_per_s=rate_per_s)
    if not 1 <= mean_turns < 1e6:
        raise ConfigError(f"mean_turns must be from 1 to a million, not {mean_turns}")
    if not 0 <= think_s < float("inf"):
        raise ConfigError(f"think_s must be finite and not negative, not {think_s}")

    def plan() -> Iterator[SessionPlan]:
        rng = np.random.default_rng(seed)
        system_prompts = [random_tokens(rng, int(rng.integers(150, 1200))) for _ in range(8)]
        start_s = 0.0
        for index in range(sessions):
            start_s += float(rng.exponential(mean_turns / rate_per_s))
            history = system_prompts[int(rng.integers(len(system_prompts)))]
            turns = []
            for number in range(1 + int(rng.poisson(mean_turns - 1))):
                question = random_tokens(rng, int(rng.integers(16, 401)))
                turns.append(
                    Turn(
                        added=question if number else history + question,
                        output=random_tokens(rng, int(rng.integers(MIN_OUTPUT, MAX_OUTPUT + 1))),
                        think_s=float(rng.exponential(think_s)) if number else 0.0,
                        max_new_tokens=MAX_OUTPUT,
                    )
                )
            yield SessionPlan(session_id=f"chat {index}", start_s=start_s, turns=tuple(turns))

    return Workload(
        name="chat",
        title=f"{sessions} chats of about {mean_turns:g} turns",
        assumptions=(
            f"chats start as a Poisson process, {mean_turns / rate_per_s:g} s apart",
            f"think times are exponential with mean {think_s:g} s",
            OPEN_LOOP,
        ),
        make=lambda: open_loop(plan()),
        plan=plan,
    )


def _single(rid: str, data: bytes, arrival_s: float, output_tokens: int) -> Request:
    """Make a request that belongs to no session."""
    key = PrefixKey.from_packed(data, KeyKind.TOKENS)
    return Request(
        rid=rid,
        key=key,
        prompt_tokens=len(key),
        max_new_tokens=MAX_OUTPUT,
        arrival_s=arrival_s,
        recorded_output_tokens=output_tokens,
    )


def _poisson(rate_per_s: float) -> str:
    """Say how requests arrive."""
    return f"arrivals are a Poisson process of {rate_per_s:g} requests/s"


def _check(seed: int, *, rate_per_s: float, **counts: int) -> None:
    """Raise ConfigError for a seed, size or rate that makes no workload."""
    if type(seed) is not int or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, not {seed!r}")
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {count!r}")
    if not 0 < rate_per_s < float("inf"):
        raise ConfigError(f"rate_per_s must be positive and finite, not {rate_per_s}")
