"""Which running request gives its pages back when memory runs out."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.config import RetractOrder
from scheduler.request import RequestState
from scheduler.running import Run, Running

__all__ = ["VictimKey", "choose_victim", "lost_tokens", "victim_key"]

VictimKey = Callable[[Run], tuple[int, ...]]
"""Sort key of victims, the first to go smallest."""


def lost_tokens(run: Run, running: Running, page_size: int) -> int:
    """Return the computed tokens of a request that no cache holds: the work at stake."""
    return max(running.computed(run) - run.shared_pages * page_size, 0)


def victim_key(
    order: RetractOrder,
    running: Running,
    page_size: int,
    class_of: Callable[[RequestState], int],
) -> VictimKey:
    """Return the sort key of an order: the last class first, then as the order says.

    ``least-lost``: the least work at stake. ``last-admitted``: vLLM v1 ``scheduler.py``
    (``running[-1]``). ``fewest-output``, among equals the longest prompt: SGLang 0.5.23
    ``schedule_batch.py`` (``_get_decode_retraction_order``).
    """
    if order == "last-admitted":
        return lambda run: (-class_of(run.state), -run.admission)
    if order == "fewest-output":
        return lambda run: (
            -class_of(run.state),
            run.state.output_tokens,
            -run.state.prompt_tokens,
            -run.state.arrival_seq,
        )
    return lambda run: (
        -class_of(run.state),
        lost_tokens(run, running, page_size),
        -run.state.arrival_seq,
    )


def choose_victim(running: Running, key: VictimKey) -> Run:
    """Return the request that gives its pages back first. Cost: O(running), at a shortage only."""
    return min(running.by_rid.values(), key=key)
