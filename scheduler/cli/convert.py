"""`radixcache convert`: write a trace in another format, anonymised or not."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from radixcache import KeyKind
from radixcache.errors import ConfigError
from scheduler.cli.output import check_trace_name, check_writable, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.workload import DEFAULT_PAGE_SIZE, notes_on, opened, title_of
from scheduler.request import Request
from scheduler.trace import Trace, Workload, write_trace
from scheduler.trace.mooncake_writer import mooncake_lines
from scheduler.trace.renumber import ANONYMISED, anonymised, in_blocks
from scheduler.trace.writer import write_lines

__all__ = ["run"]

MOONCAKE_BLOCK_TOKENS = 512
NO_ANSWERS = "answers have no block ids, so no later prompt hits them; answers left out"


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    path = arguments.output
    check_writable(path, replaced=True)
    check_trace_name(path)
    to_blocks = arguments.to == "mooncake" or arguments.anonymise
    if arguments.block_tokens is not None and not to_blocks:
        raise ConfigError(
            "--block-tokens does nothing here: it goes with --to mooncake or with --anonymise"
        )
    source = opened(arguments, partial_block=True)
    lost: Counter[str] = Counter()
    notes = []
    with progress_bar("requests", None, quiet=arguments.quiet) as bar:
        requests: Iterable[Request] = counted(islice(source, arguments.requests), bar)
        if to_blocks:
            block_tokens = _block_tokens(arguments, source)
            requests = in_blocks(_without_answers(requests, lost), block_tokens)
            notes.append(f"a block id stands for {block_tokens} tokens")
        if arguments.anonymise:
            requests = anonymised(requests)
        if arguments.to == "mooncake":
            written = write_lines(mooncake_lines(requests, lost), path)
        else:
            said = [ANONYMISED] if arguments.anonymise else source.assumptions
            written = write_trace(requests, path, notes=said)
    say([f"wrote {written} requests to {path}: {title_of(source)}"])
    notes += (f"{what} ({count})" for what, count in lost.items())
    say(f"note: {note}" for note in [*notes_on(source), *notes])
    return 0


def _block_tokens(arguments: argparse.Namespace, source: Trace | Workload) -> int:
    """Return how many tokens a written id stands for."""
    if arguments.block_tokens is not None:
        return int(arguments.block_tokens)
    if arguments.to == "mooncake":
        return MOONCAKE_BLOCK_TOKENS
    return source.page_size or DEFAULT_PAGE_SIZE


def _without_answers(requests: Iterable[Request], lost: Counter[str]) -> Iterator[Request]:
    """Yield the requests; count those whose recorded answer has ids that cannot be kept."""
    for request in requests:
        if request.recorded_output_ids is not None and request.key.kind is not KeyKind.BLOCKS:
            lost[NO_ANSWERS] += 1
        yield request
