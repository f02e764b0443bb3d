"""Checks of arguments that every cache makes alike, before it changes anything."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from radixcache.errors import (
    ConfigError,
    HandleError,
    InvalidInputError,
    KeyKindError,
    PageError,
)
from radixcache.key import KeyKind, PrefixKey
from radixcache.results import PageIds, PrefixHandle

__all__ = [
    "check_count",
    "check_priority",
    "check_shape",
    "foreign_handle",
    "page_table",
    "usable_units",
    "wrong_kind",
]

_TOP_BYTE = 3 if sys.byteorder == "little" else 0


def check_shape(page_size: int, kind: KeyKind) -> None:
    """Refuse a page size or kind that no cache can have."""
    if type(page_size) is not int or not 0 < page_size < 2**31:
        raise ConfigError(f"page_size is {page_size!r}: give 1 to 2**31 - 1")
    if not isinstance(kind, KeyKind):
        raise ConfigError(f"kind is {kind!r}: give a KeyKind")


def check_count(num_pages: int) -> None:
    """Refuse a number of pages that is no count."""
    if type(num_pages) is not int or num_pages < 0:
        raise InvalidInputError(f"num_pages is {num_pages!r}: give an int of at least 0")


def check_priority(priority: int) -> None:
    """Refuse a priority that does not compare with others."""
    if not isinstance(priority, int):
        raise InvalidInputError(f"priority is {priority!r}: give an int")


def wrong_kind(key: PrefixKey, kind: KeyKind, page_size: int) -> KeyKindError:
    """Return the error for a key that this cache cannot hold."""
    if not isinstance(key, PrefixKey):
        return KeyKindError(f"the key is a {type(key).__name__}: make a PrefixKey of it")
    page = f" of page size {page_size}" if kind is KeyKind.BLOCKS else ""
    return KeyKindError(
        f"the cache holds {kind.value} keys{page}, this is {key!r} of page size {key.page_size}: "
        "make the key to fit, or use another cache"
    )


def foreign_handle(handle: PrefixHandle) -> HandleError:
    """Return the error for what this cache did not hand out."""
    return HandleError(
        f"{handle!r} belongs to another cache, or is no handle: release what this one returned"
    )


def usable_units(limit_tokens: int, page_size: int) -> int:
    """Return the whole pages within a limit."""
    if type(limit_tokens) is not int or limit_tokens < 0:
        raise InvalidInputError(
            f"limit_tokens is {limit_tokens!r}: give an int of at least 0, or None"
        )
    return limit_tokens // page_size


def page_table(pages: Sequence[int], needed_pages: int) -> PageIds:
    """Return the ids as an ``array('i')``, the given one if it is one already.

    Cost: O(pages), without a Python loop for an array.

    Raises:
        PageError: too few ids, or one is no non-negative 32-bit int.

    """
    if type(pages) is array and pages.typecode == "i":
        table = pages
    else:
        if isinstance(pages, list | tuple) and not {bool, float}.isdisjoint(map(type, pages)):
            raise PageError("page ids hold a bool or a float: give ints")
        try:
            table = array("i", pages)
        except (TypeError, ValueError, OverflowError) as error:
            raise PageError(f"page ids must be ints below 2**31: {error}") from None
    if len(table) < needed_pages:
        raise PageError(
            f"{len(table)} page ids were given for {needed_pages} full pages: "
            "name every full page of the key from its start"
        )
    if not table.tobytes()[_TOP_BYTE::4].isascii():
        raise PageError(f"page id {min(table)} is negative")
    return table
