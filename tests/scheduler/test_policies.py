"""The orders: keys only."""

from __future__ import annotations

import pytest

from radixcache import PrefixKey
from scheduler.policies import SchedulePolicy
from scheduler.registry import SCHEDULE_POLICIES, make_schedule_policy
from scheduler.request import Request, RequestState


def state(seq: int, prompt_tokens: int) -> RequestState:
    request = Request(
        rid=str(seq),
        key=PrefixKey([1] * prompt_tokens),
        prompt_tokens=prompt_tokens,
        max_new_tokens=1,
    )
    return RequestState(request, arrival_seq=seq, page_size=1, submitted_s=0.0)


def ranked(policy: SchedulePolicy, *waiting: tuple[RequestState, int]) -> str:
    key = {s.rid: policy.across(m, policy.within(s)) for s, m in waiting}
    return "".join(sorted(key, key=key.__getitem__))


@pytest.mark.parametrize(
    ("name", "order"), [("fcfs", "0123"), ("lpm", "2310"), ("spf", "1320"), ("sglang-lpm", "2301")]
)
def test_orders(name: str, order: str) -> None:
    policy = make_schedule_policy(name)
    waiting = ((state(0, 9), 0), (state(1, 2), 0), (state(2, 12), 5), (state(3, 6), 2))
    assert ranked(policy, *waiting) == order


def test_lpm_prefers_the_shorter_of_equal_matches() -> None:
    waiting = ((state(0, 9), 4), (state(1, 8), 4), (state(2, 8), 4))
    assert ranked(make_schedule_policy("lpm"), *waiting) == "120"


@pytest.mark.parametrize("name", sorted(SCHEDULE_POLICIES))
def test_across_agrees_with_within_at_equal_matches(name: str) -> None:
    policy = make_schedule_policy(name)
    states = [state(seq, n) for seq, n in enumerate([5, 3, 9, 3, 7])]
    within = sorted(states, key=policy.within)
    assert within == sorted(states, key=lambda s: policy.across(2, policy.within(s)))
