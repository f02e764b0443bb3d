"""`radixcache explain`: why the hit rate of a trace is what it is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from radixcache import EVICTION_POLICIES
from radixcache.errors import ConfigError
from scheduler.analysis.explanation import Explanation, explain
from scheduler.analysis.explanation_table import format_explanation
from scheduler.cli.loaded import DEFAULT_CAPACITY_TOKENS, setting_of
from scheduler.cli.output import check_writable, emit, say
from scheduler.cli.parsing import command_line
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.version import installed_version
from scheduler.cli.workload import notes_on, opened, page_size_of, title_of
from scheduler.request import Request
from scheduler.trace import PieceTokenizer
from scheduler.trace.quoting import Quoter

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    if arguments.eviction not in EVICTION_POLICIES:
        known = ", ".join(sorted(EVICTION_POLICIES))
        raise ConfigError(f"eviction is {arguments.eviction!r}: use one of {known}")
    tokenizer = PieceTokenizer()
    quoter = Quoter(tokenizer)
    trace = opened(arguments, tokenizer=tokenizer)
    page_size = page_size_of(trace, arguments.page_size)
    capacity_pages = _capacity_tokens(arguments) // page_size
    if not capacity_pages:
        raise ConfigError(
            f"capacity is {_capacity_tokens(arguments)} tokens, less than a page of {page_size}: "
            "give more"
        )
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:

        def requests() -> Iterator[Request]:
            rows = counted(islice(trace, arguments.requests), bar)
            if arguments.cache_output == "all":
                return (replace(request, cache_output="all") for request in rows)
            return rows

        explanation = explain(
            requests,
            page_size,
            capacity_pages=capacity_pages,
            policy=arguments.eviction,
            cached_outputs=arguments.cache_output != "none",
            quote=quoter.quote,
            context=quoter.quote_end,
            most_places=arguments.places,
        )
    say([title_of(trace), *(f"note: {note}" for note in notes_on(trace))])
    emit(arguments.output, _text(arguments, explanation))
    return 0


def _capacity_tokens(arguments: argparse.Namespace) -> int:
    """Return the memory asked for, or the workload's own."""
    setting = setting_of(arguments)
    default = DEFAULT_CAPACITY_TOKENS if setting is None else setting.capacity_tokens
    tokens: int = arguments.capacity_tokens or default
    return tokens


def _text(arguments: argparse.Namespace, explanation: Explanation) -> str:
    if not arguments.json:
        return format_explanation(explanation)
    document = explanation.to_json() | {
        "command": command_line(arguments),
        "version": installed_version(),
    }
    return json.dumps(document, sort_keys=True, indent=2, allow_nan=False) + "\n"
