"""The invariants of a scheduler, as one readable list."""

from __future__ import annotations

from collections.abc import Iterator

from radixcache.errors import IntegrityError
from scheduler.lifecycle import Lifecycle
from scheduler.running import Run

__all__ = ["check_scheduler"]


def check_scheduler(life: Lifecycle) -> None:
    """Verify everything that must hold between two calls.

    Raises:
        IntegrityError: the first thing that does not.

    """
    for fault in _faults(life):
        raise IntegrityError(fault)
    life.ledger.cache.check()
    life.queue.check()
    life.guard.check()


def _faults(life: Lifecycle) -> Iterator[str]:
    yield from _page_faults(life)
    running, ledger = life.running, life.ledger
    for run in running.by_rid.values():
        yield from _run_faults(life, run)
    promised = sum(run.promised_pages for run in running.by_rid.values())
    if promised != ledger.reserved_pages:
        yield f"{ledger.reserved_pages} pages count as reserved, {promised} are promised"
    if len(life.queue) != len(life.waiting):
        yield f"the queue holds {len(life.queue)} requests, {len(life.waiting)} wait"
    for rid, state in life.waiting.items():
        if state not in life.queue or rid in running.by_rid or state.ended:
            yield f"{state!r} waits, but not in the queue, or runs, or has ended"
    if len(life.guard) != len(life.waiting):
        yield f"the guard knows {len(life.guard)} waiting requests, {len(life.waiting)} wait"
    slots = [run.slot for run in running.by_rid.values()]
    if len(set(slots)) != len(slots) or len(slots) > running.max_running:
        yield f"slots {slots} are not one for each running request"
    if len(life.flights) > life.config.max_in_flight:
        yield f"{len(life.flights)} batches are in flight"
    for flight in life.flights:
        for rid, row, length in zip(
            flight.batch.rids, flight.batch.rows, flight.batch.lengths.tolist(), strict=True
        ):
            if length > len(row) * life.config.page_size:
                yield f"the row of {rid!r} in batch {flight.batch.batch_id} is too short"


def _page_faults(life: Lifecycle) -> Iterator[str]:
    """Every page is free, cached, of one request, or deferred."""
    ledger, running = life.ledger, life.running
    size = ledger.cache.size
    own: list[int] = list(ledger.deferred())
    for run in running.by_rid.values():
        own.extend(run.pages(run.shared_pages, run.num_pages))
    if len(set(own)) != len(own):
        yield f"a page has two owners among {sorted(own)}"
    total = ledger.pool.free_pages + size.evictable_pages + size.protected_pages + len(own)
    if total != ledger.pool.capacity_pages:
        yield (
            f"free {ledger.pool.free_pages} + evictable {size.evictable_pages} + protected "
            f"{size.protected_pages} + held {len(own)} pages are not the "
            f"{ledger.pool.capacity_pages} of the pool"
        )
    mine = set(own)
    for run in running.by_rid.values():
        if not mine.isdisjoint(run.pages(0, run.shared_pages)):
            yield f"a cached page of {run.state!r} is held by a request too"


def _run_faults(life: Lifecycle, run: Run) -> Iterator[str]:
    page_size, running, state = life.config.page_size, life.running, run.state
    if not run.alive or state.ended:
        yield f"{state!r} has ended and still runs"
    if list(run.handle.pages) != list(run.pages(0, run.shared_pages)):
        yield f"the row of {state!r} does not start with the pages it pins"
    if run.prefilling != (state.rid in running.prefilling):
        yield f"{state!r} is on the wrong side of its last chunk"
    if run.num_pages * page_size < max(running.computed(run), run.scheduled_tokens):
        yield f"{state!r} has {run.num_pages} pages for {running.computed(run)} computed tokens"
    if run.computed_tokens > run.scheduled_tokens or state.hit_tokens is None:
        yield f"{state!r} computed {run.computed_tokens} of {run.scheduled_tokens} scheduled"
    elif state.hit_tokens > max(state.prompt_tokens - 1, 0):
        yield f"{state!r} hit {state.hit_tokens} of {state.prompt_tokens} prompt tokens"
    if not run.prefilling:
        known = state.prompt_tokens + state.output_tokens
        if int(running.known_tokens[run.slot]) != known:
            yield f"{state!r} has {known} tokens, its slot says {running.known_tokens[run.slot]}"
        if int(running.num_pages[run.slot]) != run.num_pages:
            yield f"{state!r} has {run.num_pages} pages, its slot says otherwise"
