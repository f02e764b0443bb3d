"""Block ids of a row, whatever their type and how many of its blocks they cover."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from radixcache import DEFAULT_NAMESPACE, Namespace, PrefixKey
from radixcache.errors import ConfigError
from scheduler.trace.formats import Head, ReadOptions
from scheduler.trace.summary import RowError

__all__ = [
    "DIGESTS",
    "FULL_BLOCKS",
    "PARTIAL",
    "block_key",
    "block_length",
    "block_units",
    "said_block_tokens",
]

FEWER = "fewer block ids than full blocks: the rest of the prompt is shared with nobody"
FULL_BLOCKS = "outputs have no block ids: they are not cached"
PARTIAL = "the id of a partial last block is kept: hits are min(block x matched ids, input_length)"
DIGESTS = "block ids that are text, negative or not below 2**62 are replaced by digests of 62 bits"
PLAIN_BITS = 62


def block_units(row: dict[str, Any], field: str) -> list[int]:
    """Return a list of block ids as ints below 2**63: equal ids stay equal.

    An id may be an int of 64 bits, signed or not, or text. Raises: RowError.
    """
    value = row.get(field)
    if value is None:
        raise RowError(f"{field} is missing")
    if not isinstance(value, list):
        raise RowError(f"{field} is no list", value)
    if set(map(type, value)) <= {int} and (
        not value or (min(value) >= 0 and max(value) < 1 << PLAIN_BITS)
    ):
        return value
    return [_unit(part, field) for part in value]


def _unit(part: object, field: str) -> int:
    """Return one id as an int: a large one has bit 62 set, so that it equals no plain one."""
    if type(part) is int and -(1 << 63) <= part < 1 << 64:
        part &= (1 << 64) - 1
        if part < 1 << PLAIN_BITS:
            return part
        data = b"i" + part.to_bytes(8, "little")
    elif type(part) is str:
        data = b"s" + part.encode(errors="surrogatepass")
    else:
        raise RowError(f"{field} holds something that is neither text nor an int of 64 bits")
    digest = int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
    return 1 << PLAIN_BITS | digest >> 2


def block_key(
    ids: list[int],
    prompt_tokens: int,
    block_tokens: int,
    *,
    field: str,
    partial_block: bool,
    repairs: list[str],
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> PrefixKey:
    """Return the key of a prompt's full blocks, and of a partial last one where it is wanted.

    Raises: RowError when there are more ids than blocks.
    """
    full, rest = divmod(prompt_tokens, block_tokens)
    if len(ids) > full + bool(rest):
        raise RowError(f"{field} are more than blocks of {block_tokens} tokens", len(ids))
    if len(ids) < full:
        repairs.append(FEWER)
    kept = ids if partial_block else ids[:full]
    return PrefixKey.from_block_ids(kept, block_tokens, namespace)


def block_length(rows: Iterable[tuple[int, int]]) -> int | None:
    """Return the power of two that explains how many ids rows of so many tokens have.

    Rows are (ids, tokens). All have an id for each full block, or all for a partial one
    too; None when no block length up to 65,536 tokens explains them.
    """
    known = [(ids, tokens) for ids, tokens in rows if ids]
    lengths = [1 << power for power in range(16, -1, -1)]
    for partial in (0, 1):
        for length in lengths:
            if known and all(
                ids == (tokens + partial * (length - 1)) // length for ids, tokens in known
            ):
                return length
    return None


def said_block_tokens(head: Head, options: ReadOptions) -> int | None:
    """Return the block length that the first row says, or that was asked for.

    Raises: ConfigError where these differ.
    """
    said = head.rows[0].get("block_size") if head.rows else None
    if type(said) is not int or not 0 < said < 1 << 31:
        return options.block_tokens
    if options.block_tokens not in {None, said}:
        raise ConfigError(
            f"block_tokens is {options.block_tokens}, but the blocks of {head.path} are of "
            f"{said} tokens: leave it out"
        )
    return said
