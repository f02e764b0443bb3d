"""`radixcache explain`: why the hit rate of a trace is what it is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from radixcache import EVICTION_POLICIES, KeyKind
from radixcache.errors import ConfigError
from scheduler.analysis.admission_losses import AdmissionLosses, WatchedCache
from scheduler.analysis.explanation import Explanation, explain, suggestions
from scheduler.analysis.explanation_table import format_explanation
from scheduler.cli.cells import CellRunner, cell_of
from scheduler.cli.compare import introduction
from scheduler.cli.html_output import check_html, write_html
from scheduler.cli.loaded import Requests, adapt_by, bounds_of
from scheduler.cli.options_explain import DEFAULT_PLACES
from scheduler.cli.options_models import MODEL_OPTIONS
from scheduler.cli.output import check_writable, emit, say
from scheduler.cli.parsing import command_line, option_of
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.runs import capacity_of, cost_model_of, presets_of, settings_of
from scheduler.cli.version import installed_version
from scheduler.cli.workload import notes_on, opened, page_size_of, title_of, tokenizer_of
from scheduler.optimal import OptimalBound
from scheduler.registry import make_schedule_policy
from scheduler.request import Request
from scheduler.samples import each_sample
from scheduler.sim.run import run_policy
from scheduler.trace.quoting import Quoter

__all__ = ["run"]

_LOOKUP_OPTIONS = {
    *(
        "trace",
        "workload",
        "size",
        "seed",
        "format",
        "requests",
        "strict",
        "max_new_tokens",
        "tokenizer",
    ),
    *("capacity_tokens", "page_size", "eviction", "cache_output", "visible_share", "places"),
    *("json", "output", "quiet", "html", *MODEL_OPTIONS),
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
    if arguments.eviction not in EVICTION_POLICIES:
        known = ", ".join(sorted(EVICTION_POLICIES))
        raise ConfigError(f"eviction is {arguments.eviction!r}: use one of {known}")
    explained = _looked_up(arguments) if arguments.policy is None else _scheduled(arguments)
    emit(arguments.output, _text(arguments, explained.explanation))
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
    if arguments.cache_output in {"all", "visible"} and trace.kind is KeyKind.BLOCKS:
        raise ConfigError(
            f"--cache-output {arguments.cache_output}: the answers of this trace have no block ids "
            "and cannot be looked up: leave it out"
        )
    page_size = page_size_of(trace, arguments.page_size)
    capacity_tokens = capacity_of(arguments)
    if capacity_tokens < page_size:
        raise ConfigError(
            f"capacity is {capacity_tokens} tokens, less than a page of {page_size}: give more"
        )
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:

        def requests() -> Iterator[Request]:
            rows = counted(islice(trace, arguments.requests), bar)
            return map(adapt, rows)

        explanation = explain(
            requests,
            page_size,
            capacity_pages=capacity_tokens // page_size,
            policy=arguments.eviction,
            cached_outputs=_outputs_cached(arguments, trace.kind),
            quote=quoter.quote,
            context=quoter.quote_end,
            most_places=DEFAULT_PLACES if arguments.places is None else arguments.places,
        )
    notes = notes_on(trace)
    say([title_of(trace), *(f"note: {note}" for note in notes)])
    return _Explained(explanation, title_of(trace), notes)


def _scheduled(arguments: argparse.Namespace) -> _Explained:
    """Explain a replay with a queue, request by request as they are admitted."""
    if arguments.places is not None:
        raise ConfigError("--places does nothing with --policy: leave one out")
    policy = make_schedule_policy(arguments.policy).name
    if len(presets_of(arguments.preset)) > 1:
        raise ConfigError(f"explain runs one preset, not {arguments.preset!r}: name one")
    cell = cell_of(arguments, policy)
    runner = CellRunner(arguments)
    runner.check([cell])
    loaded = runner.requests(cell)
    say(introduction(loaded))
    settings = settings_of(arguments, loaded, cost_model_of(arguments), policy)
    cache = WatchedCache(loaded.page_size, kind=loaded.kind, policy=settings.eviction)
    losses = AdmissionLosses(cache)
    with progress_bar("requests", len(loaded), quiet=arguments.quiet) as bar:
        run_policy(loaded.source(), policy, settings, losses, on_progress=bar, cache=cache)
    if losses.never_admitted:
        say([f"note: {losses.never_admitted} requests were never admitted and are not counted"])
    waterfall = losses.waterfall(
        policy,
        _bound_of_admitted(loaded, losses),
        settings.capacity_pages,
        cached_outputs=_outputs_cached(arguments, loaded.kind),
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
    """Tell whether any answer can stay cached: block-hash traces have no ids of theirs."""
    return arguments.cache_output != "none" and kind is not KeyKind.BLOCKS


def _text(arguments: argparse.Namespace, explanation: Explanation) -> str:
    if not arguments.json:
        return format_explanation(explanation)
    document = explanation.to_json() | {
        "command": command_line(arguments),
        "version": installed_version(),
    }
    return json.dumps(document, sort_keys=True, indent=2, allow_nan=False) + "\n"
