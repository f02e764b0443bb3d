"""Ticks of rounded timestamps are found and spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixcache import PrefixKey
from radixcache.errors import InvalidInputError
from scheduler.request import Request
from scheduler.trace import find_tick, open_trace, spread_ticks


def at(times_s: list[float]) -> list[Request]:
    return [
        Request(rid=str(i), key=PrefixKey([i]), prompt_tokens=1, max_new_tokens=1, arrival_s=time_s)
        for i, time_s in enumerate(times_s)
    ]


def test_mooncake_is_rounded_to_3_seconds(shared_dir: Path) -> None:
    requests = list(open_trace(shared_dir / "traces" / "mooncake_conversation.jsonl.gz"))
    spread, report = spread_ticks(requests, seed=0)
    assert report.tick_s == pytest.approx(3, abs=0.002)
    assert (report.ticks, report.tied_requests) == (1180, 10_851)
    assert len({r.arrival_s for r in spread}) == len(spread)
    assert [r.rid for r in spread] == [r.rid for r in requests]
    for before, after in zip(requests, spread, strict=True):
        assert before.arrival_s <= after.arrival_s < before.arrival_s + report.tick_s


def test_spread_arrivals_are_sorted_and_stay_below_the_next_tick() -> None:
    spread, report = spread_ticks(at([0, 0, 0, 3, 3, 9, 9, 12]), seed=1)
    times_s = [r.arrival_s for r in spread]
    assert report.tick_s == 3
    assert times_s == sorted(times_s)
    assert all(0 <= t < 3 for t in times_s[:3])
    assert all(3 <= t < 6 for t in times_s[3:5])
    assert all(9 <= t < 12 for t in times_s[5:7])


def test_same_seed_gives_the_same_times() -> None:
    requests = at([0, 0, 1, 1, 2, 2])
    assert spread_ticks(requests, seed=7) == spread_ticks(requests, seed=7)
    assert spread_ticks(requests, seed=7) != spread_ticks(requests, seed=8)


@pytest.mark.parametrize(
    "times_s",
    [[], [1.0], [5.0, 5.0], [0.0, 0.31, 0.77, 1.9], [0, 0, 0, 0.137, 1.71, 1.71, 2.923, 5.0009]],
)
def test_exact_times_and_real_bursts_are_left_alone(times_s: list[float]) -> None:
    requests = at(times_s)
    spread, report = spread_ticks(requests, seed=0)
    assert report.tick_s is None
    assert spread == requests


def test_sparse_ticks_are_found() -> None:
    assert find_tick([0, 0, 5, 6, 6, 10, 17, 17, 19, 24, 24]).tick_s == 1


def test_tick_can_be_given() -> None:
    spread, report = spread_ticks(at([4.0, 4.0]), seed=0, tick_s=0.5)
    assert report.tick_s == 0.5
    assert all(4 <= r.arrival_s < 4.5 for r in spread)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="go back in time"):
        spread_ticks(at([1, 0]), seed=0)
    with pytest.raises(InvalidInputError, match="tick_s"):
        spread_ticks(at([1]), seed=0, tick_s=float("nan"))
    with pytest.raises(InvalidInputError, match="seed"):
        spread_ticks(at([1]), seed=-1)


def test_report_is_a_sentence() -> None:
    assert str(find_tick([0, 0.5, 1.7])) == "timestamps are not rounded"
    assert "ticks of 3 s" in str(find_tick([0, 0, 3, 6, 6]))
