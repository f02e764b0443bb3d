"""Step: a batch while it is put together; Flight: a batch until it completes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.admission import AdmissionRefusal
from scheduler.batch import Batch, IntVector, PageRemap, PrefillChunk, RowChange
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
        "changes",
        "chunk_runs",
        "chunks",
        "decodes",
        "events",
        "evicted_before",
        "lengths",
        "positions",
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
        self.changes: list[tuple[Run, RowChange]] = []
        self.events: list[Event] = []
        self.refusal: AdmissionRefusal | None = None
        self.retracted = 0
        self.decodes: DecodeView
        self.positions: IntVector
        self.lengths: IntVector

    def set_decodes(self, decodes: DecodeView, positions: IntVector, lengths: IntVector) -> None:
        """Set the decoding requests and the tokens they run."""
        self.decodes = decodes
        self.positions = positions
        self.lengths = lengths

    def add_chunk(self, run: Run, chunk: PrefillChunk) -> None:
        """Add a part of a prompt; its row is the one the batch will name."""
        self.chunk_runs.append(run)
        self.chunks.append(chunk)
        self._chunk_rows.append(run.row)
        self.budget_tokens -= chunk.tokens

    def grew(self, run: Run, start_page: int) -> None:
        """Note that a row got pages from ``start_page`` on."""
        self.changes.append((run, RowChange(run.state.rid, start_page, run.num_pages)))

    def seal(self, evicted_pages: int) -> Flight:
        """Return the batch. Cost: O(chunks + changes), and O(running) if there are chunks."""
        decodes, positions, lengths = self.decodes, self.positions, self.lengths
        decode_tokens = int(lengths.sum() - positions.sum())
        rids, rows = decodes.rids, decodes.rows
        chunks = tuple(self.chunks)
        if chunks:
            starts = np.array([c.start_tokens for c in chunks], np.int32)
            stops = np.array([c.stop_tokens for c in chunks], np.int32)
            positions = np.concatenate((starts, positions))
            lengths = np.concatenate((stops, lengths))
            rids = tuple(c.rid for c in chunks) + rids
            rows = tuple(self._chunk_rows) + rows
        batch = Batch(
            batch_id=self.batch_id,
            rids=rids,
            chunks=chunks,
            rows=rows,
            positions=positions,
            lengths=lengths,
            changes=tuple(change for run, change in self.changes if run.alive),
            remaps=tuple(remap for run, remap in self.remaps if run.alive),
            events=tuple(self.events),
            prefill_tokens=sum(c.tokens for c in chunks),
            decode_tokens=decode_tokens,
            evicted_pages=evicted_pages - self.evicted_before,
            retracted=self.retracted,
            refusal=self.refusal,
        )
        return Flight(batch, tuple(self.chunk_runs), decodes)
