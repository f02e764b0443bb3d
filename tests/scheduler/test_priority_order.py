from __future__ import annotations

import pytest

from radixcache import ConfigError, PagePool, PrefixKey, RadixCache
from scheduler.config import SchedulerConfig
from scheduler.overtake_guard import OvertakeGuard
from scheduler.registry import make_schedule_policy
from scheduler.request import Request, RequestState
from scheduler.scheduler import Scheduler


def state(seq: int, prompt_tokens: int, priority: int) -> RequestState:
    request = Request(
        rid=str(seq),
        key=PrefixKey([1] * prompt_tokens),
        prompt_tokens=prompt_tokens,
        max_new_tokens=1,
        priority=priority,
    )
    return RequestState(request, arrival_seq=seq, page_size=1, submitted_s=0.0)


WAITING = [(state(0, 9, 0), 0), (state(1, 2, 1), 0), (state(2, 12, 0), 5), (state(3, 6, 1), 2)]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("priority+fcfs", "1302"),
        ("low-priority+fcfs", "0213"),
        ("priority+lpm", "3120"),
        ("low-priority+lpm", "2031"),
        ("priority+spf", "1320"),
    ],
)
def test_priority_goes_before_the_other_order(name: str, order: str) -> None:
    policy = make_schedule_policy(name)
    key = {s.rid: policy.across(m, policy.within(s)) for s, m in WAITING}
    assert "".join(sorted(key, key=key.__getitem__)) == order


@pytest.mark.parametrize("order", ["fcfs", "lpm", "spf"])
@pytest.mark.parametrize("sign", ["priority", "low-priority"])
def test_across_agrees_with_within_at_equal_matches(order: str, sign: str) -> None:
    policy = make_schedule_policy(f"{sign}+{order}")
    states = [state(seq, 3 + seq * 5 % 7, seq % 3) for seq in range(9)]
    within = sorted(states, key=policy.within)
    assert within == sorted(states, key=lambda s: policy.across(2, policy.within(s)))


def test_hold_and_lookahead_are_those_of_the_other_order() -> None:
    policy = make_schedule_policy("priority+lpm")
    assert (policy.default_hold, policy.default_lookahead) == ("stop", 64)
    assert make_schedule_policy("priority+fcfs").default_lookahead == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("priority+sglang-lpm", "priority cannot go before 'sglang-lpm'"),
        ("priority+", "policy is ''"),
        ("urgent+lpm", "policy is 'urgent[+]lpm'"),
    ],
)
def test_a_name_that_makes_no_order_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_schedule_policy(name)


def make(policy: str, guard: OvertakeGuard[RequestState] | None = None) -> Scheduler:
    config = SchedulerConfig(page_size=1, preempt_priority_gap=1)
    return Scheduler(RadixCache(1), PagePool(8), config, policy=policy, guard=guard)


def test_preemption_for_priority_needs_an_order_with_classes() -> None:
    with pytest.raises(ConfigError, match=r"use 'priority[+]lpm'"):
        make("lpm")
    make("priority+lpm")


def test_a_bounded_guard_needs_classes_for_preemption() -> None:
    with pytest.raises(ConfigError, match=r"class_of=policy\.priority_class"):
        make("priority+lpm", OvertakeGuard(base_tokens=8))
    class_of = make_schedule_policy("priority+lpm").priority_class
    make("priority+lpm", OvertakeGuard(base_tokens=8, class_of=class_of))


@pytest.mark.parametrize("gap", [0, -1, True, 1.5])
def test_the_gap_is_an_int_of_at_least_one(gap: object) -> None:
    with pytest.raises(ConfigError, match="preempt_priority_gap"):
        SchedulerConfig(page_size=1, preempt_priority_gap=gap)  # type: ignore[arg-type]
