"""A scheduler with a cache and a pool, driven in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radixcache import Namespace, NullCache, PagePool, PrefixKey, RadixCache
from scheduler.batch import Batch
from scheduler.config import SchedulerConfig
from scheduler.events import Event, Finished
from scheduler.overtake_guard import OvertakeGuard
from scheduler.request import Request, RequestState
from scheduler.results import Result
from scheduler.scheduler import Scheduler, Ticket

__all__ = ["SchedulerDriver"]


class SchedulerDriver:
    """Every call checks the whole scheduler afterwards."""

    def __init__(
        self,
        capacity_pages: int,
        *,
        page_size: int = 1,
        policy: str = "lpm",
        caching: bool = True,
        guard: OvertakeGuard[RequestState] | None = None,
        **config: Any,
    ) -> None:
        self.cache = RadixCache(page_size) if caching else NullCache(page_size)
        self.pool = PagePool(capacity_pages)
        self.scheduler = Scheduler(
            self.cache,
            self.pool,
            SchedulerConfig(page_size=page_size, **config),
            policy=policy,
            guard=guard,
        )
        self.states: dict[str, RequestState] = {}
        self.ended: dict[str, str] = {}
        self.now = 0.0

    def submit(
        self, rid: str, tokens: Sequence[int], max_new_tokens: int = 1, **fields: Any
    ) -> Ticket:
        namespace = fields.pop("namespace", Namespace())
        request = Request(
            rid=rid,
            key=PrefixKey(tokens, namespace),
            prompt_tokens=fields.pop("prompt_tokens", len(tokens)),
            max_new_tokens=max_new_tokens,
            **fields,
        )
        ticket = self.scheduler.submit(request, self.now)
        self.states[rid] = ticket.state
        self.scheduler.check()
        return ticket

    def schedule(self) -> Batch:
        self.now += 1
        batch = self.scheduler.schedule(self.now)
        self._note(batch.events)
        self.scheduler.check()
        return batch

    def complete(self, batch: Batch, results: dict[str, Result] | None = None) -> list[Event]:
        """Complete a batch; without results every request gets one token, 90, that may."""
        if results is None:
            mid = {chunk.rid for chunk in batch.chunks if not chunk.last}
            results = {rid: ([90], None) for rid in batch.rids if rid not in mid}
        self.now += 1
        events = self.scheduler.complete(batch, results, self.now)
        self._note(events)
        self.scheduler.check()
        return list(events)

    def step(self, results: dict[str, Result] | None = None) -> Batch:
        """Schedule and complete one batch."""
        batch = self.schedule()
        if not batch.is_empty:
            self.complete(batch, results)
        return batch

    def run(self, most_steps: int = 200) -> int:
        """Step until nothing is left; return how many steps ran."""
        for count in range(most_steps):
            if self.scheduler.is_idle:
                return count
            self.step()
        raise AssertionError(f"not idle after {most_steps} steps: {self.scheduler.report()}")

    def serve(self, rid: str, tokens: Sequence[int], max_new_tokens: int = 1, **fields: Any) -> int:
        """Run one request alone to its end; return the prefill tokens it took."""
        self.submit(rid, tokens, max_new_tokens, **fields)
        prefilled = 0
        while not self.scheduler.is_idle:
            prefilled += self.step().prefill_tokens
        return prefilled

    def row(self, batch: Batch, rid: str) -> list[int]:
        """Return the pages a batch names for a request."""
        place = batch.rids.index(rid)
        pages = -(-int(batch.lengths[place]) // self.cache.page_size)
        return batch.rows[place][:pages].tolist()

    def cached(self, tokens: Sequence[int]) -> int:
        """Return how many tokens of a prefix are cached."""
        return self.cache.peek(PrefixKey(tokens)).prefix_tokens

    @property
    def all_back(self) -> bool:
        """Whether every page is free or can be evicted."""
        size = self.cache.size
        return (
            size.protected_pages == 0
            and self.pool.free_pages + size.evictable_pages == self.pool.capacity_pages
        )

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Finished):
                assert event.state.rid not in self.ended
                self.ended[event.state.rid] = event.reason
