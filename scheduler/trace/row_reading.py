"""What every reader does with its rows: make each, and count or raise what cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from radixcache.errors import InvalidInputError, TraceError
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["UniqueNames", "made_rows"]

T = TypeVar("T")
L = TypeVar("L", bound=tuple[Any, ...])
NO_TOKEN = "the tokenizer or the row gives something that is no token id"
RENAMED = "name is not unique: renamed"


def made_rows(
    lines: Iterable[L],
    make: Callable[[L], T],
    summary: TraceSummary,
    *,
    strict: bool,
    path: str | None,
) -> Iterator[tuple[int, T]]:
    """Yield (line, what ``make`` gives); a row it refuses is skipped and counted.

    A line is a tuple that begins with its number. Counting what was made is left to the
    caller. Raises: TraceError instead, with ``strict``.
    """
    for line in lines:
        try:
            made = make(line)
        except (RowError, InvalidInputError) as error:
            if strict:
                raise TraceError(str(error), path=path, line=line[0]) from None
            summary.skip(error.reason if isinstance(error, RowError) else NO_TOKEN, line[0])
            continue
        yield line[0], made


class UniqueNames:
    """Keeps names apart: the second use of one gets its line number added."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def claim(self, name: str, line: int, summary: TraceSummary) -> str:
        """Return the name, changed if it was taken. Memory: all names."""
        if name in self._taken:
            summary.repair(RENAMED, line)
        while name in self._taken:
            name = f"{name} (line {line})"
        self._taken.add(name)
        return name
