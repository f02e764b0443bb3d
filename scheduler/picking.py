"""Picker: the next waiting request to admit, by order, hold, guard and memory."""

from __future__ import annotations

from scheduler.admission import AdmissionRefusal, Pick, refusal_of
from scheduler.config import HoldMode
from scheduler.lifecycle import Lifecycle
from scheduler.preemption import Preemptor, Room
from scheduler.request import RequestState
from scheduler.step import Step

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
        "_preemptor",
        "_queue",
        "_reserve",
        "_running",
        "refusal",
    )

    def __init__(
        self,
        life: Lifecycle,
        *,
        hold: HoldMode,
        lookahead: int,
        preemptor: Preemptor | None = None,
    ) -> None:
        self._queue = life.queue
        self._guard = life.guard
        self._ledger = life.ledger
        self._running = life.running
        self._reserve = life.reserve
        self._hold = hold
        self._lookahead = lookahead
        self._preemptor = preemptor
        self.refusal: AdmissionRefusal | None = None
        """Why the first candidate that did not fit was passed over, at the last call."""

    def begin_step(self) -> None:
        """Start a step: nobody was preempted in it."""
        if self._preemptor is not None:
            self._preemptor.begin_step()

    @property
    def may_pick(self) -> bool:
        """Whether there is a place among the running, or one might be made."""
        return self._preemptor is not None or len(self._running) < self._running.max_running

    def pick(self, step: Step | None = None) -> Pick | None:
        """Return the next request to admit in a step, or None.

        Nothing is pinned, touched or evicted, but with a step others may be preempted in it.
        """
        self.refusal = None
        preemptor = self._preemptor
        places = self._running.max_running - len(self._running)
        passed_over = 0
        for state, matched_tokens, held in self._queue.candidates():
            if preemptor is not None and preemptor.bars(state):
                return None
            if held and self._hold != "off":
                if self._hold == "skip":
                    continue
                return None
            tight = self._guard.tight(state, state.prefill_tokens - matched_tokens)
            chosen = state if tight is None else self._in_place_of_best(tight)
            if chosen is not None:
                offer = self._offer(chosen, forced=tight is not None)
                if places and isinstance(offer, Pick):
                    return offer
                refusal = offer if isinstance(offer, AdmissionRefusal) else None
                room = Room.NONE
                if preemptor is not None and step is not None:
                    room = preemptor.make_room(step, chosen, refusal, places)
                if room is Room.MADE:
                    offer = self._offer(chosen, forced=tight is not None)
                    return offer if isinstance(offer, Pick) else None
                if room is Room.LATER or not places:
                    return None
                if self.refusal is None:
                    self.refusal = refusal
            passed_over += 1
            if passed_over > self._lookahead:
                return None
        return None

    def _offer(self, state: RequestState, *, forced: bool) -> Pick | AdmissionRefusal:
        """Return the pick of a request if it can have its pages now."""
        ledger, reserve = self._ledger, self._reserve
        seen = ledger.cache.peek(state.key, state.cap_tokens)
        capacity = ledger.pool.capacity_pages
        needed = min(reserve.needed_pages(state), capacity)
        hit = seen.prefix_tokens // state.page_size
        supply = ledger.supply
        spoken_for = supply.reserved_pages + reserve.expected_pages(self._running)
        supply = supply._replace(reserved_pages=spoken_for)
        refusal = refusal_of(state.rid, needed, hit, seen.unpinned_pages, supply)
        if refusal is not None:
            return refusal
        promised = min(reserve.promised_pages(state), capacity)
        return Pick(state, seen.prefix_tokens, promised, forced)

    def _in_place_of_best(self, tight: RequestState) -> RequestState | None:
        """Return the oldest request that stands in the way, unless it is held."""
        state = tight
        while True:
            matched = self._ledger.cache.peek(state.key, state.cap_tokens).prefix_tokens
            before = self._guard.tight(state, state.prefill_tokens - matched)
            if before is None:
                break
            state = before
        if self._hold != "off" and self._is_held(state, matched):
            return None
        return state

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
