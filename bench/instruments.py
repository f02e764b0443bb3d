"""Counts instead of seconds: calls, lines run, bytes compared. They are the same on any machine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from radixcache import PrefixKey

__all__ = ["CountingBytes", "calls_of", "counting_key", "lines_of", "opcodes_of"]

_ROOT = Path(__file__).resolve().parents[1]
_OURS = (str(_ROOT / "radixcache"), str(_ROOT / "scheduler"))


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """Run ``work``; return how often each function was called, C functions too, by name."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            counts[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            counts[function.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    del counts["setprofile"]
    return counts


def lines_of(work: Callable[[], object]) -> int:
    """Run ``work``; return how many lines of the two packages it ran."""
    return _traced(work, "line")


def opcodes_of(work: Callable[[], object]) -> int:
    """Run ``work``; return how many opcodes of the two packages it ran."""
    return _traced(work, "opcode")


def _traced(work: Callable[[], object], counted: str) -> int:
    count = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == counted
        return inside

    def each_call(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        frame.f_trace_opcodes = counted == "opcode"
        frame.f_trace_lines = counted == "line"
        return inside

    before = sys.gettrace()
    sys.settrace(each_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class CountingBytes(bytes):
    """Packed tokens that count what they are compared with."""

    comparisons: int
    compared_bytes: int

    def __new__(cls, data: bytes) -> CountingBytes:
        made = super().__new__(cls, data)
        made.comparisons = made.compared_bytes = 0
        return made

    def startswith(self, prefix: Any, *place: Any) -> bool:
        """Compare and count: one comparison, and at most so many bytes."""
        self.comparisons += 1
        self.compared_bytes += len(prefix)
        return super().startswith(prefix, *place)


def counting_key(key: PrefixKey) -> tuple[PrefixKey, CountingBytes]:
    """Return an equal key whose data counts, and the data."""
    twin = key[:]
    twin.data = data = CountingBytes(key.data)
    return twin, data
