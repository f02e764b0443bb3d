from __future__ import annotations

import random
from math import inf

import pytest

from radixcache import PagePool, PrefixKey, RadixCache
from scheduler.config import HoldMode, PublishMode, SchedulerConfig
from scheduler.events import Admitted
from scheduler.overtake_guard import OvertakeGuard
from scheduler.registry import make_schedule_policy
from scheduler.rematch_queue import RematchQueue
from scheduler.request import Request, RequestState
from scheduler.scheduler import Scheduler
from scheduler.waiting_queue import WaitingQueue
from scheduler.waiting_tree import WaitingTree

PAGE = 2


class Replay:
    """A seeded workload through one scheduler; remembers what every step ran."""

    def __init__(
        self,
        queue: type[WaitingTree | RematchQueue],
        *,
        policy: str = "lpm",
        hold: HoldMode | None = None,
        publish: PublishMode = "complete",
        base_tokens: float = inf,
        kappa: float = 0.0,
        capacity_pages: int = 40,
    ) -> None:
        cache = RadixCache(PAGE)
        chosen = make_schedule_policy(policy)
        self.queue: WaitingQueue = queue(cache, chosen)
        self.guard: OvertakeGuard[RequestState] = OvertakeGuard(
            base_tokens=base_tokens, kappa=kappa
        )
        self.scheduler = Scheduler(
            cache,
            PagePool(capacity_pages),
            SchedulerConfig(
                page_size=PAGE,
                chunk_tokens=16,
                max_running=6,
                publish=publish,
                output_reserve_ratio=0.25,
                hold=hold,
            ),
            policy=chosen,
            queue=self.queue,
            guard=self.guard,
        )
        self.states: list[RequestState] = []
        self.admitted: list[int] = []
        self.steps: list[object] = []

    def submit(self, rng: random.Random) -> None:
        tokens = [rng.choice((1, 1, 1, 2)) for _ in range(rng.randrange(1, 24))]
        request = Request(
            rid=f"r{len(self.states)}",
            key=PrefixKey(tokens),
            prompt_tokens=len(tokens),
            max_new_tokens=rng.randrange(1, 12),
        )
        self.states.append(self.scheduler.submit(request, float(len(self.steps))).state)

    def step(self) -> None:
        batch = self.scheduler.schedule(float(len(self.steps)))
        for event in batch.events:
            if isinstance(event, Admitted):
                self.admitted.append(event.state.arrival_seq)
        self.steps.append((batch.rids, batch.chunks, self.scheduler.report().backlog_tokens))
        if not batch.is_empty:
            mid = {chunk.rid for chunk in batch.chunks if not chunk.last}
            tokens = {rid: ([9], None) for rid in batch.rids if rid not in mid}
            self.scheduler.complete(batch, tokens, float(len(self.steps)))
        self.scheduler.check()
        self.queue.check()

    def run(self, seed: int, requests: int, per_step: float, aborts: float = 0.03) -> None:
        rng = random.Random(seed)
        while len(self.states) < requests or not self.scheduler.is_idle:
            while len(self.states) < requests and rng.random() < per_step:
                self.submit(rng)
            alive = [state for state in self.states if not state.ended]
            if alive and rng.random() < aborts:
                self.scheduler.abort(rng.choice(alive).rid)
            self.step()
            assert len(self.steps) < 5_000


@pytest.mark.parametrize("policy", ["lpm", "spf", "fcfs"])
@pytest.mark.parametrize(
    ("hold", "publish"),
    [("stop", "complete"), ("skip", "complete"), ("off", "complete"), ("share", "schedule")],
)
def test_the_scheduler_runs_the_same_steps_as_with_a_plain_queue(
    policy: str, hold: HoldMode, publish: PublishMode
) -> None:
    for seed in range(2):
        tree = Replay(WaitingTree, policy=policy, hold=hold, publish=publish)
        plain = Replay(RematchQueue, policy=policy, hold=hold, publish=publish)
        tree.run(seed, 40, 0.6)
        plain.run(seed, 40, 0.6)
        assert tree.steps == plain.steps


def test_a_guard_without_slack_makes_lpm_first_come_first_served() -> None:
    replay = Replay(WaitingTree, base_tokens=0, capacity_pages=400)
    replay.run(1, 80, 0.8, aborts=0)
    assert replay.admitted == list(range(80))


def test_an_unbounded_guard_leaves_lpm_alone() -> None:
    guarded = Replay(WaitingTree, base_tokens=10**9, kappa=1.0)
    free = Replay(WaitingTree)
    guarded.run(2, 80, 0.8)
    free.run(2, 80, 0.8)
    assert guarded.steps == free.steps
    assert guarded.admitted != sorted(guarded.admitted)


@pytest.mark.parametrize("bound", [(0, 0.25), (20, 0.0), (16, 0.5), (60, 1.0)])
@pytest.mark.parametrize("hold", ["stop", "skip", "off"])
def test_nobody_is_overtaken_beyond_the_bound_it_was_told(
    bound: tuple[float, float], hold: HoldMode
) -> None:
    base, kappa = bound
    for seed in range(2):
        replay = Replay(WaitingTree, hold=hold, base_tokens=base, kappa=kappa)
        replay.run(seed, 50, 0.7)
        for state in replay.states:
            assert state.bound_tokens is not None
            assert state.overtaken_tokens <= state.bound_tokens
        assert 0 < replay.guard.largest_ratio <= 1
        assert replay.scheduler.report().total.forced_admissions == replay.guard.forced_admissions
