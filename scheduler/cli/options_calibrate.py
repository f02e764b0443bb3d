"""Options of `radixcache calibrate`."""

from __future__ import annotations

import argparse
from typing import Any

from scheduler.cli.options import add_quiet, whole

__all__ = ["add_calibrate"]


def add_calibrate(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command that fits a cost model to a server's log."""
    parser = commands.add_parser(
        "calibrate",
        help="fit the step times of a server's log, for --cost-model",
        description="Fit step time = a + b * prefill tokens + c * running requests + d * context "
        "tokens, no coefficient below 0, to the steps of a vLLM log (server started with "
        "--enable-logging-iteration-details) or to the prefill and decode lines of an SGLang "
        "log. The last third of the log is held out to say how well the fit predicts. Write the "
        "model with -o and give it to compare, sweep and replay with --cost-model.",
    )
    parser.add_argument("log", metavar="LOG", help="the server's log, .gz or not")
    parser.add_argument(
        "--decode-log-interval",
        type=whole(1),
        metavar="N",
        help="SGLang: decode steps from one decode line to the next (default: as the log says, "
        "else 40)",
    )
    parser.add_argument(
        "--output", "-o", metavar="FILE", help="write the cost model there, as JSON"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    add_quiet(parser)
