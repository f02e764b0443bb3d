"""Who gives its pages back, and what becomes of it."""

from __future__ import annotations

from collections import deque

import pytest

from radixcache import NullCache, PagePool, PrefixKey
from scheduler.batch import Batch
from scheduler.config import SchedulerConfig, StepMode
from scheduler.events import Admitted, Finished, Retracted
from scheduler.request import Request, RequestStatus
from scheduler.retraction import choose_victim, lost_tokens, victim_key
from scheduler.scheduler import Scheduler
from tests.models.scheduler_driver import SchedulerDriver


def runs(d: SchedulerDriver) -> dict[str, int]:
    running = d.scheduler._life.running
    return {rid: lost_tokens(run, running, 1) for rid, run in running.by_rid.items()}


def victim(d: SchedulerDriver) -> str:
    running = d.scheduler._life.running
    return choose_victim(running, victim_key("least-lost", running, 1, lambda state: 0)).state.rid


def test_the_one_with_least_unpublished_work_goes() -> None:
    d = SchedulerDriver(40, max_tokens_per_step=3)
    d.submit("a", [1, 2], max_new_tokens=9)
    d.submit("b", [3, 4], max_new_tokens=9)
    d.step()
    d.step({"a": ([5, 6, 7], None), "b": ([5], None)})
    assert runs(d) == {"a": 3, "b": 1}
    assert victim(d) == "b"


def test_among_equals_the_latest_arrival_goes() -> None:
    d = SchedulerDriver(40, max_running=2, policy="spf")
    d.submit("long", [1, 2, 3], max_new_tokens=9)
    d.submit("short", [4, 5], max_new_tokens=9)
    d.step()
    assert list(runs(d)) == ["short", "long"]
    assert victim(d) == "short"


def test_a_retracted_request_keeps_its_arrival_and_its_work() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0, policy="fcfs")
    d.submit("a", [1, 2], max_new_tokens=6)
    d.submit("b", [3, 4], max_new_tokens=6)
    while not d.states["b"].retractions:
        d.step()
    state = d.states["b"]
    assert (state.status, state.arrival_seq, state.retractions) == (RequestStatus.WAITING, 1, 1)
    assert state.prefill_tokens == 2 + state.output_tokens
    # All its computed pages went to the cache, but for what "a" needed at once.
    assert d.cached([3, 4, 90, 90]) >= 3
    d.run()
    assert d.ended == {"a": "length", "b": "length"}
    assert state.first_token_s is not None
    assert state.resumed_tokens + state.recomputed_tokens >= state.retracted_tokens - 1
    assert state.hit_tokens == 0


def test_a_victim_in_flight_gives_its_pages_when_its_step_completes() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0, policy="fcfs", max_in_flight=2)
    d.submit("a", [1, 2], max_new_tokens=7)
    d.submit("b", [3, 4], max_new_tokens=7)
    flights = [d.schedule(), d.schedule()]
    while not d.states["b"].retractions:
        d.complete(flights.pop(0))
        flights.append(d.schedule())
    # "a" needs the pages of "b", which the step before still writes: it waits one step.
    assert flights.pop().is_empty
    sampled = d.states["b"].output_tokens
    d.complete(flights.pop(0))
    assert d.states["b"].output_tokens == sampled
    assert d.schedule().rids == ("a",)


@pytest.mark.parametrize(
    ("steps", "tokens_per_step", "prompts"),
    [("mixed", 3, (5, 2)), ("prefill-first", 1, (5, 4))],
)
def test_nobody_takes_the_pages_that_a_decode_waits_for(
    steps: str, tokens_per_step: int, prompts: tuple[int, int]
) -> None:
    d = SchedulerDriver(
        9,
        policy="fcfs",
        caching=False,
        chunk_tokens=sum(prompts),
        output_reserve_ratio=0.0,
        max_in_flight=2,
        max_tokens_per_step=tokens_per_step,
        steps=steps,
    )
    d.submit("a", range(prompts[0]), max_new_tokens=4)
    d.submit("b", range(70, 70 + prompts[1]), max_new_tokens=2)
    flights: deque[Batch] = deque()
    for _ in range(40):
        while len(flights) < 2 and not (batch := d.schedule()).is_empty:
            flights.append(batch)
        if flights:
            d.complete(flights.popleft())
    # "b" was retracted for "a" while in flight; admitted before "a" ran, it would be again.
    assert d.states["b"].retractions
    assert d.ended == {"a": "length", "b": "length"}
    assert d.all_back


def test_the_place_of_one_that_ended_is_used_in_the_same_step() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0, policy="fcfs")
    d.serve("kept", [70, 71])
    pin = d.cache.match(PrefixKey([70, 71]))
    d.submit("a", [1, 2], max_new_tokens=9)
    d.submit("b", [3], max_new_tokens=9)
    kinds: list[type] = []
    while Finished not in kinds:
        batch = d.schedule()
        kinds = [type(event) for event in batch.events]
        if not batch.is_empty:
            d.complete(batch)
    # Somebody keeps two pages pinned: "a" finds no more room, even alone; "b" goes on.
    assert kinds == [Finished, Admitted]
    assert d.ended["a"] == "capacity"
    d.run()
    assert d.states["b"].retractions == 1
    assert Retracted not in kinds
    d.cache.release(pin)
    assert d.all_back


def test_a_step_cut_at_the_pool_s_end_takes_no_more_tokens_than_it_has_pages_for() -> None:
    d = SchedulerDriver(6, output_reserve_ratio=0.0, max_tokens_per_step=3)
    d.submit("r", [1, 2, 3], max_new_tokens=30)
    d.step()
    d.step({"r": ([5, 6], None)})
    batch = d.schedule()
    assert (batch.positions.tolist(), batch.lengths.tolist()) == ([5], [6])
    d.complete(batch, {"r": ([7, 8, 9], None)})
    assert list(d.states["r"].outputs) == [90, 5, 6, 7]
    assert d.schedule().is_empty
    assert d.ended == {"r": "capacity"}
    assert d.all_back


@pytest.mark.parametrize("steps", ["mixed", "prefill-first"])
@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_nobody_is_admitted_before_those_that_starve(in_flight: int, steps: StepMode) -> None:
    """The page a victim gave back must not go to the victim again, step after step."""
    config = SchedulerConfig(
        page_size=2,
        max_running=2,
        max_in_flight=in_flight,
        max_tokens_per_step=3,
        steps=steps,
        output_reserve_ratio=0.0,
        retract="last-admitted",
        publish_retracted=False,
    )
    scheduler = Scheduler(NullCache(2), PagePool(6), config, policy="fcfs")
    for rid, prompt, most in (("long", 8, 4), ("short", 2, 8)):
        key = PrefixKey(range(prompt))
        request = Request(rid=rid, key=key, prompt_tokens=prompt, max_new_tokens=most)
        scheduler.submit(request, 0.0)
    flights: deque[Batch] = deque()
    for _ in range(100):
        while len(flights) < in_flight and not (batch := scheduler.schedule(0.0)).is_empty:
            flights.append(batch)
        if not flights:
            break
        batch = flights.popleft()
        done = [chunk.rid for chunk in batch.chunks if chunk.last]
        scheduler.complete(batch, {rid: ([1], None) for rid in (*done, *batch.decode_rids)}, 0.0)
        scheduler.check()
    assert scheduler.is_idle
    assert scheduler.report().total.finished == 2
