"""The options of `radixcache explain`."""

from __future__ import annotations

import argparse
from typing import Any

from scheduler.cli.options import add_input, add_memory, add_output, whole

__all__ = ["add_explain"]


def add_explain(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help="why the hit rate is what it is: where every prompt token went",
        description="Look every request up in arrival order and say, for each prompt token, "
        "whether it was hit and why not; find the places where prompts differ for a short span "
        "in front of a common text, and what moving it would gain.",
    )
    add_memory(parser)
    group = parser.add_argument_group("what is looked for")
    group.add_argument(
        "--cache-output",
        choices=("all", "none"),
        help="whether recorded answers stay cached (default: as the row says, else all)",
    )
    group.add_argument(
        "--places",
        type=whole(0),
        default=3,
        metavar="N",
        help="diverging places to replay without, at most (default: 3)",
    )
    add_input(parser)
    add_output(parser, csv=False)
    parser.add_argument("--seed", type=whole(0), default=0, metavar="S", help="seed (default: 0)")
