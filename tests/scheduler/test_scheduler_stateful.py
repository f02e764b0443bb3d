"""The scheduler against an engine that reads every slot, under random calls."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from radixcache import (
    Namespace,
    NullCache,
    PagePool,
    PrefixCache,
    PrefixHandle,
    PrefixKey,
    RadixCache,
    RequestTooLargeError,
)
from scheduler.batch import Batch
from scheduler.config import AdaptiveRatio, SchedulerConfig
from scheduler.events import Event
from scheduler.overtake_guard import OvertakeGuard
from scheduler.policies import SchedulePolicy
from scheduler.registry import make_schedule_policy
from scheduler.rematch_queue import RematchQueue
from scheduler.request import Request, RequestState
from scheduler.scheduler import Scheduler
from tests.models.scheduler_model import EngineModel, token_of

SPACES = [Namespace(), Namespace.of(extra_key="b")]


class Setup:
    """One scheduler with its own cache and pool."""

    def __init__(self, options: dict[str, object], *, plain_queue: bool) -> None:
        page_size = int(str(options["page_size"]))
        self.cache: PrefixCache = NullCache(page_size) if options["null"] else RadixCache(page_size)
        self.pool = PagePool(int(str(options["capacity"])))
        policy = make_schedule_policy(str(options["policy"]))
        config = SchedulerConfig(
            page_size=page_size,
            chunk_tokens=options["chunk"],  # type: ignore[arg-type]
            max_running=options["max_running"],  # type: ignore[arg-type]
            max_in_flight=options["in_flight"],  # type: ignore[arg-type]
            max_tokens_per_step=options["k"],  # type: ignore[arg-type]
            publish=options["publish"],  # type: ignore[arg-type]
            output_reserve_ratio=options["ratio"],  # type: ignore[arg-type]
            hold=options["hold"],  # type: ignore[arg-type]
            waiting_aware=options["waiting_aware"],  # type: ignore[arg-type]
            steps=options["steps"],  # type: ignore[arg-type]
            retract=options["retract"],  # type: ignore[arg-type]
            publish_retracted=options["publish_retracted"],  # type: ignore[arg-type]
            decodes_in_budget=bool(options["in_budget"])
            and int(str(options["chunk"]))
            >= int(str(options["max_running"])) * int(str(options["k"])),
            preempt_priority_gap=options["gap"] if policy.has_classes else None,  # type: ignore[arg-type]
        )
        guard: OvertakeGuard[RequestState] | None = None
        if options["guard"]:
            class_of = policy.priority_class
            guard = OvertakeGuard(base_tokens=16, kappa=0.5, class_of=class_of)
        queue = self.plain_queue(policy, config) if plain_queue else None
        self.scheduler = Scheduler(
            self.cache, self.pool, config, policy=policy, queue=queue, guard=guard
        )

    def plain_queue(self, policy: SchedulePolicy, config: SchedulerConfig) -> RematchQueue:
        hold = (policy.default_hold if config.hold is None else config.hold) != "off"
        cache = self.cache
        if not (config.waiting_aware and isinstance(cache, RadixCache)):
            return RematchQueue(cache, policy, hold=hold)
        queue = RematchQueue(cache, policy, hold=hold, on_unneeded=cache.rank_fell)
        cache.set_protection(queue.protected_tokens)
        return queue


ADAPTIVE = AdaptiveRatio(initial=0.7, least=0.1, decay_steps=5, clip_tokens=6, retract_steps=2)
ORDERS = ["lpm", "fcfs", "spf", "sglang-lpm", "priority+lpm", "low-priority+spf", "priority+fcfs"]
OPTIONS = st.fixed_dictionaries(
    {
        "page_size": st.sampled_from([1, 2, 4]),
        "capacity": st.integers(6, 24),
        "chunk": st.integers(1, 12),
        "max_running": st.integers(1, 4),
        "in_flight": st.sampled_from([1, 2]),
        "waiting_aware": st.booleans(),
        "k": st.sampled_from([1, 1, 3]),
        "publish": st.sampled_from(["complete", "schedule"]),
        "ratio": st.sampled_from([1.0, 0.5, 0.0, ADAPTIVE]),
        "steps": st.sampled_from(["mixed", "mixed", "prefill-first"]),
        "retract": st.sampled_from(["least-lost", "last-admitted", "fewest-output"]),
        "publish_retracted": st.booleans(),
        "in_budget": st.booleans(),
        "hold": st.sampled_from([None, None, "stop", "skip", "off"]),
        "policy": st.sampled_from(ORDERS),
        "gap": st.sampled_from([None, 1, 1, 2]),
        "null": st.sampled_from([False, False, False, True]),
        "guard": st.booleans(),
    }
)


class SchedulerMachine(RuleBasedStateMachine):
    """Random calls on a scheduler, and on its twin with the plain queue."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.texts: list[list[int]] = [[]]
        self.flights: deque[tuple[Batch, Batch]] = deque()
        self.kept: list[tuple[PrefixHandle | None, PrefixHandle | None]] = []

    @initialize(options=OPTIONS)
    def start(self, options: dict[str, object]) -> None:
        same = options["policy"] == "sglang-lpm"
        one, two = Setup(options, plain_queue=False), Setup(options, plain_queue=not same)
        self.one, self.two = one, two
        self.model = EngineModel(one.scheduler, one.cache, one.pool)
        self.config = one.scheduler.config

    @rule(
        data=st.data(),
        tail=st.lists(st.integers(0, 2), min_size=1, max_size=14),
        most=st.integers(0, 12),
        output=st.sampled_from(["all", "all", "none", "visible"]),
        cap=st.sampled_from([None, None, None, 3]),
        space=st.sampled_from([0, 0, 0, 1]),
        priority=st.integers(0, 2),
    )
    def submit(
        self,
        data: st.DataObject,
        tail: list[int],
        most: int,
        output: str,
        cap: int | None,
        space: int,
        priority: int,
    ) -> None:
        base = data.draw(st.sampled_from(self.texts[-8:]))
        prompt = [*base[: data.draw(st.integers(0, len(base)))], *tail]
        rid = f"r{len(self.texts)}"
        request = Request(
            rid=rid,
            key=PrefixKey(prompt, SPACES[space]),
            prompt_tokens=len(prompt),
            max_new_tokens=most,
            cache_output=output,  # type: ignore[arg-type]
            visible_tokens=2,
            max_match_tokens=cap,
            priority=priority,
        )
        try:
            state = self.one.scheduler.submit(request, self.now).state
        except RequestTooLargeError:
            with pytest.raises(RequestTooLargeError):
                self.two.scheduler.submit(request, self.now)
            return
        self.two.scheduler.submit(request, self.now)
        self.model.submitted(state, prompt)
        # The next turn of a conversation starts with the answer, too.
        self.texts.append([*prompt, *(token_of(rid, i) for i in range(most))])

    @precondition(lambda self: len(self.flights) < self.config.max_in_flight)
    @rule()
    def schedule(self) -> None:
        self.now += 1
        batch = self.one.scheduler.schedule(self.now)
        twin = self.two.scheduler.schedule(self.now)
        assert told(batch.events) == told(twin.events)
        assert (batch.rids, batch.chunks) == (twin.rids, twin.chunks)
        assert batch.lengths.tolist() == twin.lengths.tolist()
        self.model.scheduled(batch)
        if not batch.is_empty:
            self.flights.append((batch, twin))
        elif not self.flights:
            # Idle with something to do would be a fault, unless somebody keeps pages pinned.
            assert self.one.scheduler.waiting == 0 or self.kept

    @precondition(lambda self: self.flights)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        batch, twin = self.flights.popleft()
        few = st.integers(0, self.config.max_tokens_per_step)
        accepted = {
            rid: (data.draw(few), "stop" if data.draw(st.integers(0, 9)) == 0 else None)
            for rid in batch.rids
        }
        self.finish_batch(batch, twin, accepted)

    def finish_batch(
        self, batch: Batch, twin: Batch, accepted: dict[str, tuple[int, str | None]]
    ) -> None:
        self.now += 1
        results = self.model.results(accepted)
        events = self.one.scheduler.complete(batch, results, self.now)
        assert told(events) == told(self.two.scheduler.complete(twin, results, self.now))
        self.model.completed(events)

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        rid = data.draw(st.sampled_from(self.live()))
        event = self.one.scheduler.abort(rid)
        self.two.scheduler.abort(rid)
        self.model.happened((event,))

    @precondition(lambda self: self.live())
    @rule(data=st.data(), keep=st.booleans())
    def finish(self, data: st.DataObject, keep: bool) -> None:
        rid = data.draw(st.sampled_from(self.live()))
        state = self.one.scheduler.state_of(rid)
        handles = [s.scheduler.finish(rid, keep) for s in (self.one, self.two)]
        self.model.told[rid].ended = state.finish_reason
        if handles[0] is not None:
            self.kept.append((handles[0], handles[1]))

    @precondition(lambda self: self.kept)
    @rule()
    def release_kept(self) -> None:
        for setup, handle in zip((self.one, self.two), self.kept.pop(), strict=True):
            assert handle is not None
            setup.cache.release(handle)

    @rule(pages=st.integers(1, 4))
    def evict(self, pages: int) -> None:
        for setup in (self.one, self.two):
            setup.pool.free(setup.cache.evict(pages))

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "model"):
            self.model.check()

    def live(self) -> list[str]:
        return [rid for rid, t in self.model.told.items() if t.ended is None]

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        while self.kept:
            self.release_kept()
        # Every request is run to its end in a bounded number of steps.
        most = sum(len(t.tokens()) for t in self.model.told.values()) * 4 + 50
        while not self.one.scheduler.is_idle:
            most -= 1
            assert most > 0, "no end in sight"
            if len(self.flights) < self.config.max_in_flight:
                self.schedule()
            if self.flights:
                batch, twin = self.flights.popleft()
                self.finish_batch(batch, twin, dict.fromkeys(batch.rids, (1, None)))
            self.model.check()
        self.model.check_end()
        self.two.scheduler.check()


def told(events: tuple[Event, ...]) -> list[tuple[object, ...]]:
    return [(type(e).__name__, e.state.rid, *e[1:]) for e in events]


TestScheduler = SchedulerMachine.TestCase
