"""Options of `radixcache convert`."""

from __future__ import annotations

import argparse
from typing import Any

from scheduler.cli.options import add_quiet, add_seed, whole
from scheduler.cli.options_trace import add_input

__all__ = ["add_convert"]


def add_convert(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "convert",
        help="write a trace in another format, anonymised or not",
        description="Read a trace of any format and write it as the project's own JSONL or as "
        "Mooncake JSONL. Streams: memory is the reader's, and for block ids some 200 bytes a "
        "different block.",
    )
    parser.add_argument(
        "--output", "-o", required=True, metavar="FILE", help="a .jsonl or .jsonl.gz file"
    )
    parser.add_argument(
        "--to",
        choices=("native", "mooncake"),
        default="native",
        help="the format to write: native keeps everything, mooncake has block ids for prompts, "
        "lengths and milliseconds (default: native)",
    )
    parser.add_argument(
        "--anonymise",
        action="store_true",
        help="write no text, token id or name: block ids that are equal where prefixes are, "
        "lengths, and seconds after the first request",
    )
    parser.add_argument(
        "--block-tokens",
        type=whole(1),
        metavar="N",
        help="tokens a block id stands for (default: 512 for mooncake; for native with "
        "--anonymise the trace's blocks, else 64)",
    )
    add_input(parser)
    add_seed(parser)
    add_quiet(parser)
