from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.models.waiting_world import NAMESPACES, POLICIES, WaitingWorld
from tests.soak_waiting_tree import run_episode

TOKENS = st.lists(st.integers(1, 2), min_size=1, max_size=9)
SPACES = st.sampled_from(NAMESPACES)


class TreeAgainstModel(RuleBasedStateMachine):
    """Every answer of the tree equals matching anew, after every event."""

    world: WaitingWorld | None = None

    @initialize(
        page_size=st.integers(1, 3),
        policy=st.sampled_from(sorted(POLICIES)),
        hold=st.booleans(),
    )
    def start(self, page_size: int, policy: str, hold: bool) -> None:
        self.world = WaitingWorld(page_size, policy, hold=hold)
        self.probe: list[int] = []

    @rule(tokens=TOKENS, namespace=SPACES, most=st.none() | st.integers(0, 6))
    def arrive(self, tokens: list[int], namespace: tuple[str], most: int | None) -> None:
        self.world.arrive(tokens, namespace, most)
        self.probe = tokens

    @precondition(lambda self: self.world and self.world.model.waiting)
    @rule()
    def admit_the_best(self) -> None:
        self.world.admit(next(self.world.tree.candidates()).state)

    @precondition(lambda self: self.world and self.world.model.waiting)
    @rule(data=st.data())
    def admit_any(self, data: st.DataObject) -> None:
        self.world.admit(data.draw(st.sampled_from(self.world.model.waiting)))

    @precondition(lambda self: self.world and self.world.model.waiting)
    @rule(data=st.data())
    def abort_waiting(self, data: st.DataObject) -> None:
        self.world.abort_waiting(data.draw(st.sampled_from(self.world.model.waiting)))

    @precondition(lambda self: self.world and self.world.running)
    @rule(data=st.data(), tokens=st.integers(0, 9), stop=st.booleans())
    def publish(self, data: st.DataObject, tokens: int, stop: bool) -> None:
        run = data.draw(st.sampled_from(self.world.running))
        self.world.publish(run, tokens)
        if stop:
            self.world.stop(run)

    @precondition(lambda self: self.world and self.world.running)
    @rule(data=st.data(), output=TOKENS)
    def retract(self, data: st.DataObject, output: list[int]) -> None:
        self.world.retract(data.draw(st.sampled_from(self.world.running)), output)

    @rule(pages=st.integers(1, 6))
    def evict(self, pages: int) -> None:
        self.world.evict(pages)

    @rule(tokens=TOKENS, namespace=SPACES)
    def insert_elsewhere(self, tokens: list[int], namespace: tuple[str]) -> None:
        self.world.insert_elsewhere(tokens, namespace)

    @rule(force=st.booleans())
    def reset(self, force: bool) -> None:
        self.world.reset(force=force)

    @rule(namespace=SPACES)
    def drop_namespace(self, namespace: tuple[str]) -> None:
        self.world.drop_namespace(namespace)

    @invariant()
    def agree(self) -> None:
        if self.world is not None:
            self.world.compare(self.probe)


TestTreeAgainstModel = TreeAgainstModel.TestCase


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("hold", [True, False])
def test_a_seeded_run_agrees_with_the_model(policy: str, hold: bool) -> None:
    done = run_episode(20_000, 2, policy, hold, 300)
    assert done.total() == 300
