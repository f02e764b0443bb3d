"""Running: the admitted requests, their page rows, and arrays for the decode steps."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from radixcache import PageIds, PrefixHandle
from scheduler.batch import IntVector
from scheduler.config import MOST_TOKENS
from scheduler.request import RequestState

__all__ = ["DecodeView", "Run", "Running"]


class Run:
    """One admission of a request: what it holds until it ends or is retracted.

    Of its page row, ``[0, shared_pages)`` are pages of the cache, pinned by ``handle``;
    ``[shared_pages, num_pages)`` are its own.
    """

    __slots__ = (
        "admission",
        "alive",
        "computed_tokens",
        "handle",
        "last_batch_id",
        "num_pages",
        "reserved_pages",
        "row",
        "scheduled_tokens",
        "shared_pages",
        "slot",
        "state",
    )

    def __init__(
        self,
        state: RequestState,
        handle: PrefixHandle,
        slot: int,
        total_pages: int,
        admission: int,
    ) -> None:
        self.state = state
        self.admission = admission
        """Its number in the order of admissions."""
        self.handle = handle
        self.slot = slot
        self.reserved_pages = total_pages
        """Pages it may hold without asking again."""
        self.row: IntVector = np.empty(total_pages, np.int32)
        self.num_pages = self.shared_pages = len(handle.pages)
        self.row[: self.num_pages] = handle.pages
        self.computed_tokens = self.scheduled_tokens = handle.prefix_tokens
        """Computed: up to the last completed step (of the prefill; see ``Running.computed``)."""
        self.last_batch_id = -1
        """The last batch with a prefill chunk of it; decodes are kept in an array."""
        self.alive = True

    @property
    def prefilling(self) -> bool:
        """Whether a part of its prompt is not scheduled yet."""
        return self.scheduled_tokens < self.state.prefill_tokens

    @property
    def promised_pages(self) -> int:
        """Reserved pages that are not allocated yet."""
        return max(self.reserved_pages - self.num_pages, 0)

    def append(self, pages: PageIds) -> bool:
        """Add pages of its own; return whether the row is another array now."""
        start = self.num_pages
        self.num_pages = stop = start + len(pages)
        grown = stop > len(self.row)
        if grown:
            row = np.empty(max(stop, 2 * len(self.row)), np.int32)
            row[:start] = self.row[:start]
            self.row = row
        if stop == start + 1:
            self.row[start] = pages[0]
        else:
            self.row[start:stop] = pages
        return grown

    def pages(self, start: int, stop: int) -> PageIds:
        """Return a part of the row as page ids."""
        out = array("i")
        out.frombytes(self.row[start:stop].tobytes())
        return out


class DecodeView(NamedTuple):
    """Decoding requests as parallel sequences; shared by steps until something changes."""

    runs: tuple[Run, ...]
    rids: tuple[str, ...]
    rows: tuple[IntVector, ...]
    appends: tuple[Callable[[int], None], ...]
    slots: NDArray[np.intp]

    def only(self, keep: list[int]) -> DecodeView:
        """Return the part at the given places."""
        return DecodeView(
            tuple(self.runs[i] for i in keep),
            tuple(self.rids[i] for i in keep),
            tuple(self.rows[i] for i in keep),
            tuple(self.appends[i] for i in keep),
            self.slots[keep],
        )

    def with_current_rows(self) -> DecodeView:
        """Return the same requests with the rows they have now."""
        return self._replace(rows=tuple(run.row for run in self.runs))


class Running:
    """The admitted requests in order of admission, each with a slot in the arrays."""

    __slots__ = (
        "_admissions",
        "_decoding",
        "_free_slots",
        "_view",
        "by_rid",
        "final_tokens",
        "known_tokens",
        "last_batch_id",
        "max_running",
        "num_pages",
        "pending_tokens",
        "prefilling",
        "reserved_pages",
    )

    def __init__(self, max_running: int) -> None:
        self.max_running = max_running
        self.by_rid: dict[str, Run] = {}
        self.prefilling: dict[str, Run] = {}
        """Those with a part of the prompt not scheduled, in order of admission."""
        self._decoding: dict[str, Run] = {}
        self._admissions = 0
        self._free_slots = list(range(max_running - 1, -1, -1))
        self._view: DecodeView | None = None
        # By slot; meaningful while the request decodes.
        self.known_tokens = np.zeros(max_running, np.int32)
        """Prompt and output tokens so far; the last one has no KV yet."""
        self.final_tokens = np.zeros(max_running, np.int32)
        """Known tokens at which it has all it asked for, or as many as a request can have."""
        self.pending_tokens = np.zeros(max_running, np.int32)
        """Tokens that the steps in flight bring at most."""
        self.num_pages = np.zeros(max_running, np.int32)
        self.reserved_pages = np.zeros(max_running, np.int32)
        self.last_batch_id = np.full(max_running, -1, np.int64)

    def __len__(self) -> int:
        return len(self.by_rid)

    def add(self, state: RequestState, handle: PrefixHandle, total_pages: int) -> Run:
        """Give a request a slot. Cost: O(pages of the hit)."""
        run = Run(state, handle, self._free_slots.pop(), total_pages, self._admissions)
        self._admissions += 1
        self.by_rid[state.rid] = run
        self.prefilling[state.rid] = run
        self.last_batch_id[run.slot] = -1
        return run

    def start_decoding(self, run: Run) -> None:
        """Note that the last chunk of a prompt was scheduled."""
        state, slot = run.state, run.slot
        self.known_tokens[slot] = state.prefill_tokens
        final = state.prompt_tokens + state.request.max_new_tokens
        self.final_tokens[slot] = min(final, MOST_TOKENS)
        self.pending_tokens[slot] = 1
        self.num_pages[slot] = run.num_pages
        self.reserved_pages[slot] = run.reserved_pages
        del self.prefilling[state.rid]
        self._decoding[state.rid] = run
        self._view = None

    def remove(self, run: Run) -> None:
        """Forget a run that ended; its slot is free again."""
        run.alive = False
        rid = run.state.rid
        del self.by_rid[rid]
        self.prefilling.pop(rid, None)
        if self._decoding.pop(rid, None) is not None:
            self._view = None
        self._free_slots.append(run.slot)

    def row_replaced(self) -> None:
        """Note that some request has another row array now."""
        self._view = None

    def last_batch_of(self, run: Run) -> int:
        """Return the last batch that a run takes part in; -1 for none."""
        return max(run.last_batch_id, int(self.last_batch_id[run.slot]))

    def computed(self, run: Run) -> int:
        """Return the tokens whose KV is there, up to the last completed step."""
        if run.computed_tokens < run.state.prefill_tokens:
            return run.computed_tokens
        return max(run.state.prefill_tokens, run.state.prompt_tokens + run.state.output_tokens - 1)

    def view(self) -> DecodeView:
        """Return the decoding requests. Cost: O(1), O(running) after a change."""
        if self._view is None:
            runs = tuple(self._decoding.values())
            self._view = DecodeView(
                runs,
                tuple(run.state.rid for run in runs),
                tuple(run.row for run in runs),
                tuple(run.state.outputs.append for run in runs),
                np.fromiter((run.slot for run in runs), np.intp, len(runs)),
            )
        return self._view
