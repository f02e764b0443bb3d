"""What a request is told of its bound on arrival, in tokens and in seconds of prefill."""

from __future__ import annotations

import pytest

from tests.models.scheduler_driver import SchedulerDriver

RATE = 1000.0


def guarded(**config: object) -> SchedulerDriver:
    return SchedulerDriver(
        400, max_running=1, chunk_tokens=10, guard_kappa=0.5, lookahead=0, **config
    )


def hot_stream(d: SchedulerDriver, passes: int) -> None:
    """Let requests with a cached prefix arrive one by one, after a cold one of 20 tokens."""
    d.submit("seed", range(100))
    while not d.scheduler.is_idle:
        d.step()
    d.submit("cold", range(1000, 1020))
    for n in range(passes):
        d.submit(f"hot{n}", [*range(100), 200 + n, 7])
        d.step()


def test_a_ticket_tells_the_bound_in_tokens_and_in_seconds() -> None:
    d = guarded(prefill_tokens_per_s=RATE)
    first = d.submit("first", range(60))
    assert (first.bound_tokens, first.bound_s) == (40, 0.04)  # four chunks, nobody waits
    second = d.submit("second", range(100, 140))
    assert (second.bound_tokens, second.bound_s) == (40 + 60 // 2, 0.07)
    assert second.state.bound_s == second.bound_s


@pytest.mark.parametrize("policy", ["lpm", "priority+lpm", "lpm-fcfs-ties"])
def test_later_arrivals_put_no_more_seconds_of_prefill_before_a_request(policy: str) -> None:
    d = guarded(prefill_tokens_per_s=RATE, policy=policy)
    hot_stream(d, 40)
    cold = d.states["cold"]
    later = [s for s in d.states.values() if s.arrival_seq > cold.arrival_seq]
    assert cold.bound_s is not None
    assert cold.admitted_s is not None
    before = [s for s in later if s.admitted_s is not None and s.admitted_s < cold.admitted_s]
    tokens = sum(s.prompt_tokens - (s.hit_tokens or 0) for s in before)
    assert tokens == cold.overtaken_tokens > 0
    assert tokens / RATE <= cold.bound_s


def test_the_report_tells_the_largest_overtake_in_seconds() -> None:
    d = guarded(prefill_tokens_per_s=RATE)
    hot_stream(d, 40)
    report = d.scheduler.report()
    assert report.largest_overtaken_tokens == d.states["cold"].overtaken_tokens > 0
    assert report.largest_overtaken_s == report.largest_overtaken_tokens / RATE


def test_without_a_rate_or_a_bound_there_are_no_seconds() -> None:
    d = guarded()
    ticket = d.submit("r", range(10))
    assert (ticket.bound_tokens, ticket.bound_s) == (40, None)
    assert d.scheduler.report().largest_overtaken_s is None
    d = SchedulerDriver(400, policy="fcfs", prefill_tokens_per_s=RATE)
    ticket = d.submit("r", range(10))
    assert (ticket.bound_tokens, ticket.bound_s) == (None, None)
    assert d.scheduler.report().largest_overtaken_s == 0


def test_a_rate_changes_no_decision() -> None:
    admitted = []
    for rate in (None, 1.0, 1e9):
        d = guarded(prefill_tokens_per_s=rate)
        hot_stream(d, 40)
        admitted.append([(s.rid, s.admitted_s, s.overtaken_tokens) for s in d.states.values()])
    assert admitted[0] == admitted[1] == admitted[2]
