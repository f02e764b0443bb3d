"""Cases B and D on the scheduler: pins, page boundaries, ownership. Numbers as in the cases."""

from __future__ import annotations

import pytest

from tests.models.scheduler_driver import SchedulerDriver


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def test_b03_the_slot_of_an_overlapped_step_comes_back_once() -> None:
    d = SchedulerDriver(8, max_in_flight=2)
    d.submit("r", upto(4), max_new_tokens=5)
    batches = [d.schedule(), d.schedule()]
    for _ in range(2):
        d.complete(batches.pop(0))
        batches.append(d.schedule())
    # The third token is a stop, and one more step is in flight already.
    d.complete(batches.pop(0), {"r": ([7], "stop")})
    assert d.ended == {"r": "stop"}
    assert d.pool.free_pages + d.cache.size.total_pages < 8
    d.complete(batches.pop(0), {"r": ([8], None)})
    assert d.states["r"].output_tokens == 3
    assert d.pool.free_pages + d.cache.size.evictable_pages == 8
    assert d.cached([*upto(4), 90, 90, 7]) == 6


def test_b10_a_waiting_request_holds_no_pin() -> None:
    d = SchedulerDriver(12, max_running=1)
    d.serve("seed", upto(8))
    d.submit("busy", [50], max_new_tokens=4)
    d.step()
    d.submit("r", upto(9))
    for _ in range(3):
        d.step()
        assert d.cache.size.protected_pages <= 1
    d.run()
    assert d.cache.size.protected_pages == 0


def test_b11_a_refused_admission_leaves_nothing_behind() -> None:
    d = SchedulerDriver(16)
    d.serve("seed", upto(8))
    d.submit("long", [90, 91, 92], max_new_tokens=5)
    d.step()
    before = d.cache.size, d.pool.free_pages, d.scheduler.report().reserved_pages
    picker = d.scheduler._planner._picker
    for n in range(1000):
        # 5 pages are free, 4 of them promised to "long".
        d.submit(f"r{n}", upto(8), max_new_tokens=9)
        assert picker.pick() is None
        assert picker.refusal is not None
        assert picker.refusal[1:] == (9, 2)
        d.scheduler.abort(f"r{n}")
    assert before == (d.cache.size, d.pool.free_pages, d.scheduler.report().reserved_pages)
    d.run()
    assert d.all_back


@pytest.mark.parametrize(("page_size", "last", "hit"), [(4, 8, 4), (4, 9, 8), (1, 8, 7), (8, 8, 0)])
def test_b15_a_full_hit_leaves_a_token_to_compute(page_size: int, last: int, hit: int) -> None:
    d = SchedulerDriver(16, page_size=page_size)
    d.serve("first", upto(8))
    nodes = d.cache.size.total_pages
    assert d.serve("again", upto(last)) == last - hit
    assert d.states["again"].hit_tokens == hit
    assert d.cache.size.total_pages == nodes


def test_b16_the_whole_prompt_is_matched_before_it_is_cut() -> None:
    d = SchedulerDriver(32, chunk_tokens=4)
    d.serve("first", upto(16))
    d.submit("again", upto(16))
    assert d.step().prefill_tokens == 1
    assert d.states["again"].hit_tokens == 15
    assert d.scheduler.is_idle


def test_b17_duplicates_are_freed_and_the_row_redirected() -> None:
    d = SchedulerDriver(32, hold="off")
    d.submit("r1", upto(8), max_new_tokens=3)
    d.submit("r2", upto(8), max_new_tokens=3)
    first = d.schedule()
    rows = d.row(first, "r1"), d.row(first, "r2")
    assert set(rows[0]).isdisjoint(rows[1])
    d.complete(first)
    assert d.pool.free_pages == 32 - 8
    second = d.schedule()
    assert d.row(second, "r1")[:8] == d.row(second, "r2")[:8]
    assert [remap.rid for remap in second.remaps] == ["r2"]
    assert second.remaps[0].old_pages == tuple(rows[1])
    assert second.remaps[0].new_pages == tuple(rows[0])
    d.submit("r3", [50, 51, 52], max_new_tokens=1)
    d.complete(second)
    third = d.schedule()
    assert set(d.row(third, "r3")).isdisjoint(d.row(third, "r2"))


def test_b17_a_row_in_flight_is_replaced_not_rewritten() -> None:
    d = SchedulerDriver(32, hold="off", max_in_flight=2)
    d.submit("r1", upto(8), max_new_tokens=4)
    d.submit("r2", upto(8), max_new_tokens=4)
    first, second = d.schedule(), d.schedule()
    named = d.row(second, "r2")
    d.complete(first)
    # The duplicates are still read by the second batch.
    assert d.row(second, "r2") == named
    assert d.pool.in_use() >= set(named)
    third = d.schedule()
    assert d.row(third, "r2")[:8] == d.row(third, "r1")[:8]
    d.complete(second)
    assert d.pool.in_use().isdisjoint(named[:8])


@pytest.mark.parametrize("way_out", ["abort", "retract"])
def test_b19_published_chunks_stay_valid_when_their_request_is_dropped(way_out: str) -> None:
    d = SchedulerDriver(16, chunk_tokens=4, output_reserve_ratio=0.0)
    d.submit("r", upto(12))
    d.step()
    d.step()
    assert d.cached(upto(12)) == 8
    if way_out == "abort":
        d.scheduler.abort("r")
    else:
        run = d.scheduler._life.running.by_rid["r"]
        d.scheduler._life.retract(run)
    d.scheduler.check()
    assert d.cache.size == (8, 0)
    assert d.pool.free_pages == 8
    d.run()
    assert d.all_back


@pytest.mark.parametrize(("evicted", "more", "hit"), [(8, 0, 0), (0, 4, 12), (0, 0, 8)])
def test_b20_a_look_is_never_remembered(evicted: int, more: int, hit: int) -> None:
    d = SchedulerDriver(40, max_running=1)
    d.serve("seed", upto(8))
    d.submit("busy", [50], max_new_tokens=4)
    d.step()
    d.submit("r", upto(13))
    d.step()
    assert d.scheduler.report().matched_tokens == 8
    d.pool.free(d.cache.evict(evicted))
    if more:
        handle = d.cache.match(d.states["r"].key, 8)
        pages = [*handle.pages, *d.pool.allocate(more)]
        d.cache.release(d.cache.insert(d.states["r"].key, pages, 8 + more).handle)
        d.cache.release(handle)
    while d.states["r"].hit_tokens is None:
        d.step()
    assert d.states["r"].hit_tokens == hit


def test_b25_only_the_shortfall_is_evicted() -> None:
    d = SchedulerDriver(16)
    for n in range(5):
        d.serve(f"seed{n}", [20 + n, 30 + n])
    assert (d.pool.free_pages, d.cache.size.evictable_pages) == (6, 10)
    d.submit("r", upto(8))
    batch = d.schedule()
    assert batch.evicted_pages == 2
    assert d.cache.size.evictable_pages == 8
