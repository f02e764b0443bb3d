"""Settings of a run."""

from __future__ import annotations

import pytest

from radixcache import LFU, MRU, ConfigError, EvictionPolicy, Node
from scheduler.config import SchedulerConfig
from scheduler.report.recorder import Recorder
from scheduler.sim.run import RunSettings, build_scheduler, run_policy
from scheduler.trace.single_prompts import few_shot

REQUESTS = list(few_shot(2, requests=40, systems=4, example_sets=2, rate_per_s=40))
CONFIG = SchedulerConfig(page_size=16, max_running=4)


class NewestFirst(EvictionPolicy):
    """What ``MRU`` is, from outside."""

    def rank(self, node: Node) -> int:
        return -node.tick


def hits(eviction: str | type[EvictionPolicy] | EvictionPolicy) -> list[float]:
    recorder = Recorder()
    settings = RunSettings(capacity_tokens=8_000, scheduler=CONFIG, eviction=eviction)
    run_policy(REQUESTS, "fcfs", settings, recorder)
    assert recorder.evicted_pages
    return list(recorder.hit_tokens)


@pytest.mark.parametrize("eviction", [MRU, MRU(), NewestFirst])
def test_eviction_is_a_name_a_class_or_a_policy(
    eviction: type[EvictionPolicy] | EvictionPolicy,
) -> None:
    assert hits(eviction) == hits("mru")
    assert hits(eviction) != hits(LFU)


def test_an_eviction_policy_nobody_knows_is_refused() -> None:
    settings = RunSettings(capacity_tokens=8_000, scheduler=CONFIG, eviction="best")
    with pytest.raises(ConfigError, match="best"):
        build_scheduler(settings, "fcfs")
