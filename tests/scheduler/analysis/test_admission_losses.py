"""The waterfall of a scheduled replay: what others compute is in flight, the rest as looked up."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache import KeyKind, PrefixKey
from scheduler.analysis.admission_losses import AdmissionLosses, WatchedCache
from scheduler.analysis.losses import LossWaterfall, loss_waterfall
from scheduler.config import SchedulerConfig
from scheduler.optimal import optimal_prefill
from scheduler.report.recorder import Recorder
from scheduler.request import Request
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace import make_workload


def request(rid: str, tokens: list[int], at: float = 0.0, **more: object) -> Request:
    key = PrefixKey(tokens)
    return Request(
        rid=rid,
        key=key,
        prompt_tokens=len(key),
        max_new_tokens=4,
        arrival_s=at,
        **more,  # type: ignore[arg-type]
    )


def watched(
    requests: list[Request],
    page_size: int,
    capacity_tokens: int,
    policy: str = "fcfs",
    **config: object,
) -> tuple[LossWaterfall, AdmissionLosses]:
    run = RunSettings(
        capacity_tokens=capacity_tokens,
        scheduler=SchedulerConfig(page_size=page_size, **config),  # type: ignore[arg-type]
    )
    cache = WatchedCache(page_size, kind=KeyKind.TOKENS, policy="lru")
    losses = AdmissionLosses(cache)
    run_policy(requests, policy, run, losses, cache=cache, check_every_step=len(requests) <= 10)
    bound = optimal_prefill(requests, page_size, cached_outputs=True)
    found = losses.waterfall(policy, bound, run.capacity_pages)
    recorder = Recorder()
    run_policy(requests, policy, run, recorder)
    admitted = [hit for hit in recorder.hit_tokens if not math.isnan(hit)]
    assert found.hit_tokens == sum(admitted), "watching changes nothing"
    assert found.requests == len(admitted)
    return found, losses


def parts(found: LossWaterfall) -> tuple[int, ...]:
    return (
        found.hit_tokens,
        found.last_token_tokens,
        found.alignment_tokens,
        found.in_flight_tokens,
        found.evicted_tokens,
        found.compulsory_tokens,
    )


def test_what_another_request_computes_is_in_flight() -> None:
    both = [request("a", list(range(20))), request("b", [*range(10), 7, 7, 7])]
    apart, _ = watched(both, 4, 400, hold="off")
    assert parts(apart) == (0, 0, 0, 8, 0, 25)
    held, _ = watched(both, 4, 400, policy="lpm")
    assert parts(held) == (8, 0, 2, 0, 0, 23)
    early, _ = watched(both, 4, 400, hold="off", publish="schedule")
    assert parts(early) == (8, 0, 2, 0, 0, 23)


def test_samples_of_one_request_share_its_key() -> None:
    found, losses = watched([request("a", list(range(20)), samples=3)], 4, 400, hold="off")
    assert losses.admitted == 3
    assert sum(parts(found)) == 60


def test_who_gives_up_while_waiting_is_not_counted() -> None:
    one = request("a", list(range(40)))
    other = request("b", list(range(50, 90)), abort_after_s=1e-6)
    found, losses = watched([one, other], 4, 44)
    assert (losses.admitted, losses.never_admitted) == (1, 1)
    assert found.prompt_tokens == 40
    _, losses = watched([request("c", list(range(100)))], 4, 44)
    assert losses.never_admitted == 1


def test_the_best_order_is_that_of_all_requests() -> None:
    same = [request(name, list(range(40)), abort_after_s=1e-6) for name in "abcd"]
    found, losses = watched(same, 4, 44, hold="off")
    assert losses.never_admitted
    assert found.dfs_optimal_hit_rate == pytest.approx(3 * 36 / 160)


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "sglang-lpm"])
def test_without_a_queue_it_is_the_lookup(policy: str) -> None:
    requests = [
        replace(
            one,
            arrival_s=1_000.0 * number,
            recorded_output_ids=(one.recorded_output_ids or ())[:40],
            recorded_output_tokens=40,
        )
        for number, one in enumerate(make_workload("chat", seed=2, size=6))
    ]
    found, _ = watched(requests, 16, 4_000_000, policy)
    looked_up = loss_waterfall(requests, 16)
    assert parts(found) == parts(looked_up)
    assert found.dfs_optimal_hit_tokens == looked_up.dfs_optimal_hit_tokens


prompts = st.lists(
    st.builds(
        lambda tokens, at: (tokens, at),
        st.lists(st.integers(0, 1), min_size=1, max_size=14),
        st.sampled_from([0.0, 0.001, 0.05]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=40)
@given(
    prompts,
    st.integers(1, 3),
    st.sampled_from(["fcfs", "lpm", "sglang-lpm", "random"]),
    st.sampled_from([21, 60, 3_000]),
    st.booleans(),
)
def test_parts_add_up_under_any_order(
    drawn: list[tuple[list[int], float]],
    page_size: int,
    policy: str,
    capacity_tokens: int,
    retracting: bool,
) -> None:
    requests = [
        request(str(index), tokens, at, recorded_output_ids=(5, 6, 7))
        for index, (tokens, at) in enumerate(sorted(drawn, key=lambda one: one[1]))
    ]
    reserve = 0.0 if retracting else 1.0
    found, losses = watched(
        requests, page_size, capacity_tokens, policy, output_reserve_ratio=reserve
    )
    assert losses.admitted + losses.never_admitted == len(requests)
    assert min(parts(found)) >= 0
    assert sum(parts(found)) == found.prompt_tokens
    if capacity_tokens == 3_000:
        assert found.evicted_tokens == 0
        assert found.prompt_tokens == sum(one.prompt_tokens for one in requests)
