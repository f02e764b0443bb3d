"""One predicate in pages, for the entry, for admission and for the size of a chunk."""

from __future__ import annotations

import math
from typing import NamedTuple

from scheduler.request import RequestState

__all__ = ["AdmissionRefusal", "Pick", "Supply", "pages_for", "pages_of_request", "refusal_of"]


class AdmissionRefusal(NamedTuple):
    """A request that was not admitted, since memory is short of pages now.

    What can never be enough is refused at ``submit``.
    """

    rid: str
    needed_pages: int
    """New pages wanted: the whole reservation without the cached prefix."""
    available_pages: int
    """What could be had: free and evictable, without the hit itself and what is reserved."""


class Pick(NamedTuple):
    """A waiting request that may be admitted now."""

    state: RequestState
    matched_tokens: int
    total_pages: int
    """Pages of its whole reservation, the matched ones included."""
    forced: bool
    """Whether the guard chose it."""


class Supply(NamedTuple):
    """Where pages can come from, at one moment."""

    free_pages: int
    evictable_pages: int
    reserved_pages: int
    """Promised to running requests and not allocated yet."""

    @property
    def spare_pages(self) -> int:
        """What nobody was promised."""
        return self.free_pages + self.evictable_pages - self.reserved_pages


def pages_for(tokens: int, page_size: int) -> int:
    """Return the pages that hold ``tokens``."""
    return -(-tokens // page_size)


def pages_of_request(state: RequestState, reserve_ratio: float) -> int:
    """Return the pages a request holds at the end of its reservation.

    That is its tokens so far plus ``reserve_ratio`` of the output still allowed; the last
    token sampled has no KV.
    """
    still = state.request.max_new_tokens - state.output_tokens
    reserved = math.ceil(reserve_ratio * still)
    return pages_for(state.prefill_tokens + max(reserved - 1, 0), state.page_size)


def refusal_of(
    rid: str, total_pages: int, hit_pages: int, unpinned_hit_pages: int, supply: Supply
) -> AdmissionRefusal | None:
    """Return why a request cannot have its pages now, or None if it can.

    Pinning the hit takes its unpinned pages out of what can be evicted, so they count as
    hit and not as supply. Cost: O(1).
    """
    needed = total_pages - hit_pages
    available = supply.spare_pages - unpinned_hit_pages
    if needed <= available:
        return None
    return AdmissionRefusal(rid, needed, available)
