"""Source: the bytes of a trace file as numbered lines or chunks, packed or not.

Reads in bounded memory: one chunk and one line at a time. gzip is known by its magic
bytes, not by the file's name. A gzip stream that is cut or damaged gives everything before
the damage, and says so in the summary. A Parquet file, known likewise, comes as lines of JSON.
A folder is read as its files one after another, in the order of their names, each ended by a
line end: those named ``.json``, ``.jsonl``, ``.csv`` or ``.parquet``, or so and ``.gz``.
"""

from __future__ import annotations

import codecs
import gzip
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from radixcache.errors import TraceError
from scheduler.trace.parquet import PARQUET_MAGIC, ParquetLines
from scheduler.trace.summary import TraceSummary

__all__ = ["CHUNK_BYTES", "MAX_LINE_BYTES", "Line", "Source", "joins_trace"]

Line = tuple[int, bytes, bool]

CHUNK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 26
MAX_HEAD_BYTES = 1 << 23
HEAD_LINES = 3
ENDINGS = (".json", ".jsonl", ".csv", ".parquet")
GZIP_MAGIC = b"\x1f\x8b"
CUT = "compressed file is cut or damaged: the rest is lost"
LONG = f"line longer than {MAX_LINE_BYTES >> 20} MiB"


class Source:
    """One trace file, or a folder of them; each call reads it again from its start.

    Raises: TraceError when the path is no readable file and no folder of some.
    """

    __slots__ = ("_files", "path")

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            self._files = _files_of(Path(path)) if Path(path).is_dir() else [Path(path)]
            # A pipe is never opened: that would wait until somebody writes to it.
            odd = [file for file in self._files if not stat.S_ISREG(file.stat().st_mode)]
            for file in self._files if not odd else ():
                with file.open("rb"):
                    pass
        except (OSError, ValueError) as error:
            raise TraceError(
                f"cannot be read ({_why(error)}); check the path", path=self.path
            ) from None
        if not self._files:
            raise TraceError(
                f"is a folder without files named {', '.join(ENDINGS)}, or so and .gz; give the "
                "path of a trace file, or of a folder of some",
                path=self.path,
            )
        if odd:
            raise TraceError("is no regular file; a trace is read twice", path=str(odd[0]))

    def head(self) -> bytes:
        """Return the first bytes, unpacked and without a byte order mark: two lines at least."""
        parts: list[bytes] = []
        size_bytes = lines = 0
        for chunk in self.chunks(TraceSummary()):
            parts.append(chunk)
            size_bytes += len(chunk)
            lines += chunk.count(b"\n")
            if lines > HEAD_LINES or size_bytes >= MAX_HEAD_BYTES:
                break
        return b"".join(parts)

    def chunks(self, summary: TraceSummary) -> Iterator[bytes]:
        """Yield the unpacked bytes without byte order marks; note a cut gzip stream."""
        for index, file in enumerate(self._files):
            if index:
                yield b"\n"
            first = True
            try:
                with file.open("rb") as raw, _unpacked(raw) as stream:
                    while chunk := _read(stream, summary):
                        if first:
                            chunk = chunk.removeprefix(codecs.BOM_UTF8)
                            first = False
                        yield chunk
            except OSError as error:
                raise TraceError(f"cannot be read ({_why(error)})", path=str(file)) from None

    def lines(self, summary: TraceSummary) -> Iterator[Line]:
        """Yield (line number from 1, line, is it ended) without line ends and blank lines.

        A line above MAX_LINE_BYTES is counted as skipped and never held whole. Only the
        last line of a file may be not ended: then it may be cut.
        Cost: O(file), memory O(longest line).
        """
        for number, line in enumerate(_split(self.chunks(summary)), start=1):
            if line is None:
                summary.skip(LONG, number)
            elif stripped := line.strip():
                yield number, stripped, line.endswith(b"\n")


def _files_of(folder: Path) -> list[Path]:
    """Return the trace files of a folder by name; hidden ones and folders in it are left out."""
    return sorted(
        file for file in folder.iterdir() if _is_trace_name(file.name) and not file.is_dir()
    )


def joins_trace(path: str | Path, folder: str | Path) -> bool:
    """Tell whether a file is one that a folder is read as, or would be once it is written."""
    path, folder = Path(path), Path(folder)
    try:
        if _is_trace_name(path.name) and path.parent.resolve() == folder.resolve():
            return True
        return path.exists() and any(file.samefile(path) for file in _files_of(folder))
    except OSError:
        return False


def _is_trace_name(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(ENDINGS) and not name.startswith(".")


def _split(chunks: Iterator[bytes]) -> Iterator[bytes | None]:
    """Yield lines with their ends; None for a line too long to hold."""
    parts: list[bytes] = []
    held_bytes = 0
    for chunk in chunks:
        if (end := chunk.find(b"\n")) >= 0:
            parts.append(chunk[: end + 1])
            held_bytes += end + 1
            yield b"".join(parts) if held_bytes <= MAX_LINE_BYTES else None
            *whole, rest = chunk[end + 1 :].split(b"\n")
            for line in whole:
                yield line + b"\n"
            parts, held_bytes = [rest], len(rest)
        else:
            held_bytes += len(chunk)
            parts = [*parts, chunk] if held_bytes <= MAX_LINE_BYTES else []
    if held_bytes:
        yield b"".join(parts) if held_bytes <= MAX_LINE_BYTES else None


def _unpacked(raw: BinaryIO) -> BinaryIO | gzip.GzipFile | ParquetLines:
    """Return the file itself, or a reader over it, by its first bytes."""
    start = raw.read(len(PARQUET_MAGIC))
    raw.seek(0)
    if start == PARQUET_MAGIC:
        return ParquetLines(raw, raw.name)
    return gzip.GzipFile(fileobj=raw, mode="rb") if start.startswith(GZIP_MAGIC) else raw


def _read(stream: BinaryIO | gzip.GzipFile | ParquetLines, summary: TraceSummary) -> bytes:
    """Read the next chunk; what a damaged gzip stream still gives, then nothing."""
    try:
        return (
            stream.read1(CHUNK_BYTES)
            if isinstance(stream, gzip.GzipFile)
            else stream.read(CHUNK_BYTES)
        )
    except (EOFError, zlib.error, gzip.BadGzipFile):
        summary.repair(CUT)
        return b""


def _why(error: Exception) -> str:
    """Return the short reason of a failed read."""
    return getattr(error, "strerror", None) or str(error)
