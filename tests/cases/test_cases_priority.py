"""Cases J and K where requests have priorities: who gives way to whom, and how many."""

from __future__ import annotations

import pytest

from tests.models.scheduler_driver import SchedulerDriver


def with_victims(capacity: int, count: int, **config: object) -> SchedulerDriver:
    """Run ``count`` low requests with 8 pages each: 4 of the prompt, 4 promised."""
    driver = SchedulerDriver(
        capacity, policy="priority+fcfs", preempt_priority_gap=1, hold="off", **config
    )
    for i in range(count):
        driver.submit(f"low{i}", range(100 * i, 100 * i + 4), max_new_tokens=5)
    driver.step()
    assert driver.scheduler.running == count
    return driver


def gone(driver: SchedulerDriver) -> list[str]:
    return [rid for rid, state in driver.states.items() if state.retractions]


def test_b57_a_preempted_decode_is_taken_out_of_the_step_and_refunded() -> None:
    driver = with_victims(16, 2, chunk_tokens=8, max_running=3, decodes_in_budget=True)
    driver.submit("high", range(900, 907), max_new_tokens=2, priority=1)
    batch = driver.schedule()
    # The latest low one made room; its token went back into the budget of 8.
    assert gone(driver) == ["low1"]
    assert batch.decode_rids == ("low0",)
    assert [(c.rid, c.tokens) for c in batch.chunks] == [("high", 7)]
    assert batch.prefill_tokens + batch.decode_tokens == 8
    assert list(driver.scheduler._life.waiting) == ["low1"]
    driver.complete(batch)
    driver.run()
    assert driver.all_back


@pytest.mark.parametrize(
    ("capacity", "prompt", "victims"),
    [
        (44, 16, ["low3", "low4"]),  # 4 pages are left: 12 more, from two of 8 each
        (40, 8, ["low4"]),
    ],
)
def test_b58_as_many_victims_as_needed_and_no_more(
    capacity: int, prompt: int, victims: list[str]
) -> None:
    driver = with_victims(capacity, 5)
    driver.submit("high", range(900, 900 + prompt), priority=1)
    batch = driver.step()
    assert gone(driver) == victims
    assert "high" in batch.rids
    driver.run(500)
    assert driver.all_back


def test_b58_nobody_is_preempted_where_all_would_not_suffice() -> None:
    driver = with_victims(44, 5)
    driver.submit("mate", [777], max_new_tokens=4, priority=1)
    driver.step()
    driver.submit("high", range(900, 941), priority=1)  # 41 pages, the low ones hold 40
    batch = driver.step()
    assert not gone(driver)
    assert batch.refusal is not None
    assert batch.refusal.rid == "high"
    driver.run(500)
    assert set(driver.ended.values()) == {"length"}


def test_b58_a_full_engine_with_free_memory_gives_one_place() -> None:
    driver = with_victims(100, 3, max_running=3)
    driver.submit("high", [900], priority=1)
    batch = driver.step()
    assert gone(driver) == ["low2"]
    assert "high" in batch.rids
    assert driver.ended["high"] == "length"


def test_b58_free_places_and_full_memory_preempt_in_the_same_step() -> None:
    driver = with_victims(40, 5, max_running=64)
    driver.submit("high", range(900, 908), priority=1)
    assert [c.rid for c in driver.step().chunks] == ["high"]


def test_b58_nobody_is_preempted_whom_another_makes_superfluous() -> None:
    driver = SchedulerDriver(
        24, policy="priority+fcfs", preempt_priority_gap=1, retract="last-admitted"
    )
    driver.submit("large", range(10), max_new_tokens=9)
    driver.submit("small", range(50, 52), max_new_tokens=3)
    driver.step()
    # 2 pages are left; small would give 4 and large 18, which is enough alone.
    driver.submit("high", range(900, 917), priority=1)
    batch = driver.step()
    assert gone(driver) == ["large"]
    assert batch.decode_rids == ("small",)


def test_equal_priority_never_preempts_and_the_gap_is_kept() -> None:
    for priority, gap, victims in ((0, 1, 0), (1, 1, 1), (2, 3, 0), (3, 3, 1)):
        driver = SchedulerDriver(8, policy="priority+fcfs", preempt_priority_gap=gap)
        driver.submit("low", range(4), max_new_tokens=5)
        driver.step()
        driver.submit("high", range(900, 908), priority=priority)
        driver.step()
        assert len(gone(driver)) == victims, (priority, gap)


def test_without_a_gap_priority_orders_and_never_preempts() -> None:
    driver = SchedulerDriver(8, policy="priority+lpm")
    driver.submit("low", range(4), max_new_tokens=5)
    driver.step()
    driver.submit("lower", range(800, 804), priority=-1)
    driver.submit("high", range(900, 904), priority=1)
    driver.step()
    assert not gone(driver)
    order = []
    while not driver.scheduler.is_idle:
        order += [chunk.rid for chunk in driver.step().chunks]
    assert order == ["high", "lower"]


def test_small_values_may_go_first() -> None:
    driver = SchedulerDriver(8, policy="low-priority+fcfs", preempt_priority_gap=1)
    driver.submit("low", range(4), max_new_tokens=5, priority=7)
    driver.step()
    driver.submit("high", range(900, 908), priority=3)
    driver.step()
    assert gone(driver) == ["low"]


def test_b57_memory_shortage_takes_the_lower_class_first() -> None:
    driver = SchedulerDriver(13, policy="priority+fcfs", output_reserve_ratio=0.0)
    driver.submit("low", range(4), max_new_tokens=9)
    driver.submit("high", [50], max_new_tokens=9, priority=1)
    driver.run()
    assert gone(driver) == ["low"]
    assert driver.ended == {"low": "length", "high": "length"}


def test_with_a_batch_in_flight_the_pages_are_waited_for_and_nobody_else_takes_them() -> None:
    driver = SchedulerDriver(
        16, policy="priority+fcfs", preempt_priority_gap=1, max_in_flight=2, chunk_tokens=8
    )
    driver.submit("a", range(4), max_new_tokens=5)
    driver.submit("b", range(50, 54), max_new_tokens=5)
    first = driver.schedule()
    driver.submit("high", range(900, 908), priority=1)
    second = driver.schedule()
    assert gone(driver) == ["b"]
    assert second.rids == ("a",)
    driver.complete(first)
    third = driver.schedule()
    assert third.rids == ("high", "a")
    assert gone(driver) == ["b"]
    driver.complete(second)
    driver.complete(third)
    driver.run()
    assert set(driver.ended.values()) == {"length"}
    assert driver.all_back


def test_the_preempted_one_does_not_take_the_pages_that_are_waited_for() -> None:
    driver = SchedulerDriver(
        10, policy="priority+spf", preempt_priority_gap=1, max_in_flight=2, chunk_tokens=3
    )
    driver.submit("low", range(6))
    first, second = driver.schedule(), driver.schedule()
    driver.submit("high", range(900, 910), priority=1)
    driver.complete(first)
    for _ in range(3):
        assert driver.schedule().is_empty
        assert gone(driver) == ["low"]
    driver.complete(second)
    assert driver.schedule().rids == ("high",)


def test_cached_pages_that_others_pin_are_no_gain() -> None:
    shared = list(range(8))
    driver = SchedulerDriver(16, policy="priority+fcfs", preempt_priority_gap=1, page_size=1)
    driver.serve("warm", shared)
    driver.submit("low", [*shared, 20], max_new_tokens=3)
    driver.submit("mate", [*shared, 30], max_new_tokens=3, priority=1)
    driver.step()
    # 16 pages: 8 shared, 3 each; of low only its own 3 can be had, so 6 of 5 + ... do not fit.
    driver.submit("high", range(900, 906), priority=1)
    batch = driver.step()
    assert not gone(driver)
    assert batch.refusal is not None
    assert (batch.refusal.needed_pages, batch.refusal.available_pages) == (6, 2)
    driver.run()
    driver = SchedulerDriver(16, policy="priority+fcfs", preempt_priority_gap=1, page_size=1)
    driver.serve("warm", shared)
    driver.submit("low", [*shared, 20], max_new_tokens=3)
    driver.step()
    driver.submit("high", range(900, 914), priority=1)
    driver.step()
    assert gone(driver) == ["low"]


def test_the_hit_of_the_request_itself_is_no_gain() -> None:
    shared = list(range(8))
    driver = SchedulerDriver(14, policy="priority+fcfs", preempt_priority_gap=1)
    driver.serve("warm", shared)
    driver.submit("low", [*shared, 20], max_new_tokens=3)
    driver.submit("mate", [70], max_new_tokens=2, priority=1)
    driver.step()
    # One page is free, low would give its own 3; the 8 it pins are the hit of high.
    driver.submit("high", [*shared, *range(900, 905)], priority=1)
    batch = driver.step()
    assert not gone(driver)
    assert batch.refusal is not None
    assert (batch.refusal.needed_pages, batch.refusal.available_pages) == (5, 1)
    driver.run()
    assert driver.states["high"].hit_tokens == 8
