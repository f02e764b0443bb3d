"""Which running request gives its pages back when memory runs out."""

from __future__ import annotations

from scheduler.running import Run, Running

__all__ = ["choose_victim", "lost_tokens"]


def lost_tokens(run: Run, running: Running, page_size: int) -> int:
    """Return the computed tokens of a request that no cache holds: the work at stake."""
    return max(running.computed(run) - run.shared_pages * page_size, 0)


def choose_victim(running: Running, page_size: int) -> Run:
    """Return the request that loses least; among equals the latest arrival.

    Cost: O(running), at a shortage only.
    """
    return min(
        running.by_rid.values(),
        key=lambda run: (lost_tokens(run, running, page_size), -run.state.arrival_seq),
    )
