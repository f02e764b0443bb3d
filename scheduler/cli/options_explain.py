"""Options of `radixcache explain`."""

from __future__ import annotations

import argparse
from typing import Any

from scheduler.cli.options import (
    add_arrivals,
    add_engine,
    add_memory,
    add_order,
    add_output,
    add_preset,
    add_time,
    whole,
)
from scheduler.cli.options_html import add_html
from scheduler.cli.options_models import add_model
from scheduler.cli.options_trace import add_input

__all__ = ["DEFAULT_PLACES", "add_explain"]

DEFAULT_PLACES = 3


def add_explain(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help="why the hit rate is what it is: where every prompt token went",
        description="Look every request up in arrival order and say, for each prompt token, "
        "whether it was hit and why not; find the places where prompts differ for a short span "
        "in front of a common text, and what moving it would gain. With --policy, say the same "
        "of a scheduled replay, where prefixes can be in flight.",
    )
    parser.add_argument(
        "--places",
        type=whole(0),
        metavar="N",
        help="diverging places to replay without, at most (default: "
        f"{DEFAULT_PLACES}; not with --policy)",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help="replay with this order; the options of engine, order, time and arrivals, apart "
        "from what is cached of outputs and the seed of a workload, go with it only",
    )
    add_preset(parser)
    add_memory(parser, evictions="")
    for add in (add_model, add_engine, add_order, add_time, add_arrivals):
        add(parser)
    add_output(parser, csv=False)
    add_html(parser)
    add_input(parser)
