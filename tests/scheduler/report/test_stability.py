"""The verdict: queues that grow without end, and those that only look like it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from scheduler.report.recorder import Recorder
from scheduler.report.stability import Verdict, drain_rate, judge_load
from tests.models.recorded_runs import ask, ended, queue_run, step

MEAN_TOKENS = 500
REQUESTS = 6_000


def poisson(rho: float, seed: int, requests: int = REQUESTS) -> list[float]:
    rng = random.Random(seed)
    rate, at, out = rho * 1_000 / MEAN_TOKENS, 0.0, []
    for _ in range(requests):
        at += rng.expovariate(rate)
        out.append(at)
    return out


def exponential(rng: random.Random) -> int:
    return 1 + int(rng.expovariate(1 / MEAN_TOKENS))


def fixed(_: random.Random) -> int:
    return MEAN_TOKENS


SIZES = pytest.mark.parametrize("size", [exponential, fixed])
SEEDS = pytest.mark.parametrize("seed", range(8))


@SIZES
@SEEDS
def test_rho_09_is_stable(size: Callable[[random.Random], int], seed: int) -> None:
    assert judge_load(queue_run(poisson(0.9, seed), size, seed)).verdict is Verdict.STABLE


@SIZES
@SEEDS
def test_rho_11_is_overloaded(size: Callable[[random.Random], int], seed: int) -> None:
    assert judge_load(queue_run(poisson(1.1, seed), size, seed)).verdict is Verdict.OVERLOADED


@SEEDS
def test_a_burst_at_the_end_is_stable(seed: int) -> None:
    arrivals = poisson(0.7, seed)
    arrivals += [arrivals[-1] + i / 1_000 for i in range(600)]
    assert judge_load(queue_run(arrivals, exponential, seed)).verdict is Verdict.STABLE


def test_a_burst_at_the_start_is_stable() -> None:
    arrivals = [i / 1_000 for i in range(600)]
    arrivals += [0.6 + t for t in poisson(0.5, 1)]
    assert judge_load(queue_run(arrivals, exponential, 1)).verdict is Verdict.STABLE


def test_arrivals_at_one_moment_have_no_verdict() -> None:
    assert judge_load(queue_run([0.0] * 100, fixed, 0)).verdict is None


def test_a_run_of_few_steps_has_no_verdict() -> None:
    assert judge_load(queue_run([0.0, 0.1, 0.2, 0.3], fixed, 0)).verdict is None


def test_an_empty_run_has_neither_verdict_nor_drain_rate() -> None:
    assert judge_load(Recorder()).verdict is None
    assert drain_rate(Recorder()) is None


def test_growth_is_the_least_squares_rise_over_the_second_half() -> None:
    recorder = Recorder()
    for i in range(101):
        recorder.on_submit(ask(i, float(i)))
    for i in range(101):
        recorder.on_step(step(float(i), 1.0, prefill_tokens=10, backlog_tokens=20 * i, waiting=i))
    judged = judge_load(recorder)
    assert judged.verdict is Verdict.OVERLOADED
    assert judged.growth_tokens == pytest.approx(20 * 50, rel=0.001)
    assert judged.lowest_tokens == 20 * 75
    assert judged.step_tokens == 10


def test_drain_rate_counts_only_the_time_with_a_queue() -> None:
    recorder = Recorder()
    for i in range(3):
        recorder.on_submit(ask(i, 0.0))
    recorder.on_step(step(0.0, 2.0, waiting=2))
    recorder.on_step(step(2.0, 2.0, waiting=1))
    recorder.on_step(step(4.0, 4.0, waiting=0))
    for i, end in enumerate((2.0, 4.0, 8.0)):
        recorder.on_finish(ended(ask(i, 0.0), end, end))
    assert drain_rate(recorder) == 2 / 4
