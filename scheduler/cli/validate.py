"""`radixcache validate`: the cached tokens a server reported, and those a replay predicts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from radixcache import KeyKind
from radixcache.errors import ConfigError, TraceError
from scheduler.analysis.validation import (
    Measured,
    Validation,
    checks_of,
    format_validation,
    predicted_tokens,
    validation_json,
)
from scheduler.cli.output import check_writable, emit, frame_of, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.workload import page_size_of
from scheduler.lookup_cache import whole_pages
from scheduler.registry import check_eviction
from scheduler.report.document import csv_text
from scheduler.request import Request
from scheduler.samples import each_sample
from scheduler.trace import ReadOptions, open_trace
from scheduler.trace.formats import Head
from scheduler.trace.prometheus import cached_between, is_snapshot, read_snapshot
from scheduler.trace.server_log import ServerFacts, log_lines
from scheduler.trace.sglang_log import finished_requests, is_server_log
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary
from scheduler.trace.usage_log import has_usage, usage_rows

__all__ = ["run"]

_SGLANG = (
    "cached_tokens of each Finish line: the prefix of whole pages that was found when the prompt "
    "was scheduled, at most all but one token of it; what a retracted request found again adds up"
)
_USAGE = "usage.prompt_tokens_details.cached_tokens of usage.prompt_tokens, request by request"


class _Cache(NamedTuple):
    """The cache that is predicted with."""

    page_size: int
    capacity_tokens: int | None

    @property
    def capacity_pages(self) -> int | None:
        """Whole pages; None: unbounded. Raises: ConfigError for less than one."""
        if self.capacity_tokens is None:
            return None
        return whole_pages(self.capacity_tokens, self.page_size)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    check_eviction(arguments.eviction)
    source = Source(arguments.log)
    kind = arguments.kind or _kind_of(source)
    for name, value in (("--after", arguments.after), ("--trace", arguments.trace)):
        if value is not None and kind != "prometheus":
            raise ConfigError(f"{name} goes with Prometheus snapshots, not with {kind}")
    if arguments.format is not None and arguments.trace is None:
        raise ConfigError("--format goes with --trace: leave it out")
    validation = {
        "sglang-log": _of_sglang_log,
        "usage": _of_usage,
        "prometheus": _of_snapshots,
    }[kind](arguments, source)
    emit(arguments.output, _shown(arguments, kind, validation))
    return 0 if validation.agrees else 1


def _kind_of(source: Source) -> str:
    """Return what a file is. Raises: TraceError where it is nothing that reports hits."""
    head = Head(source.head(), source.path)
    if is_server_log(head) or any(row.get("event") == "request.finished" for row in head.rows):
        return "sglang-log"
    if is_snapshot(head.data):
        return "prometheus"
    if any(has_usage(row) for row in head.rows):
        return "usage"
    raise TraceError(
        "reports no cached tokens: give an SGLang log with Finish lines, JSONL with the usage of "
        "each answer, or a Prometheus snapshot (vLLM's log has neither ids nor cached tokens)",
        path=source.path,
    )


def _of_sglang_log(arguments: argparse.Namespace, source: Source) -> Validation:
    facts = ServerFacts()
    for _, text in log_lines(source, TraceSummary()):
        facts.see(text)
    summary = TraceSummary()
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        rows = finished_requests(source, ReadOptions(strict=arguments.strict), summary)
        found = list(counted(islice(rows, arguments.requests), bar))
    _say(source, summary, facts.lines())
    if any(row.replica for row in found):
        say(["note: requests of several replicas: one cache is predicted for all"])
    measured = [
        Measured(
            request=row.request,
            prompt_tokens=row.prompt_tokens or row.request.prompt_tokens,
            cached_tokens=row.cached_tokens,
            ended_s=None if row.e2e_s is None else row.arrival_s + row.e2e_s,
        )
        for row in found
        if row.cached_tokens is not None
    ]
    cache = _Cache(
        arguments.page_size or facts.page_size or 1,
        arguments.capacity_tokens or facts.capacity_tokens,
    )
    return _compared(arguments, source, cache, measured, _SGLANG, ())


def _of_usage(arguments: argparse.Namespace, source: Source) -> Validation:
    summary = TraceSummary()
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        rows = usage_rows(source, ReadOptions(strict=arguments.strict), summary)
        found = list(counted(islice(rows, arguments.requests), bar))
    _say(source, summary, ())
    measured = [
        Measured(
            request=row.request, prompt_tokens=row.prompt_tokens, cached_tokens=row.cached_tokens
        )
        for row in found
    ]
    notes = []
    if not all(row.is_exact for row in found):
        notes.append(
            "text is cut by a built-in tokenizer: the predicted share of each prompt is scaled to "
            "the server's count of its tokens"
        )
    cache = _Cache(arguments.page_size or 16, arguments.capacity_tokens)
    return _compared(arguments, source, cache, measured, _USAGE, notes)


def _say(source: Source, summary: TraceSummary, lines: Sequence[str]) -> None:
    say([source.path, *(f"note: {line}" for line in (*summary.lines(), *lines))])


def _compared(
    arguments: argparse.Namespace,
    source: Source,
    cache: _Cache,
    measured: Sequence[Measured],
    definition: str,
    notes: Sequence[str],
) -> Validation:
    """Predict what was measured request by request."""
    if not measured:
        raise TraceError(
            "has no request with token ids or text and its cached tokens: see the notes above",
            path=source.path,
        )
    hits = _predict(arguments, cache, [(row.request, row.ended_s) for row in measured])
    checks = checks_of(measured, hits)
    return Validation(
        definition=definition,
        page_size=cache.page_size,
        capacity_tokens=cache.capacity_tokens,
        cached_outputs=arguments.cache_output == "all",
        tolerance_points=arguments.tolerance,
        requests=len(checks),
        reported_prompt_tokens=sum(check.prompt_tokens for check in checks),
        reported_cached_tokens=sum(check.reported_tokens for check in checks),
        predicted_prompt_tokens=sum(check.prompt_tokens for check in checks),
        predicted_cached_tokens=sum(check.predicted_tokens for check in checks),
        checks=checks,
        notes=tuple(notes),
    )


def _predict(
    arguments: argparse.Namespace, cache: _Cache, requests: list[tuple[Request, float | None]]
) -> list[int]:
    return predicted_tokens(
        requests,
        cache.page_size,
        capacity_pages=cache.capacity_pages,
        policy=arguments.eviction,
        cache_outputs=arguments.cache_output == "all",
    )


def _of_snapshots(arguments: argparse.Namespace, source: Source) -> Validation:
    if arguments.after is None or arguments.trace is None:
        raise ConfigError(
            "a Prometheus snapshot needs the later one and the requests between them: "
            "radixcache validate BEFORE --after AFTER --trace TRACE"
        )
    counters = cached_between(read_snapshot(source), read_snapshot(Source(arguments.after)))
    options = ReadOptions(strict=arguments.strict)
    trace = open_trace(arguments.trace, format=arguments.format, options=options)
    page_size = arguments.page_size
    if page_size is None and trace.page_size is None:
        page_size = counters.page_size
    cache = _Cache(
        page_size_of(trace, page_size), arguments.capacity_tokens or counters.capacity_tokens
    )
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        requests = list(each_sample(counted(islice(trace, arguments.requests), bar)))
    say([arguments.trace, *(f"note: {line}" for line in trace.summary.lines())])
    hits = _predict(arguments, cache, [(request, None) for request in requests])
    prompt_tokens = sum(request.prompt_tokens for request in requests)
    notes = list(trace.assumptions)
    if abs(prompt_tokens - counters.prompt_tokens) > 0.05 * counters.prompt_tokens:
        notes.append(
            f"the trace has {prompt_tokens:,} prompt tokens and the server counted "
            f"{counters.prompt_tokens:,}: they may not be the same requests, or another tokenizer"
        )
    if counters.engines > 1:
        notes.append(
            f"{counters.engines} engines are counted together: one cache is predicted for all"
        )
    if counters.page_size not in {None, cache.page_size}:
        notes.append(
            f"the server has pages of {counters.page_size} tokens, predicted are {cache.page_size}"
        )
    if counters.external_tokens:
        notes.append(
            f"{counters.external_tokens:,} tokens came from a connector's cache beside: not counted"
        )
    return Validation(
        definition=counters.definition,
        page_size=cache.page_size,
        capacity_tokens=cache.capacity_tokens,
        cached_outputs=arguments.cache_output == "all" and trace.kind is not KeyKind.BLOCKS,
        tolerance_points=arguments.tolerance,
        requests=len(requests),
        reported_prompt_tokens=counters.prompt_tokens,
        reported_cached_tokens=counters.cached_tokens,
        predicted_prompt_tokens=prompt_tokens,
        predicted_cached_tokens=sum(hits),
        notes=tuple(notes),
    )


def _shown(arguments: argparse.Namespace, kind: str, validation: Validation) -> str:
    """Return the result in the form that was asked for; CSV has a row a request."""
    if arguments.json:
        frame = frame_of(arguments, arguments.log, validation.notes)
        return validation_json(validation, kind=kind, **frame)
    if not arguments.csv:
        return format_validation(validation)
    if not validation.checks:
        raise ConfigError("--csv has a row a request, and only totals are known: use --json")
    return csv_text(
        ["rid", "prompt_tokens", "reported_tokens", "predicted_tokens"],
        (
            [check.rid, check.prompt_tokens, check.reported_tokens, check.predicted_tokens]
            for check in validation.checks
        ),
    )
