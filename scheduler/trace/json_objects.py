"""Top-level JSON objects of a file, one at a time, whether lines, an array or loose objects.

An array of 1 GB is never held: the splitter keeps the bytes of one object. An object that
never closes (the file is cut or damaged inside it) is counted once, and reading goes on at
the next object that starts with the same key as the file's first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from scheduler.trace.source import MAX_LINE_BYTES, Line, Source
from scheduler.trace.summary import TraceSummary

__all__ = ["closed_early", "is_object_stream", "objects_in", "split_objects"]

# A whole string, a bracket, or the quote of a string whose end is not there yet.
STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]|"', re.DOTALL)
PUNCTUATION = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],]|"', re.DOTALL)
BETWEEN = re.compile(rb"[\s,]*")
SCALAR = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\s,\[\]{}"]+|.', re.DOTALL)
FIRST_KEY = re.compile(rb'\{\s*("(?:[^"\\]|\\.)*")\s*:')


def is_object_stream(head: bytes) -> bool:
    """Tell whether a file is an array, or objects over several lines, and not JSONL."""
    start = head.lstrip()
    if start.startswith(b"["):
        return True
    line = start.split(b"\n", 1)[0].rstrip()
    return start.startswith(b"{") and not line.endswith(b"}")


def objects_in(source: Source, head: bytes, summary: TraceSummary) -> Iterator[Line]:
    """Yield (line or object number from 1, its bytes, is it whole) of a JSON or JSONL file."""
    if is_object_stream(head):
        return split_objects(source.chunks(summary))
    return source.lines(summary)


def closed_early(data: bytes) -> bytes | None:
    """Return the start of an object that is cut, closed after the last whole value in it.

    For recognition: what is left is JSON where the start was. None when nothing can be kept.
    """
    closers = {b"{": b"}", b"[": b"]"}
    open_marks: list[bytes] = []
    kept_bytes = kept_depth = 0
    for found in PUNCTUATION.finditer(data):
        mark = found[0]
        if mark in closers:
            # What is open at the last whole value stays so: nothing is closed after it.
            open_marks.append(closers[mark])
        elif mark in {b"}", b"]"}:
            if not open_marks or open_marks.pop() != mark:
                return None
            kept_bytes, kept_depth = found.end(), len(open_marks)
        elif mark == b",":
            kept_bytes, kept_depth = found.start(), len(open_marks)
        elif mark == b'"':
            break
    if not kept_bytes:
        return None
    return data[:kept_bytes] + b"".join(reversed(open_marks[:kept_depth]))


def split_objects(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Yield (number from 1, bytes, is it whole) for each element of a JSON array.

    The brackets of the array itself may be absent. What is no object is yielded too, so
    that it can be counted. Cost: O(bytes), memory O(largest object).
    """
    return _Splitter(iter(chunks)).elements()


class _Splitter:
    """A window over the bytes: `start` is where the current element begins."""

    __slots__ = ("buffer", "chunks", "ended", "in_array", "marker", "start")

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks = chunks
        self.buffer = b""
        self.start = 0
        self.ended = False
        self.in_array = False
        self.marker: re.Pattern[bytes] | None = None

    def elements(self) -> Iterator[Line]:
        """Yield the elements of the array, or of the arrays if several follow each other."""
        number = 0
        while self._skip_between():
            mark = self.buffer[self.start : self.start + 1]
            if mark == b"]" or (mark == b"[" and not self.in_array):
                self.in_array = mark == b"["
                self.start += 1
                continue
            number += 1
            stop = self._end_of_nested() if mark in b"{[" else self._end_of_scalar()
            yield number, self.buffer[self.start : stop or len(self.buffer)], stop is not None
            if stop is None:
                self._find_next()
            else:
                if self.marker is None and (key := FIRST_KEY.match(self.buffer, self.start)):
                    self.marker = re.compile(rb"\{\s*" + re.escape(key[1]) + rb"\s*:")
                self.start = stop

    def _more(self) -> bool:
        """Read on: at least doubles what is held, so that rescans stay linear."""
        parts = [self.buffer[self.start :]]
        self.start = 0
        wanted = max(1, len(parts[0]))
        while wanted > 0 and not self.ended:
            chunk = next(self.chunks, b"")
            self.ended = not chunk
            parts.append(chunk)
            wanted -= len(chunk)
        grown = len(parts) > 1 and any(parts[1:])
        self.buffer = b"".join(parts)
        return grown

    def _skip_between(self) -> bool:
        """Go to the next element; False at the end of the file."""
        while True:
            found = BETWEEN.match(self.buffer, self.start)
            self.start = found.end() if found else self.start
            if self.start < len(self.buffer):
                return True
            if not self._more():
                return False

    def _end_of_nested(self) -> int | None:
        """Return where the object or list ends; None when it does not, or is too large."""
        depth, offset = 0, 0
        while True:
            rest = offset
            for found in STRUCTURE.finditer(self.buffer, self.start + offset):
                mark = found[0]
                if mark in {b"{", b"["}:
                    depth += 1
                elif mark in {b"}", b"]"}:
                    depth -= 1
                    if not depth:
                        return found.end()
                elif mark == b'"':
                    rest = found.start() - self.start
                    break
                rest = found.end() - self.start
            offset = rest
            if len(self.buffer) - self.start > MAX_LINE_BYTES or not self._more():
                return None

    def _end_of_scalar(self) -> int | None:
        """Return where something that is neither object nor list ends."""
        while True:
            found = SCALAR.match(self.buffer, self.start)
            assert found is not None, "SCALAR matches any byte"
            whole = found.end() < len(self.buffer) and found[0] != b'"'
            if whole or len(self.buffer) - self.start > MAX_LINE_BYTES or not self._more():
                return found.end()

    def _find_next(self) -> None:
        """Skip to the next object that begins like the first one, or to the end."""
        self.start += 1
        while True:
            found = self.marker and self.marker.search(self.buffer, self.start)
            if found:
                self.start = found.start()
                return
            # A marker may be cut by the window's end: keep a little.
            self.start = max(self.start, len(self.buffer) - 200)
            if not self._more():
                self.start = len(self.buffer)
                return
