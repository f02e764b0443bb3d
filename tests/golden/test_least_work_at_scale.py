"""All requests at time 0, in continuous batching: lpm does exactly C* of prefill work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from pathlib import Path

import pytest

from radixcache import KeyKind, PagePool, RadixCache
from scheduler.config import HoldMode, PublishMode, SchedulerConfig
from scheduler.optimal import optimal_prefill
from scheduler.request import Request
from scheduler.scheduler import Scheduler
from scheduler.trace import few_shot, open_trace

MODES = [("stop", "complete"), ("share", "schedule")]


def prefill_work(
    requests: Sequence[Request],
    page_size: int,
    capacity_tokens: int,
    kind: KeyKind,
    hold: HoldMode,
    publish: PublishMode,
    policy: str = "lpm",
) -> int:
    scheduler = Scheduler(
        RadixCache(page_size, kind=kind),
        PagePool(capacity_tokens // page_size),
        SchedulerConfig(page_size=page_size, guard_base_tokens=inf, hold=hold, publish=publish),
        policy=policy,
    )
    for request in requests:
        scheduler.submit(replace(request, max_new_tokens=1, cache_output="none"), 0.0)
    work = 0
    while not scheduler.is_idle:
        batch = scheduler.schedule(0.0)
        work += batch.prefill_tokens
        done = [chunk.rid for chunk in batch.chunks if chunk.last]
        scheduler.complete(batch, {rid: ([1], None) for rid in done}, 0.0)
    return work


@pytest.mark.parametrize(("hold", "publish"), MODES)
@pytest.mark.parametrize("capacity_tokens", [4096, 8192, 16_384, 65_536])
def test_few_shot(capacity_tokens: int, hold: HoldMode, publish: PublishMode) -> None:
    requests = list(few_shot(0, requests=600))
    work = prefill_work(requests, 64, capacity_tokens, KeyKind.TOKENS, hold, publish)
    assert work == optimal_prefill(requests, 64).prefill_tokens


def test_ties_that_age_reach_it_too() -> None:
    requests = list(few_shot(0, requests=600))
    mode: tuple[HoldMode, PublishMode] = ("stop", "complete")
    work = prefill_work(requests, 64, 4096, KeyKind.TOKENS, *mode, "lpm-aged-ties")
    assert work == optimal_prefill(requests, 64).prefill_tokens


@pytest.mark.parametrize(("hold", "publish"), MODES)
@pytest.mark.parametrize("capacity_tokens", [131_072, 262_144])
def test_mooncake(
    shared_dir: Path, capacity_tokens: int, hold: HoldMode, publish: PublishMode
) -> None:
    trace = open_trace(shared_dir / "traces" / "mooncake_conversation.jsonl.gz")
    requests = list(islice(trace, 2000))
    work = prefill_work(requests, 512, capacity_tokens, KeyKind.BLOCKS, hold, publish)
    assert work == optimal_prefill(requests, 512).prefill_tokens == 19_375_726
