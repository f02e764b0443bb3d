"""Picker: the next waiting request to admit, by order, hold, guard and memory."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.admission import AdmissionRefusal, Pick, Supply, refusal_of
from scheduler.config import HoldMode
from scheduler.lifecycle import Lifecycle
from scheduler.preemption import Preemptor, Room
from scheduler.request import RequestState
from scheduler.step import Step
from scheduler.waiting_queue import Candidate

__all__ = ["Picker"]


class _NoPick(NamedTuple):
    """When nobody could be picked, and who was refused first."""

    changes: int | None
    publications: int
    spare_pages: int
    refused: RequestState | None


class Picker:
    """Goes through the candidates, best first, until one may be admitted.

    A candidate that does not fit may be passed over ``lookahead`` times. A candidate that
    would overtake somebody too far gives its turn to the oldest request it would harm.

    When nobody could be picked, nobody can as long as the queue is the same, no more pages
    are to be had and no more are pinned: then the candidates are not gone through again.

    Ref: README, How it works.
    """

    __slots__ = (
        "_guard",
        "_hold",
        "_ledger",
        "_lookahead",
        "_no_pick",
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
        self._no_pick: _NoPick | None = None
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
        Cost: what the candidates that were passed over cost, and a peek; of a call in vain
        after another one, with nothing changed, a peek.
        """
        supply = self._supply()
        if self._none_as_before(supply):
            return None
        self.refusal = None
        refused: RequestState | None = None
        preemptor = self._preemptor
        places = self._running.max_running - len(self._running)
        passed_over = 0
        for candidate in self._queue.candidates():
            if preemptor is not None and preemptor.bars(candidate.state):
                break
            if candidate.held and self._hold != "off":
                if self._hold == "skip":
                    continue
                break
            forced = not self._may_overtake(candidate)
            chosen = self._in_place_of(candidate) if forced else candidate
            if chosen is not None and (self.refusal is None or self._may_fit(chosen, supply)):
                state = chosen.state
                offer = self._offer(state, supply, forced=forced)
                if places and isinstance(offer, Pick):
                    return offer
                refusal = offer if isinstance(offer, AdmissionRefusal) else None
                room = Room.NONE
                if preemptor is not None and step is not None:
                    room = preemptor.make_room(step, state, refusal, places)
                if room is Room.MADE:
                    offer = self._offer(state, self._supply(), forced=forced)
                    return offer if isinstance(offer, Pick) else None
                if room is Room.LATER or not places:
                    return None
                if self.refusal is None:
                    self.refusal, refused = refusal, state
            passed_over += 1
            if passed_over > self._lookahead:
                break
        self._no_pick = _NoPick(
            self._queue.changes, self._ledger.publications, supply.spare_pages, refused
        )
        return None

    def _none_as_before(self, supply: Supply) -> bool:
        """Whether nobody can be picked since nobody could; renews the refusal that is told.

        A request fits if its pages, without those of its hit that others pin, are to be had.
        So it takes another order, another pin or more pages to admit anybody.
        """
        before = self._no_pick
        if before is None or before.changes is None or self._preemptor is not None:
            return False
        # With nobody running, only the caller could change anything: look closely.
        if not len(self._running) or before.changes != self._queue.changes:
            return False
        if before.publications != self._ledger.publications:
            return False
        if before.spare_pages < supply.spare_pages:
            return False
        if before.refused is None:
            self.refusal = None
            return True
        offer = self._offer(before.refused, supply, forced=False)
        if isinstance(offer, Pick):
            return False
        self.refusal = offer
        return True

    def _supply(self) -> Supply:
        """Return where pages can come from, less what running requests are expected to take."""
        supply = self._ledger.supply
        expected = self._reserve.expected_pages(self._running)
        return supply._replace(reserved_pages=supply.reserved_pages + expected)

    def _needed_pages(self, state: RequestState) -> int:
        return min(self._reserve.needed_pages(state), self._ledger.pool.capacity_pages)

    def _may_fit(self, candidate: Candidate, supply: Supply) -> bool:
        """Whether it would fit if others pinned all of its hit: the look that needs no peek."""
        state = candidate.state
        hit_pages = candidate.matched_tokens // state.page_size
        # A preemptor may make room for it.
        return self._preemptor is not None or (
            self._needed_pages(state) - hit_pages <= supply.spare_pages
        )

    def _offer(
        self, state: RequestState, supply: Supply, *, forced: bool
    ) -> Pick | AdmissionRefusal:
        """Return the pick of a request if it can have its pages now."""
        ledger = self._ledger
        seen = ledger.cache.peek(state.key, state.cap_tokens)
        hit_pages = seen.prefix_tokens // state.page_size
        needed = self._needed_pages(state)
        refusal = refusal_of(state.rid, needed, hit_pages, seen.unpinned_pages, supply)
        if refusal is not None:
            return refusal
        promised = min(self._reserve.promised_pages(state), ledger.pool.capacity_pages)
        return Pick(state, seen.prefix_tokens, promised, forced)

    def _may_overtake(self, candidate: Candidate) -> bool:
        state = candidate.state
        return self._guard.may_admit(state, state.prefill_tokens - candidate.matched_tokens)

    def _in_place_of(self, candidate: Candidate) -> Candidate | None:
        """Return the oldest request that stands in the way of one, unless it is held."""
        while True:
            state = candidate.state
            tight = self._guard.tight(state, state.prefill_tokens - candidate.matched_tokens)
            if tight is None:
                break
            candidate = self._queue.look(tight)
        return None if candidate.held and self._hold != "off" else candidate
