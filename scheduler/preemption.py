"""Preemptor: makes room for a waiting request by retracting running ones of lower priority."""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

import numpy as np

from radixcache import PageIds
from scheduler.admission import AdmissionRefusal
from scheduler.lifecycle import Lifecycle
from scheduler.request import RequestState
from scheduler.running import Run
from scheduler.step import Step

__all__ = ["Preemptor", "Room", "make_preemptor"]


class Room(Enum):
    """What came of asking for room."""

    NONE = "none"
    """Nobody may be preempted, or all together would not suffice: nothing has changed."""
    MADE = "made"
    LATER = "later"
    """The pages come back when a batch in flight completes; until then nothing is admitted."""


class Preemptor:
    """Chooses victims whose class is at least ``gap`` behind that of a waiting request.

    They go in the order of retraction, the last class first. Never more than needed: none of
    the victims could be spared. All or nothing: when even all of them would not make room,
    none is touched. Requests with a chunk in the step that is being planned are no victims;
    their decodes are taken out of it again.

    Pins that a caller keeps (``finish(keep=True)``) are not seen: what they hold counts as
    gained, so a preemption may fall short of it, once for each such pin.

    Cost: O(running · log running) and the pages of their cached prefixes, at a shortage only.
    Ref: SGLang 0.5.23 ``schedule_policy.py`` (preempt_to_schedule).
    """

    __slots__ = ("_awaited_id", "_barred_class", "_gap", "_life")

    def __init__(self, life: Lifecycle, gap: int) -> None:
        self._life = life
        self._gap = gap
        self._awaited_id = -1
        self._barred_class: int | None = None

    def begin_step(self) -> None:
        """Start a step: nobody was preempted in it."""
        self._barred_class = None

    def bars(self, state: RequestState) -> bool:
        """Whether a request waits because one of its class or before was preempted just now."""
        barred = self._barred_class
        return barred is not None and self._life.class_of(state) >= barred

    def make_room(
        self, step: Step, state: RequestState, refusal: AdmissionRefusal | None, places: int
    ) -> Room:
        """Preempt so that a request can have the pages it was refused, and a place."""
        life = self._life
        # Whoever was preempted would be admitted again, and be preempted again, without end.
        if life.ledger.completed_id < self._awaited_id:
            return Room.LATER
        short = 0 if refusal is None else refusal.needed_pages - refusal.available_pages
        matched = life.ledger.cache.peek(state.key, state.cap_tokens).prefix_tokens
        spared = {run.state.rid for run in step.chunk_runs}
        victims = self.victims(
            state, matched, pages=short, places=0 if places else 1, spared=spared
        )
        if not victims:
            return Room.NONE
        for run in victims:
            self._awaited_id = max(self._awaited_id, life.running.last_batch_of(run))
            step.retracted += 1
            step.events.extend(life.retract(run))
        self._barred_class = min(life.class_of(run.state) for run in victims)
        step.drop_dead_decodes(refund=life.config.decodes_in_budget)
        return Room.MADE if self._awaited_id <= life.ledger.completed_id else Room.LATER

    def victims(
        self,
        state: RequestState,
        matched_tokens: int,
        *,
        pages: int,
        places: int,
        spared: Container[str],
    ) -> list[Run]:
        """Return the fewest that give ``pages`` and ``places`` together, or nobody."""
        last = self._life.class_of(state) + self._gap
        order = sorted(
            (
                run
                for rid, run in self._life.running.by_rid.items()
                if rid not in spared and self._life.class_of(run.state) >= last
            ),
            key=self._life.victim_key,
        )
        chosen: list[Run] = []
        for run in order:
            chosen.append(run)
            if len(chosen) >= places and self._gain(chosen, state, matched_tokens) >= pages:
                break
        else:
            return []
        for run in chosen[-2::-1]:
            rest = [other for other in chosen if other is not run]
            if len(rest) >= places and self._gain(rest, state, matched_tokens) >= pages:
                chosen = rest
        return chosen

    def _gain(self, runs: list[Run], state: RequestState, matched_tokens: int) -> int:
        """Return the pages a request would find beyond what it finds now.

        Promised and own pages of the victims, and cached pages that only they pin; those of
        the request's own hit are no gain.
        """
        size = self._life.ledger.pool.capacity_pages
        pins = np.zeros(size, np.int32)
        for run in self._life.running.by_rid.values():
            pins[run.row[: run.shared_pages]] += 1
        before = pins > 0
        gained = 0
        hit: PageIds | None = None
        for run in runs:
            pins[run.row[: run.shared_pages]] -= 1
            gained += run.promised_pages + run.num_pages - run.shared_pages
            if matched_tokens and run.state.key.namespace == state.key.namespace:
                common = run.state.key.common_prefix_tokens(state.key)
                own_hit = min(common, matched_tokens) // state.page_size
                own_hit = min(own_hit, run.shared_pages)
                if hit is None or own_hit > len(hit):
                    hit = run.pages(0, own_hit)
        freed = before & (pins == 0)
        if hit:
            freed[hit] = False
        return gained + int(freed.sum())


def make_preemptor(life: Lifecycle) -> Preemptor | None:
    """Return the preemptor of a configuration, if it asks for one."""
    gap = life.config.preempt_priority_gap
    return None if gap is None else Preemptor(life, gap)
