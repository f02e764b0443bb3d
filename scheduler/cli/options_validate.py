"""Options of `radixcache validate`."""

from __future__ import annotations

import argparse
from typing import Any

from scheduler.cli.options import add_eviction, add_output, not_negative, whole
from scheduler.cli.options_trace import FORMATS, add_rows

__all__ = ["add_validate"]

_LOG_KINDS = ("sglang-log", "usage", "prometheus")


def add_validate(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command that compares predicted with reported cached tokens."""
    parser = commands.add_parser(
        "validate",
        help="predicted beside reported cached tokens of a server",
        description="Replay a server's own requests through a cache of its size and compare the "
        "cached tokens with those it reported. LOG is an SGLang log with Finish lines "
        "(--log-requests --log-requests-level 3), a client's JSONL of requests and usage "
        "(prompt_tokens_details.cached_tokens), or a Prometheus snapshot with a second one as "
        "--after and the requests between them as --trace. Counted are, for vLLM, "
        "vllm:prefix_cache_hits of vllm:prefix_cache_queries: tokens in whole cached blocks of all "
        "prompt tokens, once a request; for SGLang cached_tokens of prompt_tokens; "
        "sglang:cache_hit_rate is that share of the last prefill batch alone, so that no total "
        "follows from it. Predicted are whole pages with one token of each prompt computed, "
        "requests in order of receipt. Exit code: 0 within the tolerance, 1 outside, 2 for input "
        "that cannot be used.",
    )
    parser.add_argument("log", metavar="LOG", help="what the server or its client wrote")
    parser.add_argument(
        "--kind",
        choices=_LOG_KINDS,
        help="what LOG is (default: found by its content)",
    )
    parser.add_argument(
        "--tolerance",
        type=not_negative,
        default=2.0,
        metavar="POINTS",
        help="greatest difference of the hit rates, in percentage points (default: 2)",
    )
    _add_prediction(parser.add_argument_group("prediction"))
    group = parser.add_argument_group("requests and snapshots")
    group.add_argument(
        "--after", metavar="FILE", help="the later snapshot, where LOG is a Prometheus snapshot"
    )
    group.add_argument(
        "--trace", metavar="TRACE", help="with snapshots: the requests between the two"
    )
    group.add_argument(
        "--format", metavar="NAME", help=f"the format of TRACE: {', '.join(FORMATS)}"
    )
    add_rows(group)
    add_output(parser)


def _add_prediction(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--capacity-tokens",
        type=whole(1),
        metavar="N",
        help="KV memory of the server (default: as LOG says, else unbounded)",
    )
    group.add_argument(
        "--page-size",
        type=whole(1),
        metavar="P",
        help="tokens a page (default: as LOG says, else 1 for SGLang and 16 for usage)",
    )
    add_eviction(group)
    group.add_argument(
        "--cache-output",
        choices=("all", "none"),
        default="all",
        help="whether answers stay cached, where they are known (default: all)",
    )
