from math import inf

import pytest

from radixcache import NullCache, PagePool, RadixCache
from radixcache.errors import ConfigError
from scheduler import Scheduler, SchedulerConfig
from scheduler.orders import Prioritized
from scheduler.policies import FCFS, SchedulePolicy
from scheduler.queues import make_guard
from scheduler.registry import SCHEDULE_POLICIES, make_schedule_policy
from scheduler.waiting_tree import WaitingTree


@pytest.mark.parametrize("name", sorted(SCHEDULE_POLICIES))
def test_each_name_makes_a_policy_of_that_name(name):
    policy = make_schedule_policy(name)
    assert policy.name == name
    assert make_schedule_policy(name) is not policy


@pytest.mark.parametrize("name", ["", "LPM", "lpm ", "priority+", "priority+nobody", "lpm+spf"])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ConfigError, match=r"fcfs, .*lpm"):
        make_schedule_policy(name)


def test_priority_goes_before_any_static_order_and_takes_its_defaults():
    policy = make_schedule_policy("priority+lpm")
    assert isinstance(policy, Prioritized)
    assert policy.default_hold == "stop"
    assert policy.default_guard
    for name in ("hrrn", "dlpm", "k-lpm", "dfs-weight", "lpm-aging", "sglang-lpm"):
        with pytest.raises(ConfigError, match="no static key"):
            make_schedule_policy(f"priority+{name}")


class _Entry:
    def __init__(self, made):
        self.name, self.value, self._made = "mine", "module:Mine", made

    def load(self):
        return self._made


def test_a_plugged_in_order_is_found_by_name(monkeypatch):
    class Mine(FCFS):
        name = "mine"

    monkeypatch.setattr("scheduler.registry.entry_points", lambda group: [_Entry(Mine)])
    assert isinstance(make_schedule_policy("mine"), Mine)
    monkeypatch.setattr("scheduler.registry.entry_points", lambda group: [_Entry(dict)])
    with pytest.raises(ConfigError, match="makes a dict"):
        make_schedule_policy("mine")


def scheduler_of(policy, cache=None, **settings):
    cache = cache or RadixCache(4)
    return Scheduler(cache, PagePool(64), SchedulerConfig(page_size=4, **settings), policy=policy)


def test_the_default_order_holds_guards_and_spares():
    scheduler = scheduler_of("lpm", chunk_tokens=100)
    assert scheduler.hold == "stop"
    assert scheduler.waiting_aware
    assert scheduler.guard.describe() == "400 tokens + 0.5 of the backlog at arrival"


@pytest.mark.parametrize("name", ["fcfs", "spf", "sglang-lpm", "plain-lpm", "hrrn", "k-lpm"])
def test_baselines_neither_hold_nor_guard_nor_spare(name):
    scheduler = scheduler_of(name)
    assert scheduler.hold == "off"
    assert not scheduler.waiting_aware
    assert scheduler.guard.describe() == "off"


def test_settings_win_over_the_policy():
    scheduler = scheduler_of(
        "fcfs", guard_base_tokens=12, guard_kappa=0.25, waiting_aware=True, hold="skip"
    )
    assert scheduler.guard.describe() == "12 tokens + 0.25 of the backlog at arrival"
    assert scheduler.waiting_aware
    assert scheduler.hold == "skip"
    assert scheduler_of("lpm", guard_base_tokens=inf).guard.describe() == "off"


def test_a_cache_that_cannot_spare_is_left_alone():
    scheduler = scheduler_of("lpm", cache=NullCache(4))
    assert isinstance(scheduler.queue, WaitingTree)


@pytest.mark.parametrize(
    "settings",
    [
        {"guard_base_tokens": -1},
        {"guard_base_tokens": 1.5},
        {"guard_base_tokens": float("nan")},
        {"guard_base_tokens": True},
        {"guard_kappa": -0.5},
        {"guard_kappa": inf},
        {"guard_kappa": "1"},
        {"waiting_aware": "yes"},
    ],
)
def test_guard_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        SchedulerConfig(page_size=4, **settings)


def test_a_priority_order_guards_within_its_classes():
    policy = make_schedule_policy("priority+lpm")
    guard = make_guard(policy, SchedulerConfig(page_size=4))
    assert isinstance(policy, SchedulePolicy)
    assert guard.bounded
