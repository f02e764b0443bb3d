"""A cache, a WaitingTree and its model side by side, taken through the life of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from radixcache import DEFAULT_NAMESPACE, Namespace, PrefixHandle, PrefixKey, RadixCache
from scheduler.orders import (
    LOF,
    AgedTiesLPM,
    CoveredFirstLPM,
    Prioritized,
    RandomOrder,
    ThroughputLPM,
)
from scheduler.policies import FCFS, LPM, SPF, SchedulePolicy, SortKey
from scheduler.request import Request, RequestState
from scheduler.waiting_queue import Candidate
from scheduler.waiting_tree import WaitingTree
from tests.models.waiting_model import WaitingModel

__all__ = ["NAMESPACES", "POLICIES", "LinearAging", "Running", "WaitingWorld"]

NAMESPACES = (DEFAULT_NAMESPACE, Namespace(extra_key="other"))


class LinearAging(SchedulePolicy):
    """Two tokens of prefix for each later arrival."""

    name: ClassVar[str] = "linear-aging"

    def within(self, state: RequestState) -> SortKey:
        return (state.arrival_seq,)

    def across(self, matched_tokens: int, within_key: SortKey) -> SortKey:
        return (2 * within_key[0] - matched_tokens, within_key[0])


POLICIES: dict[str, Callable[[], SchedulePolicy]] = {
    **{
        policy.name: policy
        for policy in (LPM, SPF, FCFS, LinearAging, ThroughputLPM, CoveredFirstLPM, AgedTiesLPM)
    },
    **{policy.name: policy for policy in (LOF, RandomOrder)},
    "priority+lpm": lambda: Prioritized(LPM()),
}
"""Every key that the tree serves exactly."""


@dataclass(slots=True)
class Running:
    state: RequestState
    handle: PrefixHandle
    pages: list[int] = field(default_factory=list)


class WaitingWorld:
    """``most_stored`` makes the cache keep no more tokens of a path than that."""

    def __init__(
        self, page_size: int, policy: str, *, hold: bool, most_stored: int | None = None
    ) -> None:
        self.page_size = page_size
        self.most_stored = most_stored
        self.cache = RadixCache(page_size)
        chosen = POLICIES[policy]()
        self.tree = WaitingTree(self.cache, chosen, hold=hold, on_unneeded=self.cache.rank_fell)
        self.cache.set_protection(self.tree.protected_tokens)
        self.model = WaitingModel(self.cache, chosen, hold=hold)
        self.running: list[Running] = []
        self.arrivals = 0
        self.next_page = 0
        self.last_seen: tuple[int | None, list[Candidate]] = (None, [])

    def fresh_pages(self, count: int) -> list[int]:
        self.next_page += count
        return list(range(self.next_page - count, self.next_page))

    # -- events ------------------------------------------------------------------------

    def arrive(
        self, tokens: list[int], namespace: Namespace, max_match: int | None = None
    ) -> RequestState:
        request = Request(
            rid=f"r{self.arrivals}",
            key=PrefixKey(tokens, namespace),
            prompt_tokens=len(tokens),
            max_new_tokens=1 + self.arrivals * 7 % 5,
            priority=self.arrivals * 5 % 3 - 1,
            max_match_tokens=max_match,
        )
        state = RequestState(
            request, arrival_seq=self.arrivals, page_size=self.page_size, submitted_s=0.0
        )
        self.arrivals += 1
        self.add(state)
        return state

    def add(self, state: RequestState) -> None:
        self.model.add(state)
        self.tree.add(state)

    def abort_waiting(self, state: RequestState) -> None:
        self.model.remove(state)
        self.tree.remove(state)

    def admit(self, state: RequestState) -> Running:
        seen = self.tree.look(state)
        handle = self.cache.match(state.key, state.cap_tokens)
        assert handle.prefix_tokens == seen.matched_tokens
        run = Running(state, handle, list(handle.pages))
        self.running.append(run)
        self.model.admit(state, handle.prefix_tokens)
        self.tree.admit(state, handle.prefix_tokens)
        return run

    def publish(self, run: Running, tokens: int) -> None:
        state = run.state
        tokens = min(max(tokens, run.handle.prefix_tokens), state.prefill_tokens)
        missing = tokens // self.page_size - len(run.pages)
        run.pages += self.fresh_pages(max(0, missing))
        kept = tokens if self.most_stored is None else min(tokens, self.most_stored)
        result = self.cache.insert(state.key, run.pages, max(kept, run.handle.prefix_tokens))
        run.pages[: len(result.handle.pages)] = result.handle.pages
        self.cache.release(run.handle)
        run.handle = result.handle
        self.model.published(state, tokens)
        self.tree.published(state, tokens)

    def stop(self, run: Running) -> None:
        """End a running request, finished or not, as it stands."""
        self.running.remove(run)
        self.model.given_up(run.state)
        self.tree.given_up(run.state)
        self.cache.release(run.handle)

    def retract(self, run: Running, output: list[int]) -> None:
        self.stop(run)
        state = run.state
        if output:
            state.key = state.key[:]
            state.key.extend(output)
            state.prefill_tokens += len(output)
            state.renew_cap()
        self.add(state)

    def insert_elsewhere(self, tokens: list[int], namespace: Namespace) -> None:
        pages = self.fresh_pages(len(tokens) // self.page_size)
        self.cache.release(self.cache.insert(PrefixKey(tokens, namespace), pages).handle)

    def evict(self, pages: int) -> None:
        self.cache.evict(pages)
        self.model.drop_what_hangs_in_the_air()

    def reset(self, *, force: bool) -> None:
        if self.cache.reset(force).done:
            self.model.drop_what_hangs_in_the_air()
            for run in self.running:
                run.pages = self.fresh_pages(len(run.pages))

    def drop_namespace(self, namespace: Namespace) -> None:
        if self.cache.drop_namespace(namespace).done:
            self.model.drop_what_hangs_in_the_air()

    # -- facts -------------------------------------------------------------------------

    def compare(self, probe: list[int]) -> None:
        """Assert that the tree answers every question as the model does."""
        tree, model = self.tree, self.model
        seen_now = tree.changes, list(tree.candidates())
        assert seen_now[1] == model.candidates()
        assert seen_now[1] == self.last_seen[1] or seen_now[0] != self.last_seen[0]
        self.last_seen = seen_now
        assert list(tree.best_of_groups()) == model.best_of_groups()
        assert len(tree) == len(model.waiting)
        assert all(state in tree for state in model.waiting)
        assert tree.matched_tokens == model.matched_tokens
        assert tree.backlog_tokens == model.backlog_tokens
        assert tree.pending_optimal_tokens == model.pending_optimal_tokens
        for namespace in NAMESPACES:
            data = PrefixKey(probe).data
            seen = tree.protected_tokens(namespace, data)
            assert seen == model.protected_tokens(namespace, data)
        tree.check()
        self.cache.check()
