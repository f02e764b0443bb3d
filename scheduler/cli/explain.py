"""`radixcache explain`: why the hit rate of a trace is what it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from radixcache import KeyKind
from radixcache.errors import ConfigError
from scheduler.analysis.admission_losses import AdmissionLosses, WatchedCache
from scheduler.analysis.explanation import Explanation, explain, suggestions
from scheduler.analysis.explanation_table import format_explanation
from scheduler.cli.cells import CellRunner, only_cell
from scheduler.cli.html_output import check_html, write_html
from scheduler.cli.loaded import Requests, adapt_by, bounds_of, check_outputs
from scheduler.cli.model_memory import notes_on_model
from scheduler.cli.options import OUTPUT_OPTIONS, option_of
from scheduler.cli.options_explain import DEFAULT_PLACES
from scheduler.cli.options_models import MODEL_OPTIONS
from scheduler.cli.options_trace import INPUT_OPTIONS
from scheduler.cli.output import check_writable, emit, frame_of, introduction, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.runs import capacity_of, cost_model_of, settings_of
from scheduler.cli.workload import notes_on, opened, page_size_of, title_of, tokenizer_of
from scheduler.lookup_cache import whole_pages
from scheduler.optimal import OptimalBound
from scheduler.registry import check_eviction
from scheduler.report.document import json_text
from scheduler.request import Request
from scheduler.samples import each_sample
from scheduler.sim.run import run_policy
from scheduler.trace.quoting import Quoter

__all__ = ["run"]

_LOOKUP_OPTIONS = {
    *(*INPUT_OPTIONS, *MODEL_OPTIONS, *OUTPUT_OPTIONS, "html", "places", "seed"),
    *("capacity_tokens", "page_size", "eviction", "cache_output", "visible_share"),
}


class _Explained(NamedTuple):
    """An explanation, and of what."""

    explanation: Explanation
    title: str
    notes: Sequence[str]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    check_html(arguments)
    check_eviction(arguments.eviction)
    explained = _looked_up(arguments) if arguments.policy is None else _scheduled(arguments)
    emit(arguments.output, _text(arguments, explained))
    write_html(arguments, "html_explain", *explained)
    return 0


def _looked_up(arguments: argparse.Namespace) -> _Explained:
    """Explain the trace in arrival order, without a queue."""
    for name in arguments.given:
        if name not in _LOOKUP_OPTIONS:
            raise ConfigError(f"{option_of(name)} does nothing without --policy: give an order too")
    tokenizer = tokenizer_of(arguments)
    quoter = Quoter(tokenizer)
    adapt = adapt_by(arguments)
    trace = opened(arguments, tokenizer=tokenizer)
    page_size = page_size_of(trace, arguments.page_size)
    capacity_pages = whole_pages(capacity_of(arguments), page_size)
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:

        def requests() -> Iterator[Request]:
            rows = counted(islice(trace, arguments.requests), bar)
            return map(adapt, rows)

        explanation = explain(
            requests,
            page_size,
            capacity_pages=capacity_pages,
            policy=arguments.eviction,
            cached_outputs=_outputs_cached(arguments, trace.kind),
            quote=quoter.quote,
            context=quoter.quote_end,
            most_places=DEFAULT_PLACES if arguments.places is None else arguments.places,
        )
    notes = [*notes_on(trace), *notes_on_model(arguments)]
    say([title_of(trace), *(f"note: {note}" for note in notes)])
    return _Explained(explanation, title_of(trace), notes)


def _scheduled(arguments: argparse.Namespace) -> _Explained:
    """Explain a replay with a queue, request by request as they are admitted."""
    if arguments.places is not None:
        raise ConfigError("--places does nothing with --policy: leave one out")
    cell = only_cell(arguments)
    runner = CellRunner(arguments)
    runner.check([cell])
    loaded = runner.requests(cell)
    say(introduction(loaded))
    cached_outputs = _outputs_cached(arguments, loaded.kind)
    settings = settings_of(arguments, loaded, cost_model_of(arguments), cell.run)
    cache = WatchedCache(loaded.page_size, kind=loaded.kind, policy=settings.eviction)
    losses = AdmissionLosses(cache)
    with progress_bar("requests", len(loaded), quiet=arguments.quiet) as bar:
        run_policy(loaded.source(), cell.run, settings, losses, on_progress=bar, cache=cache)
    if losses.never_admitted:
        say([f"note: {losses.never_admitted} requests were never admitted and are not counted"])
    waterfall = losses.waterfall(
        cell.run,
        _bound_of_admitted(loaded, losses),
        settings.capacity_pages,
        cached_outputs=cached_outputs,
    )
    explanation = Explanation(waterfall, None, False, suggestions(waterfall, ()))
    return _Explained(explanation, loaded.name, loaded.notes)


def _bound_of_admitted(loaded: Requests, losses: AdmissionLosses) -> OptimalBound:
    """Return the optimum of the requests that the waterfall counts."""
    if losses.admitted == len(loaded):
        return loaded.bounds.optimal
    admitted = (
        sample for sample in each_sample(loaded.each()) if sample.rid in losses.admitted_rids
    )
    return bounds_of(admitted, loaded.page_size).optimal


def _outputs_cached(arguments: argparse.Namespace, kind: KeyKind) -> bool:
    """Tell whether any answer can stay cached: block-hash traces have no ids of theirs.

    Raises: ConfigError where they were asked for.
    """
    check_outputs(arguments, kind)
    return arguments.cache_output != "none" and kind is not KeyKind.BLOCKS


def _text(arguments: argparse.Namespace, explained: _Explained) -> str:
    explanation, title, notes = explained
    if not arguments.json:
        return format_explanation(explanation)
    return json_text(explanation.as_dict() | frame_of(arguments, title, notes))
