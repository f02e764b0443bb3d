"""RematchQueue: exact by looking again."""

from __future__ import annotations

import pytest

from radixcache import IntegrityError, PagePool, PrefixKey, RadixCache
from scheduler.policies import LPM
from scheduler.rematch_queue import RematchQueue
from scheduler.request import Request, RequestState


class World:
    def __init__(self) -> None:
        self.cache, self.pool = RadixCache(2), PagePool(100)
        self.queue = RematchQueue(self.cache, LPM())
        self.count = 0

    def add(self, *tokens: int) -> RequestState:
        request = Request(
            rid=str(self.count),
            key=PrefixKey(tokens),
            prompt_tokens=len(tokens),
            max_new_tokens=1,
        )
        state = RequestState(request, arrival_seq=self.count, page_size=2, submitted_s=0.0)
        self.count += 1
        self.queue.add(state)
        return state

    def store(self, *tokens: int) -> None:
        pages = self.pool.allocate(len(tokens) // 2)
        result = self.cache.insert(PrefixKey(tokens), pages)
        self.pool.free(result.duplicate_pages)
        self.cache.release(result.handle)

    def order(self) -> list[tuple[str, int, bool]]:
        self.queue.check()
        return [(c.state.rid, c.matched_tokens, c.held) for c in self.queue.candidates()]


def test_the_order_follows_the_cache() -> None:
    w = World()
    w.add(1, 2, 3, 4, 5)
    w.add(6, 7, 8)
    assert w.order() == [("1", 0, False), ("0", 0, False)]
    w.store(1, 2)
    assert w.order() == [("0", 2, False), ("1", 0, False)]
    w.pool.free(w.cache.evict(1))
    assert w.order() == [("1", 0, False), ("0", 0, False)]
    assert (w.queue.matched_tokens, w.queue.backlog_tokens) == (0, 8)


def test_a_follower_is_held_until_its_page_is_published() -> None:
    w = World()
    leader = w.add(1, 2, 3, 4, 9)
    w.add(1, 2, 3, 4, 5, 6, 7)
    w.add(8, 8, 8)
    w.queue.admit(leader, 0)
    assert w.order() == [("1", 0, True), ("2", 0, False)]
    w.store(1, 2)
    w.queue.published(leader, 2)
    assert w.order() == [("1", 2, True), ("2", 0, False)]
    w.store(1, 2, 3, 4)
    w.queue.published(leader, 5)
    assert w.order() == [("1", 4, False), ("2", 0, False)]


def test_a_leader_that_is_gone_holds_nobody() -> None:
    w = World()
    leader = w.add(1, 2, 3)
    w.add(1, 2, 4)
    w.queue.admit(leader, 0)
    w.queue.given_up(leader)
    assert w.order() == [("1", 0, False)]


def test_distinct_uncached_pages_are_counted_once() -> None:
    w = World()
    w.add(1, 2, 3, 4, 5)
    w.add(1, 2, 3, 4, 6)
    w.add(1, 2, 7, 8, 9, 9, 9)
    w.add(1, 2)
    w.store(1, 2)
    # Pages (3, 4), (7, 8), (9, 9); the last request has no usable page at all.
    assert w.queue.pending_optimal_tokens == 6


def test_check_finds_an_order_that_is_wrong() -> None:
    w = World()
    w.add(1, 2, 3)
    w.order()
    w.cache.remove_observer(w.queue)
    w.store(1, 2)
    with pytest.raises(IntegrityError, match="thought to match 0"):
        w.queue.check()
