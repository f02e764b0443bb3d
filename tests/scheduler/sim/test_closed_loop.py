from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest

from radixcache import KeyKind
from radixcache.errors import ConfigError, InvalidInputError
from scheduler.config import SchedulerConfig
from scheduler.report.recorder import Recorder
from scheduler.request import Request, RequestState
from scheduler.sim.closed_loop import ClosedLoop
from scheduler.sim.cost_model import CostModel
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace.chat_sessions import chat
from scheduler.trace.sessions import SessionPlan, Turn


def ids(*tokens: int) -> bytes:
    return array("I", tokens).tobytes()


def turn(added: bytes, output: bytes, think_s: float = 0.0) -> Turn:
    return Turn(added=added, output=output, think_s=think_s, max_new_tokens=8)


def plan(name: str, start_s: float, *thinks: float) -> SessionPlan:
    first = sum(name.encode())
    turns = [turn(ids(first, 7 * i, i), ids(first + 1, i), t) for i, t in enumerate((0.0, *thinks))]
    return SessionPlan(session_id=name, start_s=start_s, turns=tuple(turns))


def ended(request: Request, reason: str = "stop") -> RequestState:
    state = RequestState(request, arrival_seq=0, page_size=1, submitted_s=0)
    state.finish_reason = reason
    return state


class Log(Recorder):
    """Keeps who was submitted and who ended, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[RequestState] = []

    def on_submit(self, state: RequestState) -> None:
        super().on_submit(state)
        self.states.append(state)


def settings(pages: int = 1024, page_size: int = 2) -> RunSettings:
    config = SchedulerConfig(page_size=page_size, chunk_tokens=64)
    cost = CostModel(step_s=1.0, per_prefill_token_s=0, per_running_s=0)
    return RunSettings(capacity_tokens=pages * page_size, scheduler=config, cost=cost)


def test_a_turn_arrives_a_think_time_after_the_answer_before() -> None:
    log = Log()
    run_policy(ClosedLoop([plan("a", 3.0, 5.0, 0.5)]), "lpm", settings(), log)
    one, two, three = log.states
    assert [s.rid for s in log.states] == ["a/1", "a/2", "a/3"]
    assert one.submitted_s == 0.0
    assert one.finished_s is not None
    assert two.finished_s is not None
    assert two.submitted_s == one.finished_s + 5.0
    assert three.submitted_s == two.finished_s + 0.5


def test_a_prompt_extends_the_prompt_and_the_recorded_answer_before() -> None:
    log = Log()
    run_policy(ClosedLoop([plan("a", 0, 1, 1)]), "lpm", settings(), log, check_every_step=True)
    one, two, three = (s.request for s in log.states)
    assert two.key.tokens()[:5] == [*one.key.tokens(), *(one.recorded_output_ids or ())]
    assert three.key.tokens()[:10] == [*two.key.tokens(), *(two.recorded_output_ids or ())]
    # 3 + 2 tokens, of which the last sampled one has no KV: 4; then 4 of 4.
    assert [s.hit_tokens for s in log.states] == [0, 4, 8]


def test_only_starts_are_scaled() -> None:
    source = ClosedLoop([plan("a", 10, 4), plan("b", 20)], start_scale=0.5)
    assert source.next_arrival_s() == 0.0
    first = source.pop()
    assert source.next_arrival_s() == 5.0
    source.finished(ended(first), 2.0)
    assert source.pop().rid == "b/1"
    assert source.next_arrival_s() == 6.0


def test_ties_go_to_the_session_that_started_first() -> None:
    source = ClosedLoop([plan("a", 0, 0), plan("b", 1, 0), plan("c", 1)])
    first = source.pop()
    source.finished(ended(first), 1.0)
    order = [source.pop() for _ in range(3)]
    assert [r.rid for r in order] == ["a/2", "b/1", "c/1"]
    assert source.next_arrival_s() is None


def test_a_session_without_turns_never_shows() -> None:
    empty = SessionPlan(session_id="empty", start_s=0, turns=())
    source = ClosedLoop([empty, plan("a", 4), empty])
    assert source.pop().rid == "a/1"
    assert source.next_arrival_s() is None


@pytest.mark.parametrize(("reason", "goes_on"), [("abort", True), ("capacity", False)])
def test_an_abort_goes_on_as_recorded_and_a_capacity_end_ends_the_session(
    reason: str, goes_on: bool
) -> None:
    source = ClosedLoop([plan("a", 0, 3, 3)])
    source.finished(ended(source.pop(), reason), 1.0)
    assert source.next_arrival_s() == (4.0 if goes_on else None)
    assert source.dropped_requests == (0 if goes_on else 2)


def test_a_refused_turn_ends_its_session_only() -> None:
    log = Log()
    long = SessionPlan(
        session_id="long",
        start_s=0,
        turns=(turn(ids(1, 2), ids(3)), turn(ids(*range(100, 140)), ids(4)), turn(ids(5), ids(6))),
    )
    source = ClosedLoop([long, plan("a", 0, 2)], expected_requests=5)
    run_policy(source, "lpm", settings(pages=12), log, check_every_step=True)
    assert [s.rid for s in log.states] == ["long/1", "a/1", "a/2"]
    assert dict(log.rejected) == {"larger than the cache": 1}
    assert source.dropped_requests == 1
    assert source.expected_requests == 5


def test_sessions_are_read_when_the_clock_reaches_them() -> None:
    read = []

    def sessions() -> Iterator[SessionPlan]:
        for index in range(50):
            read.append(index)
            yield plan(f"s{index}", 100.0 * index, 1.0)

    source = ClosedLoop(sessions())
    for _ in range(10):
        source.finished(ended(source.pop()), 0.0)
    assert len(read) <= 11
    run_policy(ClosedLoop(sessions()), "lpm", settings(), Recorder())
    source = ClosedLoop(sessions())
    run_policy(source, "lpm", settings(), Recorder())
    assert source.most_live_sessions == 1


def test_each_request_is_adapted_before_it_is_sent() -> None:
    def doubled(request: Request) -> Request:
        return Request(
            rid=request.rid, key=request.key, prompt_tokens=request.prompt_tokens, max_new_tokens=99
        )

    assert ClosedLoop([plan("a", 0)], adapt=doubled).pop().max_new_tokens == 99


def test_a_bad_scale_and_starts_that_go_back_are_refused() -> None:
    with pytest.raises(ConfigError, match="start scale"):
        ClosedLoop([], start_scale=0)
    source = ClosedLoop([plan("a", 5), plan("b", 6), plan("c", 4)])
    source.pop()
    with pytest.raises(InvalidInputError, match="c starts before"):
        source.pop()


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "sglang-lpm"])
def test_every_turn_of_a_chat_ends_once_and_the_run_repeats(policy: str) -> None:
    workload = chat(3, sessions=5, mean_turns=3, think_s=2)

    def once() -> tuple[list[tuple[str, float | None]], int]:
        log = Log()
        config = SchedulerConfig(page_size=64)
        run = RunSettings(capacity_tokens=64 * 256, scheduler=config, kind=KeyKind.TOKENS)
        run_policy(ClosedLoop(workload.sessions()), policy, run, log)
        return [(s.rid, s.finished_s) for s in log.states], log.ended.total()

    turns = sum(len(session.turns) for session in workload.sessions())
    states, count = once()
    assert count == turns == len(states)
    assert (states, count) == once()
