"""Metrics: each number by hand, on runs small enough to see."""

from __future__ import annotations

import math
import re

import pytest

from scheduler.report.metrics import METRICS, Run, metric, percentile
from scheduler.report.recorder import Recorder
from scheduler.report.summary import summarize
from tests.models.recorded_runs import ask, ended, queue_run, step

UNIT_LAST = {
    "requests": "_requests",
    "tokens": "_tokens",
    "tokens/s": "_tokens_per_s",
    "requests/s": "_requests_per_s",
    "s": "_s",
    "share": "_share",
    "count": "_count",
}


def small_run() -> Run:
    """Three requests in 10 s; two steps of 2 s with an idle gap, then one after the arrivals."""
    recorder = Recorder()
    states = [ask(0, 0.0, 100), ask(1, 2.0, 300), ask(2, 10.0, 100)]
    recorder.on_submit(states[0])
    recorder.on_step(step(0.0, 2.0, prefill_tokens=100, running=1, waiting=0))
    recorder.on_finish(ended(states[0], 2.0, 2.0, output_tokens=1, overtaken_tokens=7))
    recorder.on_submit(states[1])
    recorder.on_step(
        step(4.0, 2.0, prefill_tokens=250, decode_tokens=3, running=3, waiting=4, evicted_pages=5)
    )
    recorder.on_submit(states[2])
    recorder.on_step(step(10.0, 4.0, prefill_tokens=20, running=1, waiting=1))
    recorder.on_finish(
        ended(states[1], 6.0, 12.0, hit_tokens=60, output_tokens=4, overtaken_tokens=30,
              bound_tokens=40, bound_s=0.5, recomputed_tokens=16, retractions=1)
    )  # fmt: skip
    recorder.on_finish(
        ended(states[2], 14.0, 14.0, hit_tokens=80, finish_reason="stop", bound_tokens=math.inf)
    )
    recorder.on_reject(states[2].request, "too large")
    return Run(recorder, page_size=16, optimal_hit_rate=0.7, ceiling_hit_rate=0.6)


EXPECTED = {
    "submitted_requests": 3,
    "ended_requests": 3,
    "rejected_requests": 1,
    "prompt_tokens": 500,
    "cold_hit_rate_share": 140 / 500,
    "warm_hit_rate_share": 140 / 400,
    "ceiling_hit_rate_share": 0.6,
    "optimal_hit_rate_share": 0.7,
    "optimal_reached_share": None,  # one request was refused
    "offered_requests_per_s": 2 / 10,
    "utilisation_share": 4 / 10,
    "makespan_s": 14.0,
    "queue_mean_requests": (4 * 2 + 1 * 4) / 14,
    "queue_max_requests": 4,
    "running_mean_requests": (1 * 2 + 3 * 2 + 1 * 4) / 8,
    "ttft_mean_s": (2 + 4 + 4) / 3,
    "ttft_p50_s": 4.0,
    "ttft_p90_s": 4.0,
    "ttft_p99_s": 4.0,
    "ttft_max_s": 4.0,
    "mostly_computed_requests": 2,
    "mostly_computed_ttft_mean_s": 3.0,
    "mostly_computed_ttft_p99_s": 2 + 0.99 * 2,
    "mostly_cached_requests": 1,
    "mostly_cached_ttft_mean_s": 4.0,
    "mostly_cached_ttft_p99_s": 4.0,
    "tpot_mean_s": 2.0,
    "tpot_p50_s": 2.0,
    "tpot_p90_s": 2.0,
    "tpot_p99_s": 2.0,
    "tpot_max_s": 2.0,
    "e2e_mean_s": (2 + 10 + 4) / 3,
    "e2e_p50_s": 4.0,
    "e2e_p90_s": 4 + 0.8 * 6,
    "e2e_p99_s": 4 + 0.98 * 6,
    "e2e_max_s": 10.0,
    "output_tokens_per_s": 6 / 14,
    "drain_requests_per_s": None,
    "overtaken_max_tokens": 30,
    "overtaken_bound_share": 0.75,
    "bound_max_tokens": 40,
    "bound_max_s": 0.5,
    "prefill_tokens": 370,
    "evicted_tokens": 80,
    "recomputed_tokens": 16,
    "retractions_count": 1,
}


def test_every_metric_is_checked_by_hand() -> None:
    assert [m.name for m in METRICS] == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_metric_by_hand(name: str) -> None:
    assert metric(name).compute(small_run()) == pytest.approx(EXPECTED[name])


def test_only_an_overloaded_run_has_a_drain_rate() -> None:
    slow, fast = (
        queue_run([i * gap for i in range(200)], lambda rng: 500, 0) for gap in (0.6, 0.3)
    )
    assert metric("drain_requests_per_s").compute(Run(slow, 16)) is None
    assert metric("drain_requests_per_s").compute(Run(fast, 16)) == pytest.approx(2.0)


@pytest.mark.parametrize("shown", METRICS, ids=lambda m: m.name)
def test_a_name_ends_in_its_unit_and_is_documented(shown: object) -> None:
    assert shown.name.endswith(UNIT_LAST[shown.unit])  # type: ignore[attr-defined]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", shown.name)  # type: ignore[attr-defined]
    assert shown.formula  # type: ignore[attr-defined]
    assert shown.doc.endswith(".")  # type: ignore[attr-defined]


@pytest.mark.parametrize("shown", METRICS, ids=lambda m: m.name)
def test_an_empty_run_gives_none_or_zero_and_never_nan(shown: object) -> None:
    assert shown.compute(Run(Recorder(), 16)) in {None, 0}  # type: ignore[attr-defined]


def test_requests_that_never_started_count_in_no_hit_rate_and_no_latency() -> None:
    recorder = Recorder()
    waiting, aborted = ask(0, 0.0), ask(1, 1.0)
    recorder.on_submit(waiting)
    recorder.on_submit(aborted)
    aborted.finished_s, aborted.finish_reason = 5.0, "abort"
    recorder.on_finish(aborted)
    run = Run(recorder, 16)
    assert run.hit_rate() is None
    assert run.ttft_s == run.e2e_s == run.tpot_s == []
    assert recorder.counts() == {"submitted": 2, "ended": 1, "alive": 1, "rejected": 0}


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("unsent", [0, 2])
def test_no_share_of_an_optimum_of_other_requests(waits: bool, unsent: int) -> None:
    recorder = Recorder()
    served = ask(0, 0.0)
    served.hit_tokens = 3
    for state in (served, ask(1, 1.0)) if waits else (served,):
        recorder.on_submit(state)
        state.finished_s, state.finish_reason = 5.0, "abort"
        recorder.on_finish(state)
    made = summarize(
        recorder, label="a", page_size=1, optimal_hit_rate=0.01, unsent_requests=unsent
    )
    rate = made.values["cold_hit_rate_share"]
    assert rate == 3 / served.request.prompt_tokens
    missing = waits + unsent
    assert made.values["optimal_reached_share"] == (None if missing else rate / 0.01)
    said = f"{missing} requests: in the bounds, in no hit rate"
    assert made.assumptions == ({"never_admitted": said} if missing else {})


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([], 0.5, None),
        ([3.0], 0.99, 3.0),
        ([1.0, 2.0], 0.5, 1.5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.9, 4.6),
        ([1.0, 2.0, 3.0], 1.0, 3.0),
        ([1.0, 2.0, 3.0], 0.0, 1.0),
    ],
)
def test_percentiles_are_linear_between_ranks(
    values: list[float], q: float, expected: float | None
) -> None:
    assert percentile(values, q) == pytest.approx(expected)
