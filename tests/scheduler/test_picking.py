"""A pass over the candidates is left out only where it would find nobody again."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.batch import StepRecord
from scheduler.config import AdaptiveRatio
from scheduler.picking import Picker
from scheduler.report.recorder import Recorder
from scheduler.sim.presets import PRESETS
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace.single_prompts import few_shot
from tests.models.scheduler_driver import SchedulerDriver

REQUESTS = list(few_shot(3, requests=16, systems=3, example_sets=2, rate_per_s=40))


class Steps(Recorder):
    """Keeps every step whole."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[StepRecord] = []

    def on_step(self, record: StepRecord) -> None:
        super().on_step(record)
        self.records.append(record)


def run(policy: str, **settings: Any) -> tuple[list[StepRecord], list[float], list[float]]:
    config = PRESETS["ours"].config(16, max_running=12, **settings)
    steps = Steps()
    run_policy(REQUESTS, policy, RunSettings(capacity_tokens=4_000, scheduler=config), steps)
    return steps.records, list(steps.finished_s), list(steps.hit_tokens)


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("lpm", {}),
        ("lpm", {"hold": "skip", "max_in_flight": 2, "output_reserve_ratio": 0.2}),
        ("lpm", {"guard_base_tokens": 500, "guard_kappa": 0.0}),
        ("plain-lpm", {"publish": "schedule", "output_reserve_ratio": AdaptiveRatio()}),
        ("spf", {"lookahead": 3, "waiting_aware": True}),
        ("k-lpm", {}),
        ("hrrn", {}),
        ("dfs-weight", {}),
        ("dlpm", {}),
        ("priority+lpm", {"preempt_priority_gap": 1}),
    ],
)
def test_a_run_is_the_same_without_the_memory_of_the_last_pass(
    policy: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    remembering = run(policy, **settings)
    assert max(record.waiting for record in remembering[0]) > 3
    monkeypatch.setattr(Picker, "_none_as_before", lambda self, supply: False)
    monkeypatch.setattr(Picker, "_may_fit", lambda self, candidate, supply: True)
    assert remembering == run(policy, **settings)


def full_pool() -> tuple[SchedulerDriver, list[int]]:
    """Return a driver whose memory one request fills, and the number of looks at the queue."""
    driver = SchedulerDriver(8, policy="plain-lpm")
    driver.submit("a", [1, 2, 3], 6)
    driver.step()
    for number in range(5):
        driver.submit(f"w{number}", [9, number], 2)
    looks: list[int] = []
    queue = driver.scheduler.queue
    candidates = queue.candidates
    looked = type("Looked", (type(queue),), {"__slots__": ()})
    queue.__class__ = looked
    looked.candidates = lambda self: looks.append(1) or candidates()
    return driver, looks


def test_nothing_is_gone_through_while_nothing_changes() -> None:
    driver, looks = full_pool()
    refusals = [driver.step().refusal for _ in range(3)]
    assert len(looks) == 1
    assert refusals == [("w0", 3, 0)] * 3


def test_an_arrival_is_looked_at_at_once() -> None:
    driver, looks = full_pool()
    driver.step()
    driver.submit("b", [7], 1)
    driver.step()
    assert len(looks) == 2


def test_pages_that_others_give_back_are_seen_at_once() -> None:
    driver, _ = full_pool()
    driver.step()
    driver.scheduler.abort("a")
    assert {event.state.rid for event in driver.schedule().events} == {"w0", "w1"}


def test_a_refused_request_fits_once_another_pins_its_hit() -> None:
    # "b" computes [1, 2, 3, 4] beside "old", then pins the copies that "old" left. No page is
    # gained by it, but what "w" finds of them no longer counts as memory to be evicted.
    driver = SchedulerDriver(16, policy="plain-lpm", chunk_tokens=6)
    driver.submit("old", [1, 2, 3, 4], 1)
    driver.submit("b", [1, 2, 3, 4, 6, 6, 6], 6)
    driver.step()
    driver.submit("large", [1, 2, 3, 4, 5], 9)
    driver.submit("w", [1, 2, 3, 4, 5], 4)
    assert driver.step().refusal == ("large", 9, 2)
    assert [event.state.rid for event in driver.step().events] == ["w"]
