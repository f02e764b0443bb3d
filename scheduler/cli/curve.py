"""`radixcache curve`: how much KV memory a trace needs, the hit rate at every capacity."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from radixcache.errors import ConfigError
from scheduler.analysis.curve_report import CurveReport, curve_report
from scheduler.analysis.curve_table import curve_to_csv, curve_to_json, format_curve
from scheduler.analysis.touches import TouchRule
from scheduler.cli.html_output import check_html, write_html
from scheduler.cli.loaded import check_outputs
from scheduler.cli.model_memory import kv_bytes_per_token_of, notes_on_model
from scheduler.cli.output import check_writable, emit, frame_of, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.workload import notes_on, opened, page_size_of, title_of
from scheduler.lookup_cache import whole_pages
from scheduler.request import Request
from scheduler.trace import Trace, Workload

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    check_html(arguments)
    if arguments.sample is not None and not arguments.optimum:
        raise ConfigError("--no-optimum does nothing with --sample, which has none: leave it out")
    trace = opened(arguments, partial_block=arguments.lookup)
    caching = arguments.cache_output
    check_outputs(arguments, trace.kind)
    page_size = page_size_of(trace, arguments.page_size)
    rule = TouchRule(
        page_size,
        last_token=not arguments.lookup,
        cached_outputs=caching == "all" or (caching is None and not arguments.lookup),
    )
    capacities = _capacity_pages(arguments, page_size)
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        report = curve_report(
            counted(_requests(arguments, trace), bar),
            rule,
            title=title_of(trace),
            capacities=capacities,
            optimum=arguments.optimum,
            sample_rate=arguments.sample,
            seed=arguments.seed,
            kv_bytes_per_token=kv_bytes_per_token_of(arguments),
        )
    notes = [*notes_on(trace), *notes_on_model(arguments)]
    say([report.title, *(f"note: {note}" for note in notes)])
    emit(arguments.output, _text(arguments, report, notes))
    write_html(arguments, "html_curve", report, notes)
    return 0


def _capacity_pages(arguments: argparse.Namespace, page_size: int) -> list[int] | None:
    """Return the capacities asked for in whole pages, in order. Raises: ConfigError."""
    if arguments.capacities is None:
        return None
    asked: dict[int, int] = {}
    for tokens in arguments.capacities:
        pages = whole_pages(tokens, page_size)
        other = asked.setdefault(pages, tokens)
        if other != tokens:
            raise ConfigError(
                f"capacities {other} and {tokens} are both {pages} pages of "
                f"{page_size} tokens: give one"
            )
    return sorted(asked)


def _requests(arguments: argparse.Namespace, trace: Trace | Workload) -> Iterator[Request]:
    for request in islice(trace, arguments.requests):
        if arguments.cache_output == "all":
            yield replace(request, cache_output="all")
        else:
            yield request


def _text(arguments: argparse.Namespace, report: CurveReport, notes: list[str]) -> str:
    if arguments.json:
        return curve_to_json(report, **frame_of(arguments, report.title, notes))
    return curve_to_csv(report) if arguments.csv else format_curve(report)
