"""Token ids to little-endian bytes and back, without a Python loop per token."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import shake_128
from operator import index
from typing import Any

from radixcache.errors import TokenError

__all__ = [
    "PAIR_LIMIT",
    "TOKEN_LIMIT",
    "WIDE_LIMIT",
    "common_bytes",
    "fill_items",
    "pack_pairs",
    "pack_units",
    "unpack_units",
]

TOKEN_LIMIT = 2**32
WIDE_LIMIT = 2**63
PAIR_LIMIT = 2**31

_INT_CODES = frozenset("bBhHiIlLqQnN")
_FEW_TOKENS = 64
_FEW_SMALL = 8
# Bit 63 of a wide unit: set in item units, never in token ids.
_SET_TOP_BIT = bytes(byte | 0x80 for byte in range(256))
_LITTLE = sys.byteorder == "little"


def pack_units(tokens: Iterable[int], limit: int) -> bytes:
    """Pack ids below ``limit``: 8 bytes each if it is ``WIDE_LIMIT``, 4 bytes otherwise.

    Raises:
        TokenError: an id is a bool, a float, no int, negative or not below ``limit``.

    """
    size = 8 if limit == WIDE_LIMIT else 4
    if isinstance(tokens, list | tuple):
        data = _pack_list(tokens, size, limit)
    elif isinstance(tokens, bytes | bytearray | str):
        raise TokenError(f"tokens are a {type(tokens).__name__}: give token ids, not text or bytes")
    else:
        data = _pack_other(tokens, size, limit)
    # Only these two limits lie below what the width itself can hold.
    if (size == 8 or limit == PAIR_LIMIT) and not data[size - 1 :: size].isascii():
        raise _bad_token(unpack_units(data, size), limit)
    return data


def unpack_units(data: bytes, size: int) -> list[int]:
    """Return the unsigned units of ``size`` bytes."""
    return list(struct.unpack(f"<{len(data) // size}{'I' if size == 4 else 'Q'}", data))


def common_bytes(span: bytes, data: bytes, offset: int, stop: int, page_bytes: int) -> int:
    """Return how many bytes, in whole pages, ``data[offset:stop]`` shares with ``span``.

    The first page is known to agree. Cost: O(log pages) memory comparisons.
    """
    high = min(len(span), stop - offset)
    if data.startswith(span[:high], offset):
        return high
    low = page_bytes
    while high - low > page_bytes:
        middle = (low + high) // 2 // page_bytes * page_bytes
        if data.startswith(span[low:middle], offset + low):
            low = middle
        else:
            high = middle
    return low


def pack_pairs(data: bytes) -> tuple[bytes, bytes]:
    """Make n-1 pairs of n packed 4-byte tokens; also return the last token's bytes."""
    tail = data[-4:]
    if len(data) < 8:
        return b"", tail
    out = bytearray(2 * len(data) - 8)
    words = memoryview(out).cast("I")
    source = memoryview(data).cast("I")
    words[0::2] = source[:-1]
    words[1::2] = source[1:]
    return bytes(out), tail


def fill_items(data: bytes, unit_bytes: int, items: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Replace the placeholders of each item by units of its digest's stream.

    Raises:
        TokenError: an item is no (offset, length, digest), out of range, or overlaps another.

    """
    out = bytearray(data)
    total = len(data) // unit_bytes
    end = 0
    for offset, length, digest in sorted(map(_checked_item, items), key=lambda item: item[:2]):
        if offset < 0 or length < 1 or offset + length > total:
            raise TokenError(
                f"item at {offset} of {length} tokens does not fit a key of {total} tokens"
            )
        if offset < end:
            raise TokenError(f"item at {offset} overlaps the one that ends at {end}")
        end = offset + length
        stream = bytearray(shake_128(digest).digest(length * unit_bytes))
        if unit_bytes == 8:
            stream[7::8] = stream[7::8].translate(_SET_TOP_BIT)
        out[offset * unit_bytes : end * unit_bytes] = stream
    return bytes(out)


def _checked_item(item: object) -> tuple[int, int, bytes]:
    if not isinstance(item, tuple | list) or len(item) != 3:
        raise TokenError(f"item {item!r}: give (offset, length, digest)")
    offset, length, digest = item
    if type(offset) is not int or type(length) is not int:
        raise TokenError(f"item at {offset!r} of {length!r} tokens: give two ints")
    if not isinstance(digest, bytes) or not digest:
        raise TokenError(f"item at {offset} has digest {digest!r}: give non-empty bytes")
    return offset, length, digest


def _pack_list(tokens: Sequence[int], size: int, limit: int) -> bytes:
    # struct refuses floats and takes what counts as an int, as do ints of numpy and torch.
    try:
        data = struct.pack(f"<{len(tokens)}{'I' if size == 4 else 'Q'}", *tokens)
    except (struct.error, TypeError):
        raise _bad_token(tokens, limit) from None
    if _holds_bool(tokens, data, size):
        raise _bad_token(tokens, limit)
    return data


def _holds_bool(tokens: Sequence[int], data: bytes, size: int) -> bool:
    """Tell whether an id was a bool, which struct packs as 0 or 1.

    Looking at the type of each id costs more than packing them all. So the bytes above the
    lowest are merged, in C, and only ids below 256 are looked at.
    """
    count = len(tokens)
    if count < _FEW_TOKENS:
        return bool in set(map(type, tokens))
    merged = 0
    for place in range(1, size):
        merged |= int.from_bytes(data[place::size], "little")
    high = merged.to_bytes(count, "little")
    small = high.count(0)
    if small > count // _FEW_SMALL:
        return bool in set(map(type, tokens))
    at = -1
    for _ in range(small):
        at = high.index(0, at + 1)
        if type(tokens[at]) is bool:
            return True
    return False


def _pack_other(tokens: Any, size: int, limit: int) -> bytes:
    """Pack what has a buffer, or gives one through ``numpy()`` as torch does, else iterate."""
    if not hasattr(tokens, "__array_interface__") and hasattr(tokens, "numpy"):
        tokens = tokens.cpu().numpy() if hasattr(tokens, "cpu") else tokens.numpy()
    try:
        view = memoryview(tokens)
    except (TypeError, ValueError, BufferError):
        try:
            ids = iter(tokens)
        except TypeError:
            raise TokenError(f"tokens are a {type(tokens).__name__}: give several ints") from None
        return _pack_list(list(ids), size, limit)
    code = (view.format or "B").lstrip("@=<>!")
    if view.ndim != 1 or code not in _INT_CODES:
        raise TokenError(
            f"tokens are a {view.ndim}-dimensional buffer of format {view.format!r}: "
            "give one dimension of ints"
        )
    if not view:
        return b""
    if hasattr(tokens, "__array_interface__"):
        # numpy's own loops are ten times faster than a strided memoryview; no import needed.
        if int(tokens.min()) < 0 or int(tokens.max()) >= limit:
            raise _bad_token(tokens.tolist(), limit)
        packed: bytes = tokens.astype(f"<u{size}").tobytes()
        return packed
    if not _LITTLE or view.itemsize < 4 or view.format[0] in ">!":
        order = view.format[0] if view.format[0] in "<>!" else "="
        code = {1: "b", 2: "h", 4: "i", 8: "q"}[view.itemsize] if code.islower() else code
        code = {1: "B", 2: "H", 4: "I", 8: "Q"}[view.itemsize] if code.isupper() else code
        return _pack_list(struct.unpack(f"{order}{len(view)}{code}", view.tobytes()), size, limit)
    data = view.tobytes()
    signed = code.islower()
    if signed and not data[view.itemsize - 1 :: view.itemsize].isascii():
        raise _bad_token(view.tolist(), limit)
    if view.itemsize == size:
        return data
    if size == 4:
        words = array("I", data)
        if words[1::2].tobytes() != bytes(len(data) // 2):
            raise _bad_token(view.tolist(), limit)
        return words[::2].tobytes()
    out = bytearray(2 * len(data))
    memoryview(out).cast("I")[::2] = memoryview(data).cast("I")
    return bytes(out)


def _bad_token(tokens: Iterable[Any], limit: int) -> TokenError:
    """Return the error that names the first token that cannot be packed."""
    for position, token in enumerate(tokens):
        if type(token) in {bool, float} or not hasattr(token, "__index__"):
            return TokenError(
                f"token {position} is {token!r} ({type(token).__name__}): give an int"
            )
        try:
            value = index(token)
        except TypeError:
            return TokenError(
                f"token {position} is {token!r} ({type(token).__name__}): give an int"
            )
        if value < 0:
            return TokenError(f"token {position} is {value}: a token id is not negative")
        if value >= limit:
            more = ", or make the key with wide=True" if limit == TOKEN_LIMIT else ""
            return TokenError(f"token {position} is {value}: give an id below {limit}{more}")
    return TokenError("a token cannot be packed")
