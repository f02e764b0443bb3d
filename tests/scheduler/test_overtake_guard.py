from __future__ import annotations

import random
from collections.abc import Callable
from math import inf, nan

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from radixcache.errors import ConfigError, UnknownRequestError
from scheduler.overtake_guard import OvertakeGuard
from tests.models.overtake_model import Arrived, OvertakeModel

BOUNDS = [(0, 0.0), (0, 0.5), (7, 0.0), (5, 0.3), (20, 1.7), (inf, 0.0)]


class GuardAgainstModel(RuleBasedStateMachine):
    """Random arrivals, tested admissions, retractions and ends, with two classes."""

    @initialize(bounds=st.sampled_from(BOUNDS), classes=st.booleans())
    def start(self, bounds: tuple[float, float], classes: bool) -> None:
        self.model = OvertakeModel(*bounds)
        self.guard: OvertakeGuard[Arrived] = OvertakeGuard(
            base_tokens=bounds[0], kappa=bounds[1], class_of=lambda r: r.rank
        )
        self.classes = classes
        self.arrivals = 0

    @rule(weight=st.integers(0, 9), rank=st.integers(0, 1))
    def arrive(self, weight: int, rank: int) -> None:
        state = Arrived(self.arrivals, weight, rank if self.classes else 0)
        backlog = sum(r.weight for r in self.model.waiting)
        self.arrivals += 1
        self.model.arrive(state, backlog)
        bound = self.guard.arrive(state, backlog)
        assert (inf if bound is None else bound) == state.bound

    @precondition(lambda self: self.model.waiting)
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.model.waiting))
        forced = False
        while True:
            tight = self.model.tight(state, state.weight)
            assert self.guard.tight(state, state.weight) is tight
            assert self.guard.may_admit(state, state.weight) == (tight is None)
            if tight is None:
                break
            state, forced = tight, True
        assert self.guard.admitted(state, state.weight, forced=forced) == state.overtaken
        self.model.admitted(state, state.weight)

    @precondition(lambda self: len(self.model.alive) > len(self.model.waiting))
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from([r for r in self.model.alive if not r.waiting]))
        self.model.returned(state)
        self.guard.returned(state)

    @precondition(lambda self: self.model.alive)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.model.alive))
        self.model.removed(state)
        self.guard.removed(state)
        self.guard.removed(state)

    @invariant()
    def nobody_is_beyond_its_bound(self) -> None:
        if not hasattr(self, "model"):
            return
        self.guard.check()
        assert len(self.guard) == len(self.model.waiting)
        for r in self.model.alive:
            assert r.overtaken <= r.bound
            assert self.guard.overtaken(r) == r.overtaken


TestGuardAgainstModel = GuardAgainstModel.TestCase


def drain(
    guard: OvertakeGuard[Arrived], states: list[Arrived], key: Callable[[Arrived], object]
) -> list[int]:
    """Admit the smallest key first, the tight one where the guard says so; return arrivals."""
    waiting, order = list(states), []
    while waiting:
        best = min(waiting, key=key)
        while (tight := guard.tight(best, best.weight)) is not None:
            best = tight
        guard.admitted(best, best.weight)
        waiting.remove(best)
        order.append(best.arrival_seq)
    return order


def arrivals(guard: OvertakeGuard[Arrived], weights: list[int]) -> list[Arrived]:
    states, backlog = [], 0
    for seq, weight in enumerate(weights):
        states.append(Arrived(seq, weight))
        guard.arrive(states[-1], backlog)
        backlog += weight
    return states


def by_weight(state: Arrived) -> tuple[int, int]:
    return state.weight, state.arrival_seq


def random_weights(count: int) -> list[int]:
    rng = random.Random(count)
    return [rng.randrange(1, 1000) for _ in range(count)]


def test_no_base_and_no_kappa_is_first_come_first_served() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=0, kappa=0)
    states = arrivals(guard, random_weights(200))
    assert drain(guard, states, by_weight) == list(range(200))
    assert guard.largest_overtaken == 0


def test_requests_of_no_weight_may_pass_even_without_slack() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=0, kappa=0)
    assert drain(guard, arrivals(guard, [5, 0, 5]), by_weight) == [1, 0, 2]


def test_an_infinite_base_leaves_the_order_alone() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=inf)
    states = arrivals(guard, random_weights(200))
    order = drain(guard, states, by_weight)
    assert order == [s.arrival_seq for s in sorted(states, key=by_weight)]
    assert not guard.bounded
    assert guard.largest_ratio == 0


def test_an_infinite_base_measures_overtaking() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard()
    states = arrivals(guard, [10, 3, 4])
    assert guard.bound(states[0]) is None
    drain(guard, states, by_weight)
    assert guard.overtaken(states[0]) == guard.largest_overtaken == 7


def test_the_bound_is_reached_exactly() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=12, kappa=0.5)
    old = Arrived(0, 100)
    assert guard.arrive(old, 10) == 17
    young = arrivals_after(guard, [6, 6, 5, 1])
    for state in young[:3]:
        assert guard.may_admit(state, state.weight)
        guard.admitted(state, state.weight)
    assert guard.overtaken(old) == guard.bound(old) == 17
    assert guard.tight(young[3], 1) is old
    guard.admitted(old, 100, forced=True)
    assert guard.largest_ratio == 1.0
    assert guard.forced_admissions == 1


def arrivals_after(guard: OvertakeGuard[Arrived], weights: list[int]) -> list[Arrived]:
    states = [Arrived(seq, weight) for seq, weight in enumerate(weights, start=1)]
    for state in states:
        guard.arrive(state, 0)
    return states


def test_a_retracted_request_keeps_its_place_and_its_slack() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=10)
    old, young, younger = (Arrived(seq, 4) for seq in range(3))
    for state in (old, young, younger):
        guard.arrive(state, 0)
    guard.admitted(young, 4)
    assert guard.admitted(old, 4) == 4
    guard.admitted(younger, 4)  # while the oldest runs: it does not count
    assert guard.overtaken(old) == 4
    guard.returned(old)
    guard.returned(younger)
    assert guard.tight(younger, 7) is old
    guard.admitted(younger, 6)
    assert guard.overtaken(old) == 10


def test_a_lower_class_takes_slack_from_a_higher_one_and_not_the_reverse() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=5, class_of=lambda r: r.rank)
    low = Arrived(0, 3, rank=1)
    high = Arrived(1, 9, rank=0)
    guard.arrive(low, 0)
    guard.arrive(high, 0)
    assert guard.may_admit(high, 9)
    assert guard.tight(low, 6) is high
    guard.admitted(low, 3)
    assert guard.overtaken(high) == 3
    guard.admitted(high, 9)
    guard.check()


def test_memory_follows_the_live_requests_and_not_the_arrivals() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=100, kappa=0.5)
    oldest = Arrived(0, 1)
    guard.arrive(oldest, 0)
    alive: list[Arrived] = []
    for seq in range(1, 5_000):
        alive.append(Arrived(seq, 1))
        guard.arrive(alive[-1], len(alive))
        if len(alive) > 50:
            guard.removed(alive.pop(seq % 50))
    (tree,) = guard._trees.values()
    assert tree.slots <= 256
    for state in alive:
        guard.removed(state)
    assert tree.slots == 16
    guard.check()
    guard.removed(oldest)
    assert not guard._trees


def test_a_burst_leaves_no_memory_behind() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=0, kappa=2)
    states = arrivals(guard, [1] * 3_000)
    for state in states[:2_990]:
        guard.admitted(state, 1)
        guard.removed(state)
    (tree,) = guard._trees.values()
    assert tree.slots <= 128
    guard.check()


@pytest.mark.parametrize("base_tokens", [-1, nan, 0.5, -inf])
def test_a_base_that_is_no_whole_number_is_refused(base_tokens: float) -> None:
    with pytest.raises(ConfigError, match="base_tokens"):
        OvertakeGuard(base_tokens=base_tokens)


@pytest.mark.parametrize("kappa", [-0.1, nan, inf])
def test_a_kappa_out_of_range_is_refused(kappa: float) -> None:
    with pytest.raises(ConfigError, match="kappa"):
        OvertakeGuard(base_tokens=0, kappa=kappa)


def test_an_unknown_request_is_named() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=0)
    with pytest.raises(UnknownRequestError, match="arrival 7"):
        guard.may_admit(Arrived(7, 1), 1)


def test_kappa_is_taken_exactly() -> None:
    guard: OvertakeGuard[Arrived] = OvertakeGuard(base_tokens=0, kappa=1 / 3)
    assert guard.arrive(Arrived(0, 1), 3 * 10**20) == 10**20 * 3 * int((1 / 3) * 2**54) // 2**54


@pytest.mark.parametrize("bounds", BOUNDS)
def test_a_long_run_equals_the_model_through_many_renumberings(bounds: tuple[float, float]) -> None:
    rng = random.Random(repr(bounds))
    model = OvertakeModel(*bounds)
    guard: OvertakeGuard[Arrived] = OvertakeGuard(
        base_tokens=bounds[0], kappa=bounds[1], class_of=lambda r: r.rank
    )
    reached = False
    for seq in range(1_500):
        state = Arrived(seq, rng.randrange(10), rng.randrange(8) == 0)
        backlog = sum(r.weight for r in model.waiting)
        model.arrive(state, backlog)
        guard.arrive(state, backlog)
        while len(model.waiting) > 40 + 30 * (seq // 300 % 2):
            best = rng.choice(model.waiting[-20:])
            while (tight := model.tight(best, best.weight)) is not None:
                assert guard.tight(best, best.weight) is tight
                best = tight
            guard.admitted(best, best.weight)
            model.admitted(best, best.weight)
        reached |= any(r.overtaken == r.bound > 0 for r in model.waiting)
        running = [r for r in model.alive if not r.waiting]
        if len(running) > 10:
            ended = rng.choice(running)
            guard.removed(ended)
            model.removed(ended)
            guard.returned(back := rng.choice([r for r in running if r is not ended]))
            model.returned(back)
    for r in model.alive:
        assert guard.overtaken(r) == r.overtaken <= r.bound
    assert reached == (0 < sum(bounds) < inf)
    guard.check()
