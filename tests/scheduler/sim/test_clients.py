"""What clients do beside sending: ask for several answers, and give up."""

from __future__ import annotations

import pytest

from radixcache import PrefixKey
from scheduler.config import SchedulerConfig
from scheduler.report.recorder import Recorder
from scheduler.request import Request, RequestState
from scheduler.sim.closed_loop import ClosedLoop
from scheduler.sim.cost_model import CostModel
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace.sessions import SessionPlan, Turn


class Log(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, RequestState] = {}

    def on_submit(self, state: RequestState) -> None:
        super().on_submit(state)
        self.states[state.rid] = state


def request(
    rid: str, prompt: int, *, at: float = 0.0, output: int = 5, **fields: object
) -> Request:
    return Request(
        rid=rid,
        key=PrefixKey([prompt] * 10),
        prompt_tokens=10,
        max_new_tokens=8,
        arrival_s=at,
        recorded_output_tokens=output,
        **fields,  # type: ignore[arg-type]
    )


def run(requests: list[Request], policy: str = "lpm", pages: int = 64, **config: object) -> Log:
    log = Log()
    settings = RunSettings(
        capacity_tokens=pages * 4,
        scheduler=SchedulerConfig(page_size=4, **config),  # type: ignore[arg-type]
        cost=CostModel(step_s=1.0, per_prefill_token_s=0, per_running_s=0),
    )
    run_policy(requests, policy, settings, log, check_every_step=True)
    return log


def test_a_client_that_gives_up_ends_a_waiting_request() -> None:
    log = run([request("a", 1), request("b", 2, abort_after_s=2.5)], "fcfs", max_running=1)
    assert log.states["b"].finish_reason == "abort"
    assert log.states["b"].finished_s == 2.5
    assert log.states["b"].admitted_s is None
    assert dict(log.ended) == {"stop": 1, "abort": 1}


@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_client_that_gives_up_ends_a_running_request(in_flight: int) -> None:
    log = run([request("a", 1, abort_after_s=2.5), request("b", 2)], max_in_flight=in_flight)
    a, b = log.states["a"], log.states["b"]
    assert (a.finish_reason, a.finished_s) == ("abort", 2.5)
    assert a.output_tokens == 2
    assert b.finish_reason == "stop"


def test_who_is_done_in_time_is_not_aborted_and_the_run_ends_with_the_work() -> None:
    log = run([request("a", 1, abort_after_s=100.0), request("b", 1, at=1.0, abort_after_s=5.0)])
    assert dict(log.ended) == {"stop": 2}
    assert max(log.finished_s) < 10


def test_an_aborted_place_goes_to_the_next_and_no_page_is_lost() -> None:
    rows = [request(f"r{i}", i, at=0.1 * i, abort_after_s=3.0) for i in range(12)]
    log = run(rows, "fcfs", pages=12, max_in_flight=2)
    assert log.ended.total() == 12
    assert log.ended["abort"] > 0


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("wanted", [1, 3])
def test_a_client_that_has_enough_tokens_ends_its_request(in_flight: int, wanted: int) -> None:
    log = run([request("a", 1, abort_after_tokens=wanted), request("b", 2)],
              max_in_flight=in_flight)  # fmt: skip
    a, b = log.states["a"], log.states["b"]
    assert (a.finish_reason, a.output_tokens) == ("abort", wanted)
    assert a.finished_s == wanted
    assert (b.finish_reason, b.output_tokens) == ("stop", 5)


@pytest.mark.parametrize("wanted", [5, 6, 1000])
def test_an_answer_that_ends_by_then_is_not_aborted(wanted: int) -> None:
    log = run([request("a", 1, abort_after_tokens=wanted)])
    assert dict(log.ended) == {"stop": 1}


def test_of_two_reasons_to_give_up_the_first_counts() -> None:
    rows = [
        request("late", 1, abort_after_tokens=2, abort_after_s=1.5),
        request("soon", 2, abort_after_tokens=1, abort_after_s=1.5),
    ]
    log = run(rows)
    assert {rid: s.output_tokens for rid, s in log.states.items()} == {"late": 1, "soon": 1}
    assert {rid: s.finished_s for rid, s in log.states.items()} == {"late": 1.5, "soon": 1.0}


def test_tokens_count_over_a_retraction_and_no_page_is_lost() -> None:
    rows = [request(f"r{i}", i, at=0.1 * i, output=8, abort_after_tokens=7) for i in range(9)]
    log = run(rows, "fcfs", pages=12, max_in_flight=2, output_reserve_ratio=0.0)
    assert sum(s.retractions for s in log.states.values()) > 0
    assert {(s.finish_reason, s.output_tokens) for s in log.states.values()} == {("abort", 7)}


def test_each_sample_of_a_request_has_its_own_count() -> None:
    log = run([request("r", 1, samples=3, abort_after_tokens=2)], "fcfs")
    assert dict(log.ended) == {"abort": 3}
    assert {s.output_tokens for s in log.states.values()} == {2}


def test_a_turn_that_was_aborted_is_followed_by_the_next() -> None:
    def turn(think_s: float, **fields: object) -> Turn:
        return Turn(added=b"\1\0\0\0" * 10, output=b"\2\0\0\0" * 5, think_s=think_s,
                    max_new_tokens=8, **fields)  # type: ignore[arg-type]  # fmt: skip

    plan = SessionPlan(session_id="s", start_s=0, turns=(turn(0, abort_after_s=1.5), turn(4)))
    log = Log()
    settings = RunSettings(
        capacity_tokens=256,
        scheduler=SchedulerConfig(page_size=4),
        cost=CostModel(step_s=1.0, per_prefill_token_s=0, per_running_s=0),
    )
    run_policy(ClosedLoop([plan]), "lpm", settings, log, check_every_step=True)
    assert log.states["s/1"].finish_reason == "abort"
    assert log.states["s/2"].submitted_s == 1.5 + 4


@pytest.mark.parametrize(
    ("policy", "config"),
    [
        ("lpm", {}),
        ("fcfs", {}),
        ("fcfs", {"publish": "schedule"}),
        ("sglang-lpm", {"steps": "prefill-first"}),
        ("lpm", {"hold": "skip"}),
    ],
)
def test_the_prompt_of_several_samples_is_computed_once(
    policy: str, config: dict[str, object]
) -> None:
    log = run([request("r", 1, samples=4), request("s", 2, at=0.5, samples=3)], policy, **config)
    assert log.ended == {"stop": 7}
    hits = {rid: state.hit_tokens for rid, state in log.states.items()}
    assert hits == {"r": 0, "r#2": 8, "r#3": 8, "r#4": 8, "s": 0, "s#2": 8, "s#3": 8}
    # 10 + 3 * 2 and 10 + 2 * 2 tokens: the ideal is 20, each further sample runs its tail of 2.
    assert sum(log.step_prefill_tokens) == 16 + 14


def test_without_a_hold_the_others_are_sent_when_the_first_has_its_token() -> None:
    log = run([request("r", 1, samples=2, abort_after_s=1.2)], "fcfs")
    assert log.states["r#2"].submitted_s == log.states["r"].first_token_s == 1.0
    # Its client has waited since the arrival of the prompt.
    assert {s.finished_s for s in log.states.values()} == {1.2}


def test_a_session_goes_on_when_all_samples_have_ended() -> None:
    turns = tuple(
        Turn(added=b"\1\0\0\0" * 10, output=b"\2\0\0\0" * 5, think_s=t, max_new_tokens=8, samples=n)
        for t, n in ((0, 3), (2, 1))
    )
    log = Log()
    settings = RunSettings(
        capacity_tokens=256,
        scheduler=SchedulerConfig(page_size=4),
        cost=CostModel(step_s=1.0, per_prefill_token_s=0, per_running_s=0),
    )
    source = ClosedLoop([SessionPlan(session_id="s", start_s=0, turns=turns)])
    run_policy(source, "fcfs", settings, log, check_every_step=True)
    last = max(s.finished_s or 0 for rid, s in log.states.items() if rid.startswith("s/1"))
    assert log.states["s/2"].submitted_s == last + 2


def test_samples_that_are_refused_end_their_session_once() -> None:
    long = Turn(added=b"\1\0\0\0" * 999, output=b"\2\0\0\0", think_s=0, max_new_tokens=8, samples=3)
    log = Log()
    settings = RunSettings(capacity_tokens=64, scheduler=SchedulerConfig(page_size=4))
    source = ClosedLoop([SessionPlan(session_id="s", start_s=0, turns=(long, long))])
    run_policy(source, "fcfs", settings, log, check_every_step=True)
    assert dict(log.rejected) == {"larger than the cache": 3}
    assert source.dropped_requests == 1
