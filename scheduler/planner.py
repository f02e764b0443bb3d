"""Planner: fills one step with decodes, chunks of admitted prompts, and new admissions."""

from __future__ import annotations

import numpy as np

from radixcache import PageIds
from scheduler.admission import pages_for
from scheduler.batch import PrefillChunk
from scheduler.decode import DecodePlan, plan_decodes
from scheduler.lifecycle import Lifecycle
from scheduler.picking import Picker
from scheduler.request import RequestStatus
from scheduler.retraction import choose_victim
from scheduler.running import Run
from scheduler.step import Flight, Step

__all__ = ["Planner"]


class Planner:
    """Plans steps: running requests first, then unfinished prompts, then the queue.

    With steps "prefill-first", decodes run only when there is no prompt to compute.
    A request is in a step only with all its pages allocated. What cannot have them now
    waits for pages of batches in flight, or makes room by retraction.
    """

    __slots__ = ("_life", "_next_batch", "_page_size", "_picker", "_victim_key")

    def __init__(self, life: Lifecycle, picker: Picker) -> None:
        self._life = life
        self._picker = picker
        self._page_size = life.config.page_size
        self._next_batch = 0
        self._victim_key = life.victim_key

    def plan(self) -> Flight:
        """Return the next step. Its batch is empty when there is nothing to run."""
        life = self._life
        ledger = life.ledger
        remaps = life.publisher.take_remaps()
        step = Step(self._next_batch, life.config.chunk_tokens, ledger.evicted_pages, remaps)
        life.reserve.begin_step(life.running)
        self._picker.begin_step()
        if life.config.steps == "mixed":
            self._plan_decodes(step)
            if life.config.decodes_in_budget:
                step.budget_tokens -= step.decodes.tokens
            self._plan_prefill(step)
        else:
            self._plan_prefill(step)
            if not step.chunks:
                self._plan_decodes(step)
                if not step.decodes.view.runs:  # who left may have made room for a prompt
                    self._plan_prefill(step)
        flight = step.seal(ledger.evicted_pages)
        if flight.batch.is_empty:
            life.publisher.put_back(remaps)
            return flight
        self._next_batch += 1
        if flight.batch.prefill_tokens:
            life.queue.prefilled(flight.batch.prefill_tokens)
        slots = flight.decodes.slots
        life.running.pending_tokens[slots] += life.config.max_tokens_per_step
        life.running.last_batch_id[slots] = step.batch_id
        return flight

    def _plan_prefill(self, step: Step) -> None:
        for run in list(self._life.running.prefilling.values()):
            self._add_chunk(run, step)
        # Who was retracted makes room for those that run: it does not come back at once, and
        # nobody comes before those that got no pages have them.
        life = self._life
        if not (life.starved or (step.retracted and life.running.by_rid)):
            self._admit(step)

    def _plan_decodes(self, step: Step) -> None:
        life = self._life
        plan, outgrown = plan_decodes(
            life.running,
            self._page_size,
            life.config.max_tokens_per_step,
            life.ledger.pool.capacity_pages,
            overlapping=bool(life.flights),
        )
        for run in outgrown:
            self._end_for_capacity(run, step)
        if not len(plan.places):
            life.starved.clear()
        else:
            slots = plan.view.slots[plan.places]
            unused = np.maximum(life.running.reserved_pages[slots] - plan.have, 0)
            promised = np.minimum(unused, plan.wanted)
            total, of_it = int(plan.wanted.sum()), int(promised.sum())
            if life.ledger.can_take(of_it, total - of_it):
                life.starved.clear()
                plan = self._grow_all(plan, life.ledger.take(total, of_it))
            else:
                plan = self._grow_one_by_one(plan, promised.tolist(), step)
        step.decodes = plan
        life.reserve.decoded(life.running, step.retracted)

    def _grow_all(self, plan: DecodePlan, pages: PageIds) -> DecodePlan:
        """Give every request that lacks pages its share."""
        runs, running = plan.view.runs, self._life.running
        start = replaced = 0
        for place, count in zip(plan.places.tolist(), plan.wanted.tolist(), strict=True):
            stop = start + count
            replaced += runs[place].append(pages[start:stop])
            start = stop
        running.num_pages[plan.view.slots[plan.places]] += plan.wanted
        if not replaced:
            return plan
        running.row_replaced()
        return plan._replace(view=plan.view.with_current_rows())

    def _grow_one_by_one(self, plan: DecodePlan, promised: list[int], step: Step) -> DecodePlan:
        """Grant pages in order; retract others when they run out. Return who runs."""
        life, runs = self._life, plan.view.runs
        places, wanted = plan.places.tolist(), plan.wanted.tolist()
        need = {places[i]: (wanted[i], promised[i]) for i in range(len(places))}
        ready: list[int] = []
        for place, run in enumerate(runs):
            if not run.alive:
                continue
            count, of_it = need.get(place, (0, 0))
            if count:
                if not self._make_room(run, of_it, count - of_it, step):
                    if run.alive:
                        life.starved[run.state.rid] = run
                    continue
                if run.append(life.ledger.take(count, of_it)):
                    life.running.row_replaced()
                life.running.num_pages[run.slot] = run.num_pages
            life.starved.pop(run.state.rid, None)
            ready.append(place)
        # One that was granted its pages may have been a victim later on.
        keep = [place for place in ready if runs[place].alive]
        plan = plan.only(keep, [place for place in keep if place in need])
        return plan._replace(view=plan.view.with_current_rows())

    def _make_room(self, run: Run, promised: int, extra: int, step: Step) -> bool:
        """Retract until the pages can be had; return whether they can, now."""
        life = self._life
        while not life.ledger.can_take(promised, extra):
            if life.ledger.anything_deferred:
                return False
            victim = choose_victim(life.running, self._victim_key)
            if len(life.running) == 1:
                self._end_for_capacity(run, step)
                return False
            step.retracted += 1
            step.events.extend(life.retract(victim))
            if victim is run:
                return False
        return True

    def _end_for_capacity(self, run: Run, step: Step) -> None:
        """End a request that has no room to grow, once its steps in flight are done."""
        life = self._life
        if life.running.last_batch_of(run) <= life.ledger.completed_id:
            step.events.append(life.end(run, "capacity")[0])

    def _add_chunk(self, run: Run, step: Step) -> None:
        """Run as much of a prompt as budget and pages allow."""
        life = self._life
        start, target = run.scheduled_tokens, run.state.prefill_tokens
        # Its pages are promised; only those still deferred can be missing.
        room = (run.num_pages + life.ledger.obtainable_pages) * self._page_size
        stop = min(start + step.budget_tokens, target, room)
        if stop <= start:
            return
        # The first pages of a run come with those it found in the cache.
        start_page = run.num_pages if run.last_batch_id >= 0 else 0
        short = pages_for(stop, self._page_size) - run.num_pages
        if short > 0:
            run.append(life.ledger.take(short, short))
        run.last_batch_id = step.batch_id
        run.scheduled_tokens = stop
        step.add_chunk(run, PrefillChunk(run.state.rid, start, stop, stop == target), start_page)
        if life.config.publish == "schedule":
            life.publish_prompt(run, stop)
        if stop == target:
            run.state.status = RequestStatus.DECODE
            life.running.start_decoding(run)
            life.reserve.joined(run)

    def _admit(self, step: Step) -> None:
        """Admit waiting requests while budget, places and memory last."""
        life = self._life
        begun = False
        while step.budget_tokens > 0 and life.waiting and self._picker.may_pick:
            if not begun:
                life.queue.begin_pass(life.now)
                begun = True
            pick = self._picker.pick(step)
            if step.refusal is None:
                step.refusal = self._picker.refusal
            if pick is None:
                return
            run, admitted = life.admit(pick)
            step.events.append(admitted)
            self._add_chunk(run, step)
