"""An engine and its requests, said plainly: what each KV slot holds, token by token.

The engine runs batches in the order they were scheduled, reads every page a row names, and
finds a page that was freed too early, shared wrongly, rewritten under its feet or reused
while somebody still reads it. The lists say how far each request must be.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixcache import PagePool, PrefixCache, PrefixKey
from scheduler.batch import Batch
from scheduler.events import Admitted, Event, Finished, FirstToken, Retracted
from scheduler.request import Request, RequestState, RequestStatus
from scheduler.results import Result
from scheduler.scheduler import Scheduler

__all__ = ["EngineModel", "Told", "token_of"]

DRAFT = -1


def token_of(rid: str, index: int) -> int:
    """Return the token a request samples at an index: fixed, few different ones."""
    return sum(rid.encode()) * 7 % 3 + (index * index) % 2


@dataclass
class Told:
    """What the test knows of one request, from what it was told."""

    state: RequestState
    prompt: list[int]
    given: int = 0
    """Tokens handed to complete() and to be kept."""
    next_position: int = 0
    """The first token not scheduled yet, while its prompt runs."""
    first_tokens: int = 0
    ended: str | None = None
    computed_once: int = 0
    """Prefill tokens run for its first admission."""

    @property
    def request(self) -> Request:
        return self.state.request

    def tokens(self) -> list[int]:
        most = self.request.max_new_tokens
        return [*self.prompt, *(token_of(self.state.rid, i) for i in range(most))]


@dataclass
class InFlight:
    batch: Batch
    rows: list[list[int]]
    """A copy of what the batch names."""
    epochs: dict[str, tuple[Told, int]]
    """Whose request and which admission each rid meant."""


class EngineModel:
    """Drives nothing; told of every call, it checks what came out."""

    def __init__(self, scheduler: Scheduler, cache: PrefixCache, pool: PagePool) -> None:
        self.scheduler = scheduler
        self.cache = cache
        self.pool = pool
        self.page_size = cache.page_size
        self.told: dict[str, Told] = {}
        self.flights: list[InFlight] = []
        self.slots: dict[int, list[int]] = {}
        """By page: for each slot what it holds, as a hash of all tokens up to it."""

    def submitted(self, state: RequestState, prompt: list[int]) -> None:
        self.told[state.rid] = Told(state, prompt)

    def scheduled(self, batch: Batch) -> None:
        """Check a new batch against the lists, and that its pages are its own to use."""
        config = self.scheduler.config
        assert batch.prefill_tokens <= config.chunk_tokens
        assert len(set(batch.rids)) == len(batch.rids) <= config.max_running
        self.happened(batch.events)
        starts, stops = batch.positions.tolist(), batch.lengths.tolist()
        assert batch.prefill_tokens + batch.decode_tokens == sum(stops) - sum(starts)
        rows = []
        for rid, row, start, stop in zip(batch.rids, batch.rows, starts, stops, strict=True):
            assert 0 <= start < stop
            rows.append(row[: -(-stop // self.page_size)].tolist())
            assert len(set(rows[-1])) == len(rows[-1])
            assert self.told[rid].ended is None
        for chunk in batch.chunks:
            told = self.told[chunk.rid]
            assert chunk.start_tokens == told.next_position
            told.next_position = chunk.stop_tokens
            if not told.state.retractions:
                told.computed_once += chunk.tokens
            assert chunk.last == (chunk.stop_tokens == told.state.prefill_tokens)
        for rid, start, stop in list(zip(batch.rids, starts, stops, strict=True))[
            len(batch.chunks) :
        ]:
            assert stop - start <= config.max_tokens_per_step
            known = self.told[rid].state.prompt_tokens + self.told[rid].given
            assert start >= known - 1
            if not self.flights:
                assert start == known - 1
        epochs = {rid: (self.told[rid], self.told[rid].state.retractions) for rid in batch.rids}
        if not batch.is_empty:
            self._no_page_is_written_under_a_reader(batch.rids, rows, starts)
            self.flights.append(InFlight(batch, rows, epochs))

    def _no_page_is_written_under_a_reader(
        self, rids: tuple[str, ...], rows: list[list[int]], starts: list[int]
    ) -> None:
        """What a request writes is its own, in this batch and in those still in flight."""
        for rid, row, start in zip(rids, rows, starts, strict=True):
            told = self.told[rid]
            # A prompt that gave no token runs its last one again. Where pages are shared as
            # they are scheduled, it writes the same into a shared page.
            early = self.scheduler.config.publish == "schedule"
            again = early and start == told.state.prefill_tokens - 1 and not told.given
            written = set(row[(start + again) // self.page_size :])
            for flight in self.flights:
                for other, read in zip(flight.batch.rids, flight.rows, strict=True):
                    same = other == rid and flight.epochs[rid][1] == self._epoch(rid)
                    assert same or written.isdisjoint(read)
            for other, read, begin in zip(rids, rows, starts, strict=True):
                if other != rid:
                    assert written.isdisjoint(read[begin // self.page_size :])
                    if self.scheduler.config.publish == "complete":
                        assert written.isdisjoint(read)

    def _epoch(self, rid: str) -> int:
        return self.told[rid].state.retractions

    def results(self, accepted: dict[str, tuple[int, str | None]]) -> dict[str, Result]:
        """Run the oldest batch, which takes ``accepted[rid]`` tokens; return its results."""
        flight = self.flights[0]
        batch, page_size = flight.batch, self.page_size
        for row, named in zip(batch.rows, flight.rows, strict=True):
            assert row[: len(named)].tolist() == named, "a row changed while in flight"
        results: dict[str, Result] = {}
        reads: list[tuple[list[int], list[int], int]] = []
        for place, rid in enumerate(batch.rids):
            told, admission = flight.epochs[rid]
            stop = int(batch.lengths[place])
            chain = hashes(told.request.key, told.tokens())
            is_live = self._is_live(told, admission)
            if place < len(batch.chunks):
                chunk = batch.chunks[place]
                start, real_stop = chunk.start_tokens, stop
                count = min(accepted[rid][0], 1) if chunk.last else 0
            else:
                known = told.request.prompt_tokens + told.given
                start = min(known - 1, stop - 1) if is_live else int(batch.positions[place])
                count = accepted[rid][0]
                real_stop = min(start + max(count, 1), stop)
            row = flight.rows[place]
            for position in range(start, stop):
                value = chain[position] if position < real_stop else DRAFT
                page = self.slots.setdefault(row[position // page_size], [DRAFT] * page_size)
                page[position % page_size] = value
            if is_live:
                reads.append((row, chain, real_stop))
            if place >= len(batch.chunks) or batch.chunks[place].last:
                ids = [token_of(rid, told.given + i) for i in range(count)]
                results[rid] = (ids, accepted[rid][1])
                if is_live:
                    room = stop + 1 - told.request.prompt_tokens - told.given
                    told.given += min(count, told.request.max_new_tokens - told.given, room)
        for row, chain, stop in reads:
            for position in range(stop):
                held = self.slots[row[position // page_size]][position % page_size]
                assert held == chain[position], f"slot of token {position} holds another prefix"
        return results

    def _is_live(self, told: Told, admission: int) -> bool:
        return told.ended is None and told.state.retractions == admission and running(told.state)

    def completed(self, events: tuple[Event, ...]) -> None:
        self.flights.pop(0)
        self.happened(events)

    def happened(self, events: tuple[Event, ...]) -> None:
        for event in events:
            told = self.told[event.state.rid]
            assert told.state is event.state
            assert told.ended is None, "something happened after the end"
            if isinstance(event, Finished):
                told.ended = event.reason
                assert event.state.finish_reason == event.reason
            elif isinstance(event, Admitted):
                told.next_position = event.cached_tokens
                assert event.cached_tokens % self.page_size == 0
                assert event.cached_tokens <= event.state.prefill_tokens - 1
                assert event.resumed == (event.state.retractions > 0)
            elif isinstance(event, FirstToken):
                told.first_tokens += 1
                assert told.first_tokens == 1
            else:
                assert isinstance(event, Retracted)
                assert event.lost_tokens >= 0

    def check(self) -> None:
        """Check pages by id, and the counters against the lists."""
        self.scheduler.check()
        self.pool.check()
        in_use = self.pool.in_use()
        for flight in self.flights:
            for row in flight.rows:
                assert in_use.issuperset(row), "a page in flight was freed"
        live = [told for told in self.told.values() if told.ended is None]
        assert len(live) == self.scheduler.waiting + self.scheduler.running
        for told in live:
            assert told.state.output_tokens == told.given
            assert not told.state.ended
        report = self.scheduler.report()
        total = report.total
        assert 0 <= total.hit_tokens <= total.prompt_tokens
        assert total.hit_tokens == sum(t.state.hit_tokens or 0 for t in self.told.values())
        assert total.finished + total.aborted == len(self.told) - len(live)
        assert total.retractions == sum(t.state.retractions for t in self.told.values())
        states = [told.state for told in live if not running(told.state)]
        matched = [self.cache.peek(s.key, s.cap_tokens).prefix_tokens for s in states]
        assert report.matched_tokens == sum(matched)
        assert report.backlog_tokens == sum(s.prefill_tokens for s in states) - sum(matched)

    def check_end(self) -> None:
        """Check that everybody ended once and everything came back."""
        assert self.scheduler.is_idle
        size = self.cache.size
        assert size.protected_pages == 0
        assert self.pool.free_pages + size.evictable_pages == self.pool.capacity_pages
        for told in self.told.values():
            state = told.state
            assert told.ended is not None
            assert state.output_tokens == told.given <= told.request.max_new_tokens
            assert list(state.outputs) == [token_of(state.rid, i) for i in range(told.given)]
            if told.ended == "length":
                assert told.given == told.request.max_new_tokens
            if told.given and not state.retractions:
                assert (state.hit_tokens or 0) + told.computed_once == state.prompt_tokens
            if told.given:
                assert state.first_token_s is not None


def running(state: RequestState) -> bool:
    return state.status in {RequestStatus.PREFILL, RequestStatus.DECODE}


def hashes(key: PrefixKey, tokens: list[int]) -> list[int]:
    """Return for each token a hash of the namespace and all tokens up to it."""
    out = []
    value = hash(key.namespace) & 0xFFFF
    for token in tokens:
        value = hash((value, token))
        out.append(value)
    return out
