"""Step: a batch while it is put together; Flight: a batch until it completes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.admission import AdmissionRefusal
from scheduler.batch import Batch, IntVector, PageRemap, PrefillChunk
from scheduler.decode import NO_DECODES
from scheduler.events import Event
from scheduler.running import DecodeView, Run

__all__ = ["Flight", "Step"]


@dataclass(slots=True)
class Flight:
    """A batch in flight and the runs behind it."""

    batch: Batch
    chunk_runs: tuple[Run, ...]
    decodes: DecodeView
    some_gone: bool = False
    """Whether one of its runs has ended since: its late tokens are dropped."""


class Step:
    """Collects what one batch runs."""

    __slots__ = (
        "_chunk_rows",
        "batch_id",
        "budget_tokens",
        "chunk_growth",
        "chunk_runs",
        "chunks",
        "decode_growth",
        "decodes",
        "events",
        "evicted_before",
        "refusal",
        "remaps",
        "retracted",
    )

    def __init__(
        self,
        batch_id: int,
        budget_tokens: int,
        evicted_before: int,
        remaps: list[tuple[Run, PageRemap]],
    ) -> None:
        self.batch_id = batch_id
        self.budget_tokens = budget_tokens
        """Prefill tokens the step may still take."""
        self.evicted_before = evicted_before
        self.remaps = remaps
        self.chunk_runs: list[Run] = []
        self.chunks: list[PrefillChunk] = []
        self._chunk_rows: list[IntVector] = []
        self.chunk_growth: list[tuple[int, int, int]] = []
        """(place, start page, stop page) of the rows with new pages."""
        self.events: list[Event] = []
        self.refusal: AdmissionRefusal | None = None
        self.retracted = 0
        self.decodes = NO_DECODES

    def drop_dead_decodes(self, *, refund: bool) -> None:
        """Take the decodes of requests that are gone out again, ``refund`` their tokens."""
        plan = self.decodes
        runs = plan.view.runs
        keep = [place for place, run in enumerate(runs) if run.alive]
        if len(keep) < len(runs):
            self.decodes = plan.only(keep, [p for p in plan.places.tolist() if runs[p].alive])
            self.budget_tokens += (plan.tokens - self.decodes.tokens) if refund else 0

    def add_chunk(self, run: Run, chunk: PrefillChunk, start_page: int) -> None:
        """Add a part of a prompt; its row is the one the batch will name."""
        if run.num_pages > start_page:
            self.chunk_growth.append((len(self.chunks), start_page, run.num_pages))
        self.chunk_runs.append(run)
        self.chunks.append(chunk)
        self._chunk_rows.append(run.row)
        self.budget_tokens -= chunk.tokens

    def seal(self, evicted_pages: int) -> Flight:
        """Return the batch. Cost: O(chunks + changes), and O(running) if there are chunks."""
        view, positions, lengths, places, have, wanted = self.decodes
        decode_tokens = int(lengths.sum() - positions.sum())
        rids, rows = view.rids, view.rows
        changed, starts, stops = places, have, have + wanted
        chunks = tuple(self.chunks)
        if chunks:
            growth = np.array(self.chunk_growth, np.int32).reshape(-1, 3)
            bounds = np.array([chunk[1:3] for chunk in chunks], np.int32)
            positions = np.concatenate((bounds[:, 0], positions))
            lengths = np.concatenate((bounds[:, 1], lengths))
            changed = np.concatenate((growth[:, 0], changed + np.int32(len(chunks))))
            starts = np.concatenate((growth[:, 1], starts))
            stops = np.concatenate((growth[:, 2], stops))
            rids = tuple(chunk.rid for chunk in chunks) + rids
            rows = tuple(self._chunk_rows) + rows
        batch = Batch(
            batch_id=self.batch_id,
            rids=rids,
            chunks=chunks,
            rows=rows,
            positions=positions,
            lengths=lengths,
            changed=changed,
            changed_start=starts,
            changed_stop=stops,
            remaps=tuple(remap for run, remap in self.remaps if run.alive),
            events=tuple(self.events),
            prefill_tokens=sum(chunk.tokens for chunk in chunks),
            decode_tokens=decode_tokens,
            evicted_pages=evicted_pages - self.evicted_before,
            retracted=self.retracted,
            refusal=self.refusal,
        )
        return Flight(batch, tuple(self.chunk_runs), view)
