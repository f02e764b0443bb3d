"""Cases I and J: order, progress, admission. Numbers as in the cases."""

from __future__ import annotations

import pytest

from radixcache import PrefixKey, RequestTooLargeError
from scheduler.overtake_guard import OvertakeGuard
from tests.models.scheduler_driver import SchedulerDriver


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def hot_stream(d: SchedulerDriver, passes: int) -> list[str]:
    """A cold request, then each step a new hot one; return the order of admission."""
    d.serve("seed", upto(100))
    d.submit("cold", [500 + n for n in range(20)])
    order = []
    for n in range(passes):
        d.submit(f"hot{n}", [*upto(100), 200 + n, 7])
        order += [chunk.rid for chunk in d.step().chunks]
    return order


def test_b46_a_cold_request_is_overtaken_within_its_bound() -> None:
    guard = OvertakeGuard(base_tokens=10)
    d = SchedulerDriver(400, guard=guard, max_running=1)
    order = hot_stream(d, 12)
    # Each hot request costs 2 uncached tokens: five of them make 10.
    assert order.index("cold") == 5
    assert d.states["cold"].overtaken_tokens == d.states["cold"].bound_tokens == 10
    assert d.scheduler.report().largest_overtaken_ratio == 1.0
    assert d.scheduler.report().total.forced_admissions == 1


def test_b46_without_a_guard_the_order_is_pure_longest_prefix() -> None:
    d = SchedulerDriver(400, max_running=1)
    assert "cold" not in hot_stream(d, 12)
    d.run()
    assert d.states["cold"].overtaken_tokens == 24
    assert d.scheduler.report().largest_overtaken_tokens == 24


def test_b46_ties_go_by_arrival() -> None:
    d = SchedulerDriver(100, max_running=3)
    for rid in ("c", "a", "b"):
        d.submit(rid, [ord(rid), 1, 2])
    assert [chunk.rid for chunk in d.step().chunks] == ["c", "a", "b"]


def test_b47_nobody_is_skipped_when_an_earlier_one_is_retracted() -> None:
    d = SchedulerDriver(9, output_reserve_ratio=0.0, max_running=3, policy="fcfs")
    for rid in "abc":
        d.submit(rid, [ord(rid), 1], max_new_tokens=20)
    d.step()
    d.step()
    # All nine pages are taken and each of the three wants one more: the last one goes.
    batch = d.schedule()
    assert batch.retracted == 1
    assert batch.decode_rids == ("a", "b")
    assert len(batch.rids) == len(set(batch.rids))


@pytest.mark.parametrize("variant", ["finish", "abort", "last chunk"])
def test_b49_a_free_place_is_used_in_the_next_step(variant: str) -> None:
    d = SchedulerDriver(64, max_running=2, chunk_tokens=4)
    if variant == "last chunk":
        d.submit("one", upto(8), max_new_tokens=1)
        d.step()
        d.submit("two", [60, 61], max_new_tokens=1)
        d.submit("three", [70, 71], max_new_tokens=1)
        d.step()
        assert d.ended == {"one": "length"}
        assert {chunk.rid for chunk in d.step().chunks} == {"two", "three"}
        return
    for n, rid in enumerate(["one", "two", "three"]):
        d.submit(rid, [50 + n], max_new_tokens=1 if variant == "finish" else 9)
    assert len(d.step().chunks) == 2
    if variant == "abort":
        d.scheduler.abort("one")
        d.scheduler.abort("two")
    assert [chunk.rid for chunk in d.step().chunks] == ["three"]


def test_b50_the_next_prompt_is_cut_to_fill_the_step() -> None:
    d = SchedulerDriver(16, page_size=4, chunk_tokens=8, policy="fcfs")
    d.submit("four", upto(4))
    d.submit("eight", [20 + n for n in range(8)])
    first, second = d.step(), d.step()
    assert [(c.rid, c.tokens) for c in first.chunks] == [("four", 4), ("eight", 4)]
    assert [(c.rid, c.tokens) for c in second.chunks] == [("eight", 4)]


@pytest.mark.parametrize("publish", ["complete", "schedule"])
def test_b51_progress_does_not_need_the_cache(publish: str) -> None:
    d = SchedulerDriver(16, caching=False, chunk_tokens=4, publish=publish)
    d.submit("r", upto(12), max_new_tokens=2)
    chunks = [d.step().chunks[0] for _ in range(3)]
    assert [chunk[1:] for chunk in chunks] == [(0, 4, False), (4, 8, False), (8, 12, True)]
    assert 16 - d.pool.free_pages <= 13
    d.run()
    assert d.pool.free_pages == 16


def test_b52_the_door_and_admission_are_one_predicate() -> None:
    d = SchedulerDriver(4, page_size=16, policy="fcfs")
    with pytest.raises(RequestTooLargeError, match="13 pages") as error:
        d.submit("r0", upto(200), max_new_tokens=8)
    assert (error.value.needed_pages, error.value.capacity_pages) == (13, 4)
    with pytest.raises(RequestTooLargeError):
        d.submit("r1+", upto(50), max_new_tokens=16)
    # 50 prompt tokens and 14 outputs with KV are just 4 pages.
    d.submit("r1", upto(50), max_new_tokens=15)
    d.submit("r2", [90, 91, 92, 93], max_new_tokens=2)
    d.run()
    assert d.ended == {"r1": "length", "r2": "length"}
    assert d.scheduler.report().total.rejected == 2


def test_b54_pages_are_charged_as_they_are_allocated() -> None:
    d = SchedulerDriver(3, page_size=16)
    d.submit("a", upto(17), max_new_tokens=15)
    d.submit("b", [100 + n for n in range(17)], max_new_tokens=15)
    batch = d.step()
    assert [chunk.rid for chunk in batch.chunks] == ["a"]
    assert batch.refusal is not None
    assert batch.refusal[:] == ("b", 2, 1)
    d.run()
    with pytest.raises(RequestTooLargeError):
        SchedulerDriver(2, page_size=16).submit("c", upto(32), max_new_tokens=2)
    # A step whose budget is used up takes nothing more.
    d = SchedulerDriver(8, page_size=16, chunk_tokens=20)
    d.submit("a", upto(20))
    d.submit("b", [100 + n for n in range(20)])
    assert d.step().prefill_tokens == 20
    assert d.scheduler.waiting == 1


def test_b55_a_hit_is_not_counted_as_free_as_well() -> None:
    d = SchedulerDriver(6)
    d.serve("seed", upto(2))
    d.serve("old", [50, 51, 52])
    d.serve("kept", [99])
    pin = d.cache.match(PrefixKey([99]))
    assert d.cache.size == (5, 1)
    d.submit("r", [1, 2, 60, 61, 62], max_new_tokens=2)  # hits 2, needs 4 new
    assert d.scheduler._planner._picker.pick() is None
    assert d.cache.size == (5, 1)
    assert d.cached([50, 51, 52]) == 3
    d.scheduler.abort("r")
    d.submit("r'", [1, 2, 60, 61, 62], max_new_tokens=1)  # hits 2, needs 3 new
    batch = d.schedule()
    assert batch.evicted_pages == 3
    assert d.states["r'"].hit_tokens == 2
    d.complete(batch)
    d.cache.release(pin)
    assert d.all_back
