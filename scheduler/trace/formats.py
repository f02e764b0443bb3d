"""What a trace format is, the options a reader takes, and Trace: one opened file.

A format recognises itself by the head of a file and plans the reading of it; the plan says
which kind of keys come out and which assumptions were made, and streams the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from radixcache import KeyKind
from radixcache.errors import ConfigError, TraceError
from scheduler.request import Request
from scheduler.trace.chat_template import ChatTemplate
from scheduler.trace.fields import row_of
from scheduler.trace.json_objects import closed_early, is_object_stream, split_objects
from scheduler.trace.source import Source
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.tokenizer import PieceTokenizer, Tokenizer

__all__ = ["UNITS_PER_S", "Head", "ReadOptions", "ReadPlan", "TimeUnit", "Trace", "TraceFormat"]

TimeUnit = Literal["s", "ms", "us", "ns"]
UNITS_PER_S: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
HEAD_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a file does not say itself; None takes the format's own convention.

    Every value that was used is among ``Trace.assumptions``. Raises: ConfigError.
    """

    block_tokens: int | None = None
    """Tokens of one block id (Mooncake 512, Bailian 16): the page size of block keys."""
    time_unit: TimeUnit | None = None
    """Unit of the timestamps."""
    partial_block: bool = False
    """Keep the id of a last block that is not full: for lookups, not for scheduling."""
    strict: bool = False
    """Raise TraceError at the first bad row instead of skipping and counting it."""
    max_new_tokens: int = 2048
    """What a request asks for at most when its row does not say (more if it got more)."""
    rate_per_s: float = 1.0
    """Arrivals per second where the rows have no time."""
    think_s: float = 30.0
    """From one turn of a conversation to its next, where the rows have no time."""
    tokenizer: Tokenizer = field(default_factory=PieceTokenizer)
    """Turns text into token ids."""
    template: ChatTemplate = field(default_factory=ChatTemplate)
    """Turns messages into text."""

    def __post_init__(self) -> None:
        """Reject what can never be right."""
        if self.block_tokens is not None and self.block_tokens < 1:
            raise ConfigError(f"block_tokens must be at least 1, not {self.block_tokens}")
        if self.time_unit is not None and self.time_unit not in UNITS_PER_S:
            known = ", ".join(UNITS_PER_S)
            raise ConfigError(f"time_unit must be one of {known}, not {self.time_unit!r}")
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}")
        if not 0 < self.rate_per_s < float("inf"):
            raise ConfigError(f"rate_per_s must be positive and finite, not {self.rate_per_s}")
        if not 0 <= self.think_s < float("inf"):
            raise ConfigError(f"think_s must be finite and not negative, not {self.think_s}")


class Head:
    """The first bytes of a file, and what they look like."""

    __slots__ = ("__dict__", "data", "path")

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The JSON objects of the head, among the first lines or elements.

        Of a first object that goes beyond the head, what is there of it.
        """
        if is_object_stream(self.data):
            lines = split_objects([self.data])
        else:
            pieces = self.data.split(b"\n", HEAD_ROWS)[:HEAD_ROWS]
            lines = ((number, piece.strip(), True) for number, piece in enumerate(pieces))
        found: list[dict[str, Any]] = []
        for number, text, whole in islice(lines, HEAD_ROWS):
            cut = not whole and not found
            data = closed_early(text) or text if cut else text
            try:
                found.append(row_of((number, data, whole), TraceSummary()))
            except RowError:
                continue
        return found

    @cached_property
    def columns(self) -> frozenset[str]:
        """The column names of a CSV, in small letters; of any other file, nonsense."""
        names = self.first_line.split(",")
        return frozenset(name.strip().strip('"').lower() for name in names)

    @cached_property
    def first_line(self) -> str:
        """The first line that is not blank, as text."""
        line = self.data.lstrip().split(b"\n", 1)[0]
        return line[:500].decode(errors="replace").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """How one file will be read."""

    kind: KeyKind
    page_size: int | None = None
    """Tokens a page for block keys; None where any page size will do."""
    assumptions: tuple[str, ...] = ()
    rows: Callable[[Source, TraceSummary], Iterator[Request]]
    """Stream the requests in arrival order, ties in file order, and count every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One format: how it is recognised and how it is read."""

    name: str
    title: str
    recognises: Callable[[dict[str, Any]], bool]
    """Tell by one of a file's first rows."""
    recognises_head: Callable[[Head], bool] = lambda head: False
    """Tell by the head of a file that has no rows of JSON."""
    plan: Callable[[Head, ReadOptions], ReadPlan]


class Trace:
    """One trace file: iterate it to get its requests in arrival order, as often as needed.

    Each pass reads the file again and fills ``summary`` anew. Memory is that of one request
    (and of what the format needs beside: see its reader), but a file whose rows go back in
    time, or have delays in place of times, is held whole, to be sorted. Raises: TraceError
    while iterating, when no row gives a request, or at the first bad row with ``strict``.
    """

    __slots__ = ("_plan", "_source", "format", "summary", "title")

    def __init__(self, source: Source, form: TraceFormat, plan: ReadPlan) -> None:
        self._source = source
        self._plan = plan
        self.format = form.name
        self.title = form.title
        self.summary = TraceSummary()
        """Counts of the latest pass; complete when the pass is."""

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return self._source.path

    @property
    def kind(self) -> KeyKind:
        """The kind of every key of this trace."""
        return self._plan.kind

    @property
    def page_size(self) -> int | None:
        """Tokens a page of block keys; None for token keys: any page size will do."""
        return self._plan.page_size

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed because the file does not say it, a sentence each."""
        return self._plan.assumptions

    def __iter__(self) -> Iterator[Request]:
        summary = self.summary = TraceSummary()
        yield from self._plan.rows(self._source, summary)
        summary.check()
        if not summary.requests:
            found = "; ".join(summary.lines())
            raise TraceError(
                f"no request in it, read as {self.format}: {found}. "
                "Name another format if it is one",
                path=self.path,
            )
