"""Cases K and L: retraction and statistics. Numbers as in the cases."""

from __future__ import annotations

import pytest

from radixcache import RequestError
from scheduler.request import RequestStatus
from scheduler.step import Step
from tests.models.scheduler_driver import SchedulerDriver


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def test_b57_a_victim_already_planned_is_taken_out_of_the_step() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0, max_tokens_per_step=2, policy="fcfs")
    d.submit("a", [1], max_new_tokens=20)
    d.submit("b", [2], max_new_tokens=20)
    d.step()
    d.step({"a": ([7], None), "b": ([8, 9], None)})
    assert d.pool.free_pages == 2
    # "a" takes one page, "b" finds one of the two it wants; "a" has less to lose.
    batch = d.schedule()
    assert batch.rids == ("b",)
    assert batch.decode_tokens == 2
    assert [change.rid for change in batch.changes] == ["b"]
    assert [(e.state.rid, type(e).__name__) for e in batch.events] == [("a", "Retracted")]
    assert d.states["a"].status is RequestStatus.WAITING
    assert d.scheduler.waiting == 1
    d.complete(batch)
    d.run()
    assert d.ended["b"] == "capacity"


@pytest.mark.parametrize(("extra", "victims"), [(1, 1), (2, 1), (3, 2), (4, 2), (6, 3)])
def test_b58_as_many_victims_as_needed_and_no_more(extra: int, victims: int) -> None:
    d = SchedulerDriver(10, output_reserve_ratio=0.0, policy="fcfs")
    d.submit("big", upto(4), max_new_tokens=9)
    for n in range(3):
        d.submit(f"small{n}", [50 + n, 60], max_new_tokens=9)
    d.step()
    assert d.pool.free_pages == 0
    big = d.scheduler._life.running.by_rid["big"]
    # Give it something to lose: the others, each with two pages, go first.
    big.shared_pages = 0
    step = Step(0, 0, 0, [])
    assert d.scheduler._planner._make_room(big, 0, extra, step)
    assert step.retracted == victims == len(step.events)
    order = [event.state.rid for event in step.events]
    assert order == ["small2", "small1", "small0"][:victims]


def test_b60_a_request_that_outgrows_the_pool_ends_and_the_scheduler_lives_on() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0)
    d.submit("r", upto(4), max_new_tokens=100)
    steps = d.run(30)
    assert d.ended == {"r": "capacity"}
    # 8 slots hold the 4 prompt tokens and 4 outputs; the fifth was sampled and has no KV.
    assert d.states["r"].output_tokens == 5
    assert steps <= 8
    assert d.scheduler.report().total.capacity_ended == 1
    d.serve("next", [9])
    assert d.ended["next"] == "length"


def test_b60_a_retracted_request_is_queued_despite_the_limit() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0, max_waiting=1, max_running=2)
    d.submit("a", [1, 2], max_new_tokens=6)
    d.step()
    d.submit("b", [3, 4], max_new_tokens=6)
    d.step()
    d.submit("c", [5, 6], max_new_tokens=1)
    with pytest.raises(RequestError, match="max_waiting is 1"):
        d.submit("d", [7, 8])
    while not d.scheduler.report().total.retractions:
        d.step()
    assert d.scheduler.waiting == 2
    d.run()
    assert set(d.ended.values()) == {"length"}


@pytest.mark.parametrize("in_flight", [1, 2])
def test_b60_two_that_fit_only_one_at_a_time_both_end(in_flight: int) -> None:
    d = SchedulerDriver(12, output_reserve_ratio=0.0, max_in_flight=in_flight)
    d.submit("a", upto(4), max_new_tokens=8)
    d.submit("b", [51, 52, 53, 54], max_new_tokens=8)
    d.run(60)
    assert d.ended == {"a": "length", "b": "length"}
    total = d.scheduler.report().total
    assert total.retractions == 1
    assert [d.states[rid].output_tokens for rid in "ab"] == [8, 8]


def test_b61_a_request_counts_once_however_often_it_was_refused() -> None:
    d = SchedulerDriver(13, max_running=8)
    d.serve("seed", upto(4))
    d.submit("busy", [90 + n for n in range(6)], max_new_tokens=4)
    d.step()
    d.submit("r", [*upto(4), 20, 21, 22, 23])
    before = d.scheduler.report().total
    for _ in range(3):
        assert d.step().refusal is not None
    assert d.scheduler.report().total.prompt_tokens == before.prompt_tokens
    d.run()
    total = d.scheduler.report().total
    assert total.prompt_tokens - before.prompt_tokens == 8
    assert total.hit_tokens - before.hit_tokens == 4
    assert total.admitted - before.admitted == 1


def test_b62_its_own_work_found_again_is_no_hit() -> None:
    d = SchedulerDriver(24, output_reserve_ratio=0.0)
    d.submit("r", upto(8), max_new_tokens=4)
    d.step()
    d.scheduler._life.retract(d.scheduler._life.running.by_rid["r"])
    d.run()
    state, total = d.states["r"], d.scheduler.report().total
    assert (state.hit_tokens, total.hit_tokens) == (0, 0)
    assert state.resumed_tokens == total.resumed_tokens == 8
    assert state.recomputed_tokens == 0
    assert total.prompt_tokens == 8
    assert state.output_tokens == 4


def test_b62_its_own_earlier_chunks_are_no_hits() -> None:
    d = SchedulerDriver(24, chunk_tokens=4)
    d.serve("r", upto(12))
    total = d.scheduler.report().total
    assert (total.prompt_tokens, total.hit_tokens, total.hit_rate) == (12, 0, 0.0)
