"""How steps are filled and who gives way, by configuration."""

from __future__ import annotations

import pytest

from radixcache.errors import ConfigError
from scheduler.config import AdaptiveRatio, SchedulerConfig
from scheduler.reserve import AdaptiveReserve
from tests.models.scheduler_driver import SchedulerDriver


def test_mixed_steps_prefill_beside_decodes() -> None:
    driver = SchedulerDriver(64, chunk_tokens=8)
    driver.submit("a", range(4), max_new_tokens=9)
    driver.step()
    driver.submit("b", range(50, 62), max_new_tokens=2)
    batch = driver.step()
    assert [c.rid for c in batch.chunks] == ["b"]
    assert batch.decode_rids == ("a",)
    assert (batch.prefill_tokens, batch.decode_tokens) == (8, 1)


def test_decodes_may_come_out_of_the_budget() -> None:
    driver = SchedulerDriver(64, chunk_tokens=8, max_running=4, decodes_in_budget=True)
    driver.submit("a", range(4), max_new_tokens=9)
    driver.step()
    driver.submit("b", range(50, 62), max_new_tokens=2)
    batch = driver.step()
    assert (batch.prefill_tokens, batch.decode_tokens) == (7, 1)


def test_prefill_first_decodes_only_when_there_is_nothing_to_prefill() -> None:
    driver = SchedulerDriver(64, chunk_tokens=8, steps="prefill-first")
    driver.submit("a", range(4), max_new_tokens=3)
    driver.step()
    driver.submit("b", range(50, 62), max_new_tokens=2)
    kinds = []
    while not driver.scheduler.is_idle:
        batch = driver.step()
        assert not (batch.chunks and batch.decode_rids)
        kinds.append((batch.prefill_tokens, batch.decode_rids))
    assert kinds == [(8, ()), (4, ()), (0, ("a", "b")), (0, ("a",))]


def test_prefill_first_admits_in_the_step_whose_decodes_all_left() -> None:
    driver = SchedulerDriver(4, steps="prefill-first", output_reserve_ratio=0.0)
    driver.submit("a", range(4), max_new_tokens=9)
    driver.step()
    driver.submit("b", [8, 9], max_new_tokens=1)
    batch = driver.schedule()
    assert driver.ended == {"a": "capacity"}
    assert batch.rids == ("b",)


@pytest.mark.parametrize(
    ("order", "victim"),
    [("least-lost", "c"), ("last-admitted", "c"), ("fewest-output", "b")],
)
def test_the_order_of_retraction_chooses_the_victim(order: str, victim: str) -> None:
    # a: 2 + 4 tokens, b: 6 + 2, c: 1 + 2; then one page is missing.
    driver = SchedulerDriver(14, policy="fcfs", output_reserve_ratio=0.0, retract=order)
    driver.submit("a", [1, 2], max_new_tokens=9)
    driver.step()
    driver.step()
    driver.submit("b", range(10, 16), max_new_tokens=9)
    driver.submit("c", [30], max_new_tokens=9)
    while True:
        batch = driver.step()
        if batch.retracted:
            break
    gone = [rid for rid, state in driver.states.items() if state.retractions]
    assert gone == [victim]
    driver.run()
    assert set(driver.ended) == {"a", "b", "c"}
    assert driver.all_back


@pytest.mark.parametrize(("published", "cached"), [(True, 3), (False, 2)])
def test_a_retraction_may_leave_its_output_out_of_the_cache(published: bool, cached: int) -> None:
    driver = SchedulerDriver(
        8, output_reserve_ratio=0.0, retract="last-admitted", publish_retracted=published
    )
    driver.submit("a", [1, 2], max_new_tokens=9)
    driver.submit("b", [3, 4], max_new_tokens=9)
    while not driver.states["b"].retractions:
        batch = driver.schedule()
        if driver.states["b"].retractions:
            break
        driver.complete(batch)
    assert driver.cached([3, 4, 90]) == cached


def test_the_adaptive_ratio_falls_with_decodes_and_rises_with_a_retraction() -> None:
    ratio = AdaptiveRatio(initial=0.5, least=0.1, decay_steps=4, clip_tokens=8, retract_steps=2)
    driver = SchedulerDriver(12, steps="prefill-first", output_reserve_ratio=ratio)
    reserve = driver.scheduler._life.reserve
    assert isinstance(reserve, AdaptiveReserve)
    driver.submit("a", [1, 2], max_new_tokens=20)
    driver.step()
    assert reserve.ratio == 0.5
    seen = []
    for _ in range(5):
        driver.step()
        seen.append(round(reserve.ratio, 3))
    assert seen == [0.4, 0.3, 0.2, 0.1, 0.1]
    # a has 2 + 6 tokens, and is expected to take 0.1 of 8 more: one page of the other five.
    driver.submit("b", [7, 8], max_new_tokens=2)
    assert [c.rid for c in driver.step().chunks] == ["b"]
    while not driver.states["b"].retractions and "b" not in driver.ended:
        driver.step()
    assert driver.ended == {"b": "length"}
    driver.run()
    assert driver.ended["a"] == "capacity"


def test_the_adaptive_ratio_keeps_a_second_out_while_the_first_is_young() -> None:
    driver = SchedulerDriver(12, output_reserve_ratio=AdaptiveRatio(clip_tokens=8))
    driver.submit("a", [1, 2], max_new_tokens=20)
    driver.submit("b", [7, 8], max_new_tokens=2)
    batch = driver.step()
    # a joined in this step: its prompt and 8 tokens; b would need 3 of the other 2.
    assert [c.rid for c in batch.chunks] == ["a"]
    assert batch.refusal is not None
    assert (batch.refusal.rid, batch.refusal.needed_pages) == ("b", 3)
    assert batch.refusal.available_pages == 2


def test_who_is_alone_is_admitted_whatever_it_asks_for() -> None:
    driver = SchedulerDriver(8, output_reserve_ratio=AdaptiveRatio())
    driver.submit("a", [1, 2], max_new_tokens=4000)
    driver.run()
    assert driver.ended == {"a": "capacity"}
    assert driver.states["a"].output_tokens == 7


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": "both"}, "steps is 'both'"),
        ({"retract": "first"}, "retract is 'first'"),
        ({"decodes_in_budget": True, "chunk_tokens": 8}, "with decodes_in_budget give at least"),
        ({"publish_retracted": None}, "publish_retracted is None"),
        ({"output_reserve_ratio": 1.5}, "from 0 to 1"),
        ({"output_reserve_ratio": True}, "from 0 to 1"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SchedulerConfig(page_size=16, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"initial": 2}, {"least": 0.9}, {"decay_steps": 0}, {"clip_tokens": 0}]
)
def test_a_wrong_adaptive_ratio_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        AdaptiveRatio(**wrong)  # type: ignore[arg-type]
