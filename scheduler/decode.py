"""Plan of the decode steps: positions and page needs of all decoding requests at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.batch import IntVector
from scheduler.config import MOST_TOKENS
from scheduler.running import DecodeView, Run, Running

__all__ = ["NO_DECODES", "DecodePlan", "plan_decodes"]


class DecodePlan(NamedTuple):
    """What the decoding requests would run, and the pages they lack for it."""

    view: DecodeView
    positions: IntVector
    lengths: IntVector
    places: IntVector
    """Places in the view of the requests that lack pages."""
    have: IntVector
    """Pages each of those has."""
    wanted: IntVector
    """Pages it lacks."""

    @property
    def tokens(self) -> int:
        """Number of tokens run."""
        return int(self.lengths.sum() - self.positions.sum())

    def only(self, keep: list[int], grown: list[int]) -> DecodePlan:
        """Return the plan of the requests at ``keep``, of which ``grown`` got their pages."""
        index = np.searchsorted(self.places, grown)
        return DecodePlan(
            self.view.only(keep),
            self.positions[keep],
            self.lengths[keep],
            np.searchsorted(keep, grown).astype(np.int32),
            self.have[index],
            self.wanted[index],
        )


_NOTHING = np.zeros(0, np.int32)
NO_DECODES = DecodePlan(
    DecodeView((), (), (), (), np.zeros(0, np.intp)),
    _NOTHING,
    _NOTHING,
    _NOTHING,
    _NOTHING,
    _NOTHING,
)
"""The plan of a step without decodes; nothing in it can change."""


def plan_decodes(
    running: Running,
    page_size: int,
    tokens_per_step: int,
    capacity_pages: int,
    *,
    overlapping: bool,
) -> tuple[DecodePlan, tuple[Run, ...]]:
    """Return the next step of every decoding request that has one, and who outgrew the pool.

    While steps of it are in flight, a request's position counts all their tokens as taken.
    One whose last token must be among those waits. Cost: O(running) in numpy, whatever the
    context lengths.
    """
    view = running.view()
    positions = running.known_tokens[view.slots]
    positions -= 1
    most = running.final_tokens[view.slots]
    most -= 1
    capacity_tokens = min(capacity_pages * page_size, MOST_TOKENS)
    np.minimum(most, capacity_tokens, out=most)
    if overlapping:
        positions += running.pending_tokens[view.slots]
    lengths = np.minimum(positions + tokens_per_step, most)
    idle = lengths <= positions
    outgrown: tuple[Run, ...] = ()
    if idle.any():
        full = idle & (running.known_tokens[view.slots] > capacity_tokens)
        outgrown = tuple(view.runs[place] for place in np.flatnonzero(full).tolist())
        keep = np.flatnonzero(~idle).tolist()
        view, positions, lengths = view.only(keep), positions[keep], lengths[keep]
    have = running.num_pages[view.slots]
    lack = (lengths + (page_size - 1)) // page_size - have
    places = np.flatnonzero(lack > 0).astype(np.int32)
    return DecodePlan(view, positions, lengths, places, have[places], lack[places]), outgrown
