"""`radixcache whatif`: what a page size, isolation, pinning or replicas cost, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice

from radixcache import KeyKind, PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.changes import Change, PageSize, Pin, Replicas
from scheduler.analysis.edits import (
    DropOutputs,
    Edit,
    MoveSpans,
    Salt,
    StripReasoning,
    check_kind,
)
from scheduler.analysis.pins import PinnedPrefix, Pins
from scheduler.analysis.replicas import ROUTES
from scheduler.analysis.spans import find_spans
from scheduler.analysis.what_if import WhatIf, what_if
from scheduler.analysis.what_if_table import format_what_if, what_if_csv, what_if_json
from scheduler.cli.model_memory import notes_on_model
from scheduler.cli.options_whatif import DEFAULT_MARKS
from scheduler.cli.output import check_writable, emit, frame_of, say
from scheduler.cli.progress import Bar, counted, progress_bar
from scheduler.cli.runs import capacity_of
from scheduler.cli.workload import DEFAULT_PAGE_SIZE, notes_on, opened, title_of, tokenizer_of
from scheduler.request import Request
from scheduler.trace import Trace, Workload

__all__ = ["run"]

_SHOWN_PAGES = (16, 64, 256)
_SHOWN_GROUPS = (2, 4)
_SHOWN_REPLICAS = 4
_CHANGES = (
    *("page_size", "salt_by", "pin", "drop_outputs", "strip_reasoning", "move_timestamp"),
    "replicas",
)
_LOOKED_AT = 1000
"""Requests that tell whether a trace names sessions."""


class _Read:
    """The requests of a command, to be read as often as needed."""

    def __init__(self, source: Trace | Workload, most: int | None, bar: Bar) -> None:
        self._source = source
        self._most = most
        self._bar = bar

    def __iter__(self) -> Iterator[Request]:
        return counted(islice(self._source, self._most), self._bar)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    _check_together(arguments)
    source = opened(arguments)
    page_size = arguments.base_page_size or source.page_size or DEFAULT_PAGE_SIZE
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        requests = _Read(source, arguments.requests, bar)
        changes = _changes(arguments, source, requests, page_size)
        answer = what_if(
            requests,
            changes,
            page_size=page_size,
            capacity_tokens=capacity_of(arguments),
            eviction=arguments.eviction,
            together=_asked(arguments),
        )
    notes = [*notes_on(source), *notes_on_model(arguments), *_notes(arguments, changes)]
    say([title_of(source), *(f"note: {note}" for note in notes)])
    emit(arguments.output, _text(arguments, answer, title_of(source), notes))
    return 0


def _check_together(arguments: argparse.Namespace) -> None:
    """Refuse options that do nothing without another."""
    if arguments.route is not None and arguments.replicas is None:
        raise ConfigError("--route goes with --replicas: say how many")
    if arguments.reasoning_marks is not None and not arguments.strip_reasoning:
        raise ConfigError("--reasoning-marks goes with --strip-reasoning: give both")


def _changes(
    arguments: argparse.Namespace, source: Trace | Workload, requests: _Read, page_size: int
) -> list[Change]:
    """Return the changes that were asked for, or those that are shown without any."""
    pages, replicas = arguments.page_size or (), arguments.replicas
    edits = _edits(arguments, source.kind, requests, page_size)
    if not _asked(arguments):
        block = source.page_size
        pages = _SHOWN_PAGES if block is None else tuple(block * by for by in _SHOWN_GROUPS)
        pages = [size for size in pages if size <= capacity_of(arguments)]
        replicas = _SHOWN_REPLICAS
    changes: list[Change] = [PageSize(size) for size in pages if size != page_size]
    if arguments.page_size is not None and not changes:
        raise ConfigError(
            f"--page-size {page_size} does nothing: the first row has pages of {page_size} tokens: "
            "give other sizes, or leave it out"
        )
    changes += edits
    if arguments.pin:
        changes.append(Pin(_pins(arguments.pin)))
    if replicas is not None:
        routes = arguments.route
        if routes is None:
            named = any(request.session_id is not None for request in islice(source, _LOOKED_AT))
            routes = [route for route in ROUTES if named or route != "session"]
        changes += [Replicas(replicas, route) for route in routes]
    return changes


def _edits(
    arguments: argparse.Namespace, kind: KeyKind, requests: _Read, page_size: int
) -> list[Edit]:
    """Return the edits of the requests, in the order in which they combine."""
    edits: list[Edit] = []
    if arguments.move_timestamp:
        check_kind(MoveSpans(()), kind)
        spans = tuple(find_spans(requests, page_size))
        if not spans:
            raise ConfigError(MoveSpans.missing)
        edits.append(MoveSpans(spans))
    if arguments.strip_reasoning:
        marks = arguments.reasoning_marks or DEFAULT_MARKS
        tokenizer = tokenizer_of(arguments)
        edits.append(StripReasoning(*(PrefixKey(tokenizer.encode(mark)).data for mark in marks)))
    if arguments.drop_outputs:
        edits.append(DropOutputs())
    edits += [Salt(by) for by in arguments.salt_by or ()]
    for edit in edits:
        check_kind(edit, kind)
    return edits


def _pins(texts: list[str]) -> Pins:
    """Return what `--pin` names. Raises: ConfigError."""
    prefixes, top = [], 0
    for text in texts:
        if texts.count(text) > 1:
            raise ConfigError(f"--pin {text}: is given twice: give it once")
        name, _, digits = text.rpartition(":")
        if not name or not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 2**31:
            raise ConfigError(
                f"--pin {text}: give RID:TOKENS, the first tokens of a request's prompt, or top:K, "
                "the K most shared prefixes"
            )
        if name != "top":
            prefixes.append(PinnedPrefix(name, int(digits)))
        elif top:
            raise ConfigError(f"--pin {text}: top:K is given twice: give it once")
        else:
            top = int(digits)
    return Pins(tuple(prefixes), top)


def _notes(arguments: argparse.Namespace, changes: list[Change]) -> list[str]:
    """Say what was chosen for the user."""
    notes = []
    if not _asked(arguments):
        notes.append("no change was asked for: page sizes and replicas are shown")
    for change in changes:
        if isinstance(change, MoveSpans):
            notes += [
                f"moved: {span.shortest_tokens} to {span.longest_tokens} tokens after token "
                f"{span.start_tokens:,}, behind {span.shared_tokens:,} shared tokens, in "
                f"{span.requests:,} prompts"
                for span in change.spans
            ]
    return notes


def _asked(arguments: argparse.Namespace) -> bool:
    """Tell whether any change was asked for."""
    return any(getattr(arguments, name) for name in _CHANGES)


def _text(arguments: argparse.Namespace, answer: WhatIf, title: str, notes: list[str]) -> str:
    """Return the result in the form that was asked for."""
    if arguments.json:
        return what_if_json(answer, **frame_of(arguments, title, notes))
    if arguments.csv:
        return what_if_csv(answer)
    return format_what_if(answer)
