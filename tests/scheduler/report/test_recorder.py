"""Recorder: it reads the scheduler's own records, in whatever order requests end."""

from __future__ import annotations

import math

import pytest

from radixcache import PrefixKey
from scheduler.batch import StepRecord
from scheduler.report.recorder import Recorder
from scheduler.request import Request, RequestState


def state(seq: int, at: float) -> RequestState:
    request = Request(
        rid=str(seq), key=PrefixKey(range(10)), prompt_tokens=10, max_new_tokens=4, arrival_s=at
    )
    return RequestState(request, arrival_seq=seq, page_size=4, submitted_s=at)


def test_it_reads_the_schedulers_records() -> None:
    recorder = Recorder()
    first, second = state(5, 1.0), state(9, 2.0)
    recorder.on_submit(first)
    recorder.on_submit(second)
    recorder.on_step(
        StepRecord(
            start_s=2.0, duration_s=0.5, prefill_tokens=20, decode_tokens=0, running=2, waiting=1,
            backlog_tokens=10, free_pages=3, evictable_pages=2, protected_pages=1,
            evicted_pages=4, retracted=0,
        )
    )  # fmt: skip
    second.first_token_s, second.finished_s, second.finish_reason = 2.5, 3.0, "length"
    second.hit_tokens = 8
    second.outputs.extend([1, 2])
    recorder.on_finish(second)
    assert list(recorder.prompt_tokens) == [10, 10]
    assert list(recorder.output_tokens) == [0, 2]
    assert math.isnan(recorder.hit_tokens[0])
    assert recorder.hit_tokens[1] == 8
    assert recorder.evicted_pages == 4
    assert recorder.arrival_window_s == (1.0, 2.0)
    assert recorder.span_s == (1.0, 3.0)
    assert recorder.counts() == {"submitted": 2, "ended": 1, "alive": 1, "rejected": 0}
    assert recorder.ended == {"length": 1}


def test_a_request_ends_once() -> None:
    recorder = Recorder()
    asked = state(0, 0.0)
    recorder.on_submit(asked)
    recorder.on_finish(asked)
    with pytest.raises(KeyError):
        recorder.on_finish(asked)


def test_rejected_requests_are_counted_by_reason_and_have_no_row() -> None:
    recorder = Recorder()
    for reason in ("too large", "too large", "duplicate"):
        recorder.on_reject(state(0, 0.0).request, reason)
    assert recorder.rejected == {"too large": 2, "duplicate": 1}
    assert recorder.span_s is None
    assert recorder.counts()["submitted"] == 0
