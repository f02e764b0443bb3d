"""`radixcache replay`: one order with every number, or a plain lookup replay."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import islice
from textwrap import fill

from radixcache.errors import ConfigError
from scheduler.cli.cells import CellRunner, only_cell
from scheduler.cli.loaded import adapt_by, check_outputs
from scheduler.cli.model_memory import notes_on_model
from scheduler.cli.options import OUTPUT_OPTIONS, option_of
from scheduler.cli.options_models import MODEL_OPTIONS
from scheduler.cli.options_trace import INPUT_OPTIONS
from scheduler.cli.output import check_writable, emit, emit_runs, frame_of, introduction, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.workload import notes_on, opened, page_size_of, title_of
from scheduler.lookup import LookupResult, lookup_replay
from scheduler.lookup_cache import whole_pages
from scheduler.registry import check_eviction
from scheduler.report.document import csv_text, json_text
from scheduler.report.metrics import METRICS
from scheduler.report.plain_text import labelled
from scheduler.report.summary import Summary

__all__ = ["run"]

Value = str | int | float | None
_LOOKUP_OPTIONS = {
    *(*INPUT_OPTIONS, *MODEL_OPTIONS, *OUTPUT_OPTIONS),
    *("lookup", "last_token", "seed", "capacity_tokens", "page_size", "eviction"),
    *("cache_output", "visible_share"),
}


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    if arguments.lookup:
        return _lookup(arguments)
    if arguments.last_token:
        raise ConfigError("--last-token goes with --lookup: a scheduled replay always obeys it")
    cell = only_cell(arguments)
    runner = CellRunner(arguments)
    runner.check([cell])
    loaded = runner.requests(cell)
    say(introduction(loaded))
    with progress_bar("requests", len(loaded), quiet=arguments.quiet) as bar:
        summary = runner.run(cell, bar)
    if arguments.json or arguments.csv:
        emit_runs(arguments, loaded, [summary])
    else:
        emit(arguments.output, _every_number(summary))
    return 0


def _every_number(summary: Summary) -> str:
    """Return the metrics one a line, then what was assumed."""
    verdict = summary.load.verdict
    rows: list[tuple[str, str]] = [("policy", summary.label)]
    rows.append(("verdict", verdict.value if verdict else "-"))
    for item in METRICS:
        value = summary.values[item.name]
        if value is None:
            shown = "-"
        elif item.unit == "share":
            shown = f"{100 * value:.{item.decimals}f} %"
        else:
            shown = f"{value:.{item.decimals}f} {item.unit if item.unit != 'count' else ''}"
        rows.append((item.name, shown.rstrip()))
    rows += [(f"ended: {reason}", str(count)) for reason, count in summary.ended.items()]
    rows += [(f"rejected: {reason}", str(count)) for reason, count in summary.rejected.items()]
    rows += [(f"assumed: {name}", str(value)) for name, value in summary.assumptions.items()]
    return labelled(rows)


def _lookup(arguments: argparse.Namespace) -> int:
    for name in arguments.given:
        if name not in _LOOKUP_OPTIONS:
            raise ConfigError(
                f"{option_of(name)} does nothing with --lookup, which has no queue, no engine "
                "and no time: leave it out"
            )
    check_eviction(arguments.eviction, "optimal")
    adapt = adapt_by(arguments)
    outputs = arguments.cache_output not in {None, "none"}
    trace = opened(arguments, partial_block=True)
    check_outputs(arguments, trace.kind)
    page_size = page_size_of(trace, arguments.page_size)
    capacity = arguments.capacity_tokens
    pages = None if capacity is None else whole_pages(capacity, page_size)
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        result = lookup_replay(
            map(adapt, counted(islice(trace, arguments.requests), bar)),
            page_size,
            capacity_pages=pages,
            policy=arguments.eviction,
            last_token=arguments.last_token,
            cache_outputs=outputs,
        )
    notes = [*notes_on(trace), *notes_on_model(arguments)]
    say([title_of(trace), *(f"note: {note}" for note in notes)])
    emit(arguments.output, _lookup_text(arguments, result, title_of(trace), notes))
    return 0


def _lookup_text(
    arguments: argparse.Namespace, result: LookupResult, title: str, notes: list[str]
) -> str:
    rows: dict[str, Value] = {
        **asdict(result),
        "cold_hit_rate": result.cold_hit_rate,
        "second_half_hit_rate": result.second_half_hit_rate,
    }
    if arguments.csv:
        return csv_text(list(rows), [list(rows.values())])
    definition = _lookup_definition(result)
    if arguments.json:
        frame = frame_of(arguments, title, notes)
        return json_text({**rows, "definition": definition, **frame})
    table = labelled([(name, _lookup_value(name, value)) for name, value in rows.items()])
    return f"{table}\n{fill(f'Definition: {definition}', 88)}\n"


def _lookup_definition(result: LookupResult) -> str:
    last_token = "one token of each prompt computed" if result.last_token else "no last-token rule"
    outputs = "recorded outputs are cached" if result.cached_outputs else "outputs are not cached"
    return (
        "requests in arrival order, no queue and no time; every page of a prompt is "
        "looked up, a partial last block too; hit tokens = min(page size * matched pages, prompt "
        f"tokens), {last_token}; {outputs}. The second half counts the last 50 % of the requests "
        "over the cache that the first half warmed."
    )


def _lookup_value(name: str, value: Value) -> str:
    if value is None:
        return "unbounded" if name == "capacity_pages" else "-"
    return f"{value:.5f}" if isinstance(value, float) else str(value)
