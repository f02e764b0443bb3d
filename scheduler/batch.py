"""Batch: what one step runs, as plain records and numpy views; StepRecord: how it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.admission import AdmissionRefusal
from scheduler.events import Event

__all__ = ["Batch", "IntVector", "PageRemap", "PrefillChunk", "RowChange", "StepRecord"]

IntVector: TypeAlias = NDArray[np.int32]


class PrefillChunk(NamedTuple):
    """A part of a prompt that one step runs."""

    rid: str
    start_tokens: int
    stop_tokens: int
    last: bool
    """Whether it ends the prompt: only then the step gives a token."""

    @property
    def tokens(self) -> int:
        """Number of tokens run."""
        return self.stop_tokens - self.start_tokens


class RowChange(NamedTuple):
    """Pages ``[start_page, stop_page)`` of a row are new since the request's last batch."""

    rid: str
    start_page: int
    stop_page: int


class PageRemap(NamedTuple):
    """A row names other pages now: its own copies gave way to those of the cache."""

    rid: str
    start_page: int
    old_pages: tuple[int, ...]
    new_pages: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One step of the engine: first the prefill chunks, then the decoding requests.

    ``rows``, ``positions`` and ``lengths`` go with ``rids``: request i runs the tokens
    ``[positions[i], lengths[i])`` and reads the pages ``rows[i][:ceil(lengths[i] / p)]``.
    Nothing of these pages changes before the batch completes; what lies behind in the
    arrays is not part of the batch. While an earlier batch is in flight, the lengths of
    decoding requests are upper bounds (every draft taken).
    """

    batch_id: int
    rids: tuple[str, ...]
    chunks: tuple[PrefillChunk, ...]
    rows: tuple[IntVector, ...]
    positions: IntVector
    lengths: IntVector
    changed: IntVector
    """Places in ``rids`` of the rows that got pages since the request's last batch."""
    changed_start: IntVector
    """First new page of each of those rows."""
    changed_stop: IntVector
    """End of its new pages."""
    remaps: tuple[PageRemap, ...]
    events: tuple[Event, ...]
    """Admitted, retracted, or finished for want of capacity, while this was scheduled."""
    prefill_tokens: int
    decode_tokens: int
    evicted_pages: int
    """Pages evicted from the cache while this was scheduled."""
    retracted: int
    refusal: AdmissionRefusal | None
    """Why the first candidate that did not fit was not admitted."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to run; an empty batch is not completed."""
        return not self.rids

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """The rows that got pages, as records. Cost: O(changed rows)."""
        return tuple(
            RowChange(self.rids[place], start, stop)
            for place, start, stop in zip(
                self.changed.tolist(),
                self.changed_start.tolist(),
                self.changed_stop.tolist(),
                strict=True,
            )
        )

    @property
    def decode_rids(self) -> tuple[str, ...]:
        """The requests that run a decode step."""
        return self.rids[len(self.chunks) :]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One simulated step, for the recorder."""

    start_s: float
    duration_s: float
    prefill_tokens: int
    decode_tokens: int
    running: int
    waiting: int
    backlog_tokens: int
    free_pages: int
    evictable_pages: int
    protected_pages: int
    evicted_pages: int
    retracted: int
