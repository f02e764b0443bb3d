"""What a completed batch changes: computed prompts, new tokens, ends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.batch import PrefillChunk
from scheduler.events import Event, FirstToken
from scheduler.lifecycle import Lifecycle
from scheduler.request import TokenIds
from scheduler.results import Result, read_results
from scheduler.running import DecodeView, Run
from scheduler.step import Flight

__all__ = ["Completer"]


class Completer:
    """Applies the results of batches, in the order these were scheduled."""

    __slots__ = ("_life", "_publish_now", "_typecode")

    def __init__(self, life: Lifecycle, typecode: str) -> None:
        self._life = life
        self._typecode = typecode
        self._publish_now = life.config.publish == "complete"

    def complete(self, flight: Flight, results: Mapping[str, Result]) -> list[Event]:
        """Check the results, then apply them; on an error nothing has changed.

        Cost: O(batch); of a batch of plain decode steps only an append a request is Python.
        """
        life = self._life
        outcome = read_results(flight, results, life.config.max_tokens_per_step, self._typecode)
        life.flights.popleft()
        life.ledger.settle(flight.batch.batch_id)
        events: list[Event] = []
        for run, chunk, (tokens, reason) in zip(
            flight.chunk_runs, flight.batch.chunks, outcome.chunks, strict=True
        ):
            if run.alive:
                self._complete_chunk(run, chunk, tokens, reason, events)
        if outcome.uniform is not None and not life.tokenless:
            self._one_token_each(flight.decodes, outcome.uniform, events)
        else:
            decodes = outcome.decodes
            if outcome.uniform is not None:
                decodes = [(outcome.uniform[i : i + 1], None) for i in range(len(outcome.uniform))]
            lengths = flight.batch.lengths[len(flight.chunk_runs) :].tolist()
            for run, length, (tokens, reason) in zip(
                flight.decodes.runs, lengths, decodes, strict=True
            ):
                if run.alive:
                    life.running.pending_tokens[run.slot] -= life.config.max_tokens_per_step
                    self._receive(run, length, tokens, reason, events)
        return events

    def _complete_chunk(
        self,
        run: Run,
        chunk: PrefillChunk,
        tokens: TokenIds,
        reason: str | None,
        events: list[Event],
    ) -> None:
        life = self._life
        run.computed_tokens = chunk.stop_tokens
        again = chunk.last and not tokens and reason is None
        if self._publish_now:
            # Without a token the last position runs once more: its page is not shared yet.
            life.publish_prompt(run, chunk.stop_tokens - again)
        if chunk.last:
            if again:
                life.tokenless[run.state.rid] = run
            life.running.pending_tokens[run.slot] -= 1
            self._receive(run, chunk.stop_tokens, tokens, reason, events)
        elif reason is not None:
            events.append(life.end(run, reason)[0])

    def _receive(
        self,
        run: Run,
        length_tokens: int,
        tokens: TokenIds,
        reason: str | None,
        events: list[Event],
    ) -> None:
        """Take the tokens of a step that may bring some; end the request if it is done."""
        life, state, slot = self._life, run.state, run.slot
        running = life.running
        final = int(running.final_tokens[slot])
        known = int(running.known_tokens[slot])
        # The step had pages up to its length; the token sampled last needs none.
        taken = tokens[: min(final, length_tokens + 1) - known]
        if taken:
            state.outputs.extend(taken)
            known += len(taken)
            running.known_tokens[slot] = known
            if life.tokenless.pop(state.rid, None) is not None and self._publish_now:
                life.publish_prompt(run, state.prefill_tokens)
            if state.first_token_s is None:
                state.first_token_s = life.now
                events.append(FirstToken(state))
        if reason is None and known >= final:
            reason = "length"
        if reason is not None:
            events.append(life.end(run, reason)[0])

    def _one_token_each(self, view: DecodeView, tokens: TokenIds, events: list[Event]) -> None:
        """Take one token for each decoding request, none of which has ended before."""
        running, slots = self._life.running, view.slots
        for append, token in zip(view.appends, tokens, strict=True):
            append(token)
        known = running.known_tokens[slots]
        known += 1
        running.known_tokens[slots] = known
        running.pending_tokens[slots] -= self._life.config.max_tokens_per_step
        done = known >= running.final_tokens[slots]
        if done.any():
            ended = [view.runs[place] for place in np.flatnonzero(done).tolist()]
            events.extend(self._life.end(run, "length")[0] for run in ended)
