"""Picker: the next waiting request to admit, by order, hold, guard and memory."""

from __future__ import annotations

from scheduler.admission import AdmissionRefusal, Pick, refusal_of
from scheduler.config import HoldMode
from scheduler.lifecycle import Lifecycle
from scheduler.request import RequestState

__all__ = ["Picker"]


class Picker:
    """Goes through the candidates, best first, until one may be admitted.

    A candidate that does not fit may be passed over ``lookahead`` times. A candidate that
    would overtake somebody too far gives its turn to the oldest request it would harm.

    Ref: SCHEDULING.md 2 and 3.
    """

    __slots__ = (
        "_guard",
        "_hold",
        "_ledger",
        "_lookahead",
        "_queue",
        "_reserve",
        "_running",
        "refusal",
    )

    def __init__(self, life: Lifecycle, *, hold: HoldMode, lookahead: int) -> None:
        self._queue = life.queue
        self._guard = life.guard
        self._ledger = life.ledger
        self._running = life.running
        self._reserve = life.reserve
        self._hold = hold
        self._lookahead = lookahead
        self.refusal: AdmissionRefusal | None = None
        """Why the first candidate that did not fit was passed over, at the last call."""

    def pick(self) -> Pick | None:
        """Return the next request to admit, or None. Nothing is pinned, touched or evicted."""
        self.refusal = None
        passed_over = 0
        for state, matched_tokens, held in self._queue.candidates():
            if held and self._hold != "off":
                if self._hold == "skip":
                    continue
                return None
            tight = self._guard.tight(state, state.prefill_tokens - matched_tokens)
            if tight is None:
                pick = self._fitting(state)
            else:
                pick = self._in_place_of_best(tight)
            if pick is not None:
                return pick
            passed_over += 1
            if passed_over > self._lookahead:
                return None
        return None

    def _fitting(self, state: RequestState, *, forced: bool = False) -> Pick | None:
        """Return the pick of a request if it can have its pages now."""
        ledger, reserve = self._ledger, self._reserve
        seen = ledger.cache.peek(state.key, state.cap_tokens)
        capacity = ledger.pool.capacity_pages
        needed = min(reserve.needed_pages(state), capacity)
        hit = seen.prefix_tokens // state.page_size
        supply = ledger.supply
        spoken_for = supply.reserved_pages + reserve.expected_pages()
        supply = supply._replace(reserved_pages=spoken_for)
        refusal = refusal_of(state.rid, needed, hit, seen.unpinned_pages, supply)
        if refusal is None:
            promised = min(reserve.promised_pages(state), capacity)
            return Pick(state, seen.prefix_tokens, promised, forced)
        if self.refusal is None:
            self.refusal = refusal
        return None

    def _in_place_of_best(self, tight: RequestState) -> Pick | None:
        """Return the pick of the oldest request that stands in the way, if it may go."""
        state = tight
        while True:
            matched = self._ledger.cache.peek(state.key, state.cap_tokens).prefix_tokens
            before = self._guard.tight(state, state.prefill_tokens - matched)
            if before is None:
                break
            state = before
        if self._hold != "off" and self._is_held(state, matched):
            return None
        return self._fitting(state, forced=True)

    def _is_held(self, state: RequestState, matched_tokens: int) -> bool:
        """Whether a running request is computing the page after the matched ones."""
        stop = matched_tokens + state.page_size
        if stop > state.cap_tokens:
            return False
        prefix = state.key[:stop].data
        return any(
            run.computed_tokens < stop
            and run.state.key.namespace == state.key.namespace
            and run.state.key.data.startswith(prefix)
            for run in self._running.by_rid.values()
        )
