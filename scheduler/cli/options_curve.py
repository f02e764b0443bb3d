"""Options of `radixcache curve`."""

from __future__ import annotations

import argparse
from typing import Any

from scheduler.cli.options import (
    add_output,
    add_page_size,
    add_seed,
    listed,
    positive,
    share_above_0,
    whole,
)
from scheduler.cli.options_html import add_html
from scheduler.cli.options_models import add_model
from scheduler.cli.options_trace import add_input

__all__ = ["add_curve"]

MOST_BYTES = 1e12


def add_curve(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "curve",
        help="how much KV memory a trace needs: hit rate by capacity",
        description="The hit rate of an LRU cache at every capacity, exact, from one pass; "
        "beside it optimal eviction.",
    )
    group = parser.add_argument_group("curve")
    group.add_argument(
        "--capacities",
        type=listed(whole(1)),
        metavar="N,N,...",
        help="the rows to show, in tokens of KV memory (default: 1, 2 and 5 times powers of 10 "
        "pages, from the longest request to where more adds nothing)",
    )
    add_page_size(group)
    group.add_argument(
        "--no-optimum",
        dest="optimum",
        action="store_false",
        help="leave optimal eviction out: LRU alone is quicker",
    )
    group.add_argument(
        "--lookup",
        action="store_true",
        help="count as cache simulators do, and replay --lookup: a partial last block counts, "
        "no last-token rule, answers are not cached unless asked for",
    )
    group.add_argument(
        "--cache-output",
        choices=("all", "none"),
        help="whether recorded answers stay cached (default: as the row says, else all; with "
        "--lookup none)",
    )
    group.add_argument(
        "--sample",
        type=share_above_0,
        metavar="RATE",
        help="estimate from this share of the pages, with a standard error, in little memory; "
        "LRU alone",
    )
    group.add_argument(
        "--kv-bytes-per-token",
        type=_bytes,
        metavar="N",
        help="KV bytes of one token, all layers: adds GiB to the table",
    )
    add_seed(group)
    add_model(parser, roofline=False, several=True, shows_bytes=True)
    add_output(parser)
    add_html(parser)
    add_input(parser)


def _bytes(text: str) -> float:
    value = positive(text)
    if value > MOST_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {MOST_BYTES:g} bytes")
    return value
