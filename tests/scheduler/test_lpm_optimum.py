"""Longest prefix first with short ties does the least prefill work there is."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PagePool, PrefixKey, RadixCache
from scheduler.config import SchedulerConfig
from scheduler.request import Request
from scheduler.scheduler import Scheduler

PROMPTS = st.lists(
    st.lists(st.integers(0, 1), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12
)


def least_work(prompts: list[tuple[int, ...]], page_size: int) -> int:
    """C*, straight from its definition."""
    ends: dict[tuple[int, ...], int] = {}
    work = 0
    for prompt in prompts:
        full = len(prompt) // page_size * page_size
        work += len(prompt) - full
        for stop in range(page_size, full + 1, page_size):
            ends.setdefault(prompt[:stop], 0)
        if full == len(prompt):
            ends[prompt] += 1
    return work + page_size * sum(max(1, count) for count in ends.values())


def work_done(
    prompts: list[tuple[int, ...]], page_size: int, capacity_pages: int, **options: Any
) -> int:
    eviction = options.pop("eviction", "lru")
    scheduler = Scheduler(
        RadixCache(page_size, policy=eviction),
        PagePool(capacity_pages),
        SchedulerConfig(page_size=page_size, guard_base_tokens=inf, **options),
    )
    for number, prompt in enumerate(prompts):
        scheduler.submit(
            Request(
                rid=str(number),
                key=PrefixKey(prompt),
                prompt_tokens=len(prompt),
                max_new_tokens=1,
            ),
            0.0,
        )
    work = 0
    while not scheduler.is_idle:
        batch = scheduler.schedule(0.0)
        work += batch.prefill_tokens
        done = [chunk.rid for chunk in batch.chunks if chunk.last]
        scheduler.complete(batch, {rid: ([5], None) for rid in done}, 0.0)
    return work


@pytest.mark.parametrize("eviction", ["lru", "mru", "fifo"])
@given(prompts=PROMPTS, page_size=st.sampled_from([1, 2, 3]))
def test_one_at_a_time_it_reaches_the_optimum_at_the_least_capacity(
    eviction: str, prompts: list[tuple[int, ...]], page_size: int
) -> None:
    capacity = max(-(-len(prompt) // page_size) for prompt in prompts)
    work = work_done(prompts, page_size, capacity, max_running=1, eviction=eviction)
    assert work == least_work(prompts, page_size)


@pytest.mark.parametrize(
    ("hold", "publish"), [("stop", "complete"), ("stop", "schedule"), ("share", "schedule")]
)
@given(prompts=PROMPTS, page_size=st.sampled_from([1, 2]), chunk=st.integers(1, 20))
def test_in_continuous_batching_it_reaches_the_optimum_with_room_for_all(
    hold: str, publish: str, prompts: list[tuple[int, ...]], page_size: int, chunk: int
) -> None:
    work = work_done(
        prompts, page_size, 200, max_running=4, hold=hold, publish=publish, chunk_tokens=chunk
    )
    assert work == least_work(prompts, page_size)
