"""What the engine brought back for a batch, checked before anything is changed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from radixcache.errors import BatchOrderError, TokenError
from scheduler.request import TokenIds
from scheduler.step import Flight

__all__ = ["Outcome", "Result", "read_results"]

Result: TypeAlias = tuple[Sequence[int], str | None]
"""New token ids of a request, and why it ends, if it does."""


class Outcome(NamedTuple):
    """Results in the order of the batch."""

    chunks: list[tuple[TokenIds, str | None]]
    decodes: list[tuple[TokenIds, str | None]]
    """Empty when ``uniform`` is given."""
    uniform: TokenIds | None
    """One token of each decoding request, if each has just that and goes on."""


def read_results(
    flight: Flight, results: Mapping[str, Result], most_tokens: int, typecode: str
) -> Outcome:
    """Return the results in order; a request without one got no tokens.

    Cost: O(batch), one lookup a request.

    Raises:
        BatchOrderError: results of a request that is not in the batch, or more tokens than
            planned: one at the end of a prompt, none before, ``most_tokens`` of a decode.
        TokenError: a token is no int or out of range.

    """
    batch = flight.batch
    given = list(map(results.get, batch.rids))
    missing = given.count(None)
    if len(given) - missing != len(results):
        known = set(batch.rids)
        stranger = next(rid for rid in results if rid not in known)
        raise BatchOrderError(
            f"results name {stranger!r}, which is not in batch {batch.batch_id}: "
            "pass the results of this batch only"
        )
    chunks = []
    for chunk, result in zip(batch.chunks, given, strict=False):
        chunks.append(_checked(chunk.rid, result, int(chunk.last), typecode))
    decodes = given[len(chunks) :]
    if not missing and not flight.some_gone:
        flat = [r[0][0] for r in decodes if r is not None and r[1] is None and len(r[0]) == 1]
        if len(flat) == len(decodes):
            return Outcome(chunks, [], _ids(flat, typecode, "a request"))
    rids = flight.decodes.rids
    checked = [
        _checked(rid, result, most_tokens, typecode)
        for rid, result in zip(rids, decodes, strict=True)
    ]
    return Outcome(chunks, checked, None)


def _checked(
    rid: str, result: Result | None, most_tokens: int, typecode: str
) -> tuple[TokenIds, str | None]:
    if result is None:
        return array(typecode), None
    tokens, reason = result
    if len(tokens) > most_tokens:
        raise BatchOrderError(
            f"{rid!r} got {len(tokens)} tokens in a step planned for {most_tokens}: a prompt "
            "gives one at its end and none before, a decode step max_tokens_per_step"
        )
    return _ids(tokens, typecode, repr(rid)), reason


def _ids(tokens: Sequence[int], typecode: str, owner: str) -> TokenIds:
    try:
        return array(typecode, tokens)
    except (TypeError, OverflowError, ValueError) as error:
        raise TokenError(
            f"a new token of {owner} is no id ({error}): give non-negative ints below "
            f"2**{8 * array(typecode).itemsize}"
        ) from None
