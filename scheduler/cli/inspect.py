"""`radixcache inspect`: what is in a trace, and what a cache could reach on it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import islice

from scheduler.analysis.prefix_trie import PrefixTrie
from scheduler.analysis.statistics_table import format_statistics
from scheduler.analysis.trace_statistics import trace_statistics
from scheduler.cli.output import check_writable, emit, frame_of, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.workload import notes_on, opened, page_size_of, title_of, tokenizer_of
from scheduler.report.document import json_text
from scheduler.trace import Trace
from scheduler.trace.quoting import Quoter

__all__ = ["run"]

_PREFIX_BYTES = 64 * 1024 * 1024
"""Memory for the shared prefixes, beside that of the optimum."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    tokenizer = tokenizer_of(arguments)
    trace = opened(arguments, tokenizer=tokenizer)
    page_size = page_size_of(trace, arguments.page_size)
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        statistics = trace_statistics(
            counted(islice(trace, arguments.requests), bar),
            page_size,
            cached_outputs=True,
            sharing=PrefixTrie(limit_bytes=_PREFIX_BYTES),
            quote=Quoter(tokenizer).quote,
        )
    if isinstance(trace, Trace):
        statistics = replace(statistics, skipped=dict(trace.summary.skipped))
    title, notes = title_of(trace), notes_on(trace)
    say([title, *(f"note: {note}" for note in notes)])
    if arguments.json:
        text = json_text(statistics.as_dict() | frame_of(arguments, title, notes))
    else:
        text = format_statistics(statistics)
    emit(arguments.output, text)
    return 0
