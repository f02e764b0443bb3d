"""RunDetails: quantiles, groups and bins equal an obvious computation, and stay small."""

from __future__ import annotations

import math
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.report.cached_share import CACHED_FROM_SHARE
from scheduler.report.details import NAMED_QUANTILES, details_of
from scheduler.report.metrics import Run, percentile
from scheduler.report.recorder import Recorder
from scheduler.report.summary import summarize, to_csv, to_json
from tests.models.recorded_runs import ask, ended, queue_run, step


def queue_at(recorder: Recorder, moment: float) -> int:
    """Return how many wait at a moment: those of the step that runs, else none."""
    for at, duration, waiting in zip(
        recorder.step_start_s, recorder.step_duration_s, recorder.step_waiting, strict=True
    ):
        if at <= moment < at + duration:
            return waiting
    return 0


@given(st.lists(st.floats(0, 50), min_size=1, max_size=60), st.integers(0, 5))
def test_a_bin_is_the_mean_of_the_queue_in_it(arrivals: list[float], seed: int) -> None:
    recorder = queue_run(sorted(arrivals), lambda rng: rng.randrange(1, 4_000), seed=seed)
    details = details_of(Run(recorder, 16))
    span = recorder.span_s
    assert span is not None
    total = sum(w * s for w, s in zip(recorder.step_waiting, recorder.step_duration_s, strict=True))
    assert math.fsum(details.waiting) * details.bin_s == pytest.approx(total, abs=1e-6)
    for place in (0, 17, 59):
        moments = [span[0] + (place + (i + 0.5) / 400) * details.bin_s for i in range(400)]
        seen = sum(queue_at(recorder, moment) for moment in moments) / 400
        assert details.waiting[place] == pytest.approx(seen, abs=len(arrivals) / 50 + 0.02)


def test_quantiles_are_those_of_the_metrics() -> None:
    recorder = queue_run([0.1 * i for i in range(3_000)], lambda rng: rng.randrange(190), seed=1)
    run = Run(recorder, 16)
    details = details_of(run)
    found = dict(details.ttft_quantiles)
    assert set(NAMED_QUANTILES) < set(found)
    for share, value in found.items():
        assert value == percentile(run.ttft_s, share)
    assert details.ttft_quantiles[-1] == (1.0, run.ttft_s[-1])
    assert list(details.ttft_quantiles) == sorted(details.ttft_quantiles)


def test_a_few_requests_have_no_extreme_quantiles() -> None:
    recorder = queue_run([0.0, 1.0, 2.0], lambda rng: 100, seed=0)
    shares = {share for share, _ in details_of(Run(recorder, 16)).ttft_quantiles}
    assert {0.25, 0.5, 0.75, 1.0} <= shares
    assert not {0.01, 0.99, 0.999} & shares


def test_requests_are_grouped_by_what_was_cached() -> None:
    recorder = Recorder()
    hits = (None, 0, 49, 50, 100)
    for seq, hit in enumerate(hits):
        state = ask(seq, float(seq), prompt_tokens=100)
        recorder.on_submit(state)
        recorder.on_finish(ended(state, seq + 1.0 + seq, seq + 9.0, hit_tokens=hit))
    assert CACHED_FROM_SHARE == 0.5
    details = details_of(Run(recorder, 16))
    assert (details.mostly_cached.requests, details.mostly_computed.requests) == (2, 2)
    assert details.mostly_cached.max_s == 5.0
    assert details.mostly_computed.p50_s == 2.5


def test_hit_rates_are_those_of_the_arrivals_in_a_bin() -> None:
    recorder = Recorder()
    for seq, (at, hit) in enumerate([(0.0, 10), (0.5, 50), (59.5, 100)]):
        state = ask(seq, at, prompt_tokens=100)
        recorder.on_submit(state)
        recorder.on_finish(ended(state, at, at, hit_tokens=hit))
    recorder.on_step(step(0.0, 60.0, waiting=3))
    details = details_of(Run(recorder, 16))
    assert details.bin_s == 1.0
    assert details.hit_rates[0] == 60 / 200
    assert details.hit_rates[59] == 1.0
    assert set(details.hit_rates[1:59]) == {None}
    assert details.waiting == (3.0,) * 60


def test_an_empty_run_has_empty_details() -> None:
    details = details_of(Run(Recorder(), 16))
    assert (details.ttft_quantiles, details.waiting, details.hit_rates) == ((), (), ())
    assert details.mostly_cached.p99_s is None


def test_details_are_small_and_no_part_of_json_or_csv() -> None:
    rng = random.Random(0)
    arrivals = sorted(rng.uniform(0, 1_000) for _ in range(5_000))
    recorder = queue_run(arrivals, lambda rng: 150, seed=0)
    plain = summarize(recorder, label="a", page_size=16)
    detailed = summarize(recorder, label="a", page_size=16, details=True)
    assert plain.details is None
    assert len(pickle.dumps(detailed)) - len(pickle.dumps(plain)) < 6_000
    assert to_json([plain]) == to_json([detailed])
    assert to_csv([plain]) == to_csv([detailed])
