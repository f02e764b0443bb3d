"""What the simulated model answers: the recorded tokens, or a stream nobody else has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from radixcache import KeyKind
from scheduler.request import RequestState
from scheduler.results import Result

__all__ = ["answer", "answer_tokens", "output_length"]

# Odd multipliers spread the streams of neighbouring requests over the 31-bit ids.
_REQUEST_STEP = 0x9E37_79B1
_TOKEN_STEP = 0x85EB_CA6B
_ID_MASK = 0x7FFF_FFFF


def output_length(state: RequestState) -> int:
    """Return how many tokens the model will give: as recorded, at most ``max_new_tokens``."""
    request = state.request
    recorded = request.recorded_output_tokens
    if recorded is None and request.recorded_output_ids is not None:
        recorded = len(request.recorded_output_ids)
    if recorded is None:
        return request.max_new_tokens
    return max(1, min(recorded, request.max_new_tokens))


def answer_tokens(state: RequestState, position: int, count: int) -> Sequence[int]:
    """Return output tokens ``[position, position + count)`` of a request.

    Unknown ids become a stream of the request's own, so that cached answers use memory but
    match nobody's prompt by accident; a block-hash key has no ids for output at all.
    """
    ids = state.request.recorded_output_ids
    if ids is not None and position + count <= len(ids):
        return ids[position : position + count]
    if state.request.key.kind is KeyKind.BLOCKS:
        return (0,) * count
    # 64 bits wrap around, which leaves the lower 31 as they are.
    first = (state.arrival_seq + 1) * _REQUEST_STEP + position * _TOKEN_STEP
    stream = np.arange(count, dtype=np.uint64) * np.uint64(_TOKEN_STEP)
    stream += np.uint64(first & 0xFFFF_FFFF_FFFF_FFFF)
    stream &= np.uint64(_ID_MASK)
    tokens: list[int] = stream.tolist()
    return tokens


def answer(state: RequestState, capacity_tokens: int) -> list[Result]:
    """Return what each step of a request brings, one token each; the last one ends it.

    An answer longer than memory is cut: its request ends there, before it is done.

    Cost: O(output), at most O(capacity), once a request.
    """
    whole = output_length(state)
    length = min(whole, capacity_tokens + 1)  # the token sampled last needs no memory
    known = min(len(state.request.recorded_output_ids or ()), length)
    tokens = [*answer_tokens(state, 0, known), *answer_tokens(state, known, length - known)]
    results: list[Result] = list(zip(zip(tokens, strict=True), repeat(None), strict=False))
    if length == whole:
        results[-1] = (results[-1][0], "stop")
    return results
