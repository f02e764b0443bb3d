"""Options that commands share: their defaults, units and checks, group by group."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TypeVar

from scheduler.cli.options_hold import add_hold

__all__ = [
    "DEFAULT_POLICIES",
    "OUTPUT_OPTIONS",
    "add_arrivals",
    "add_engine",
    "add_eviction",
    "add_loads",
    "add_memory",
    "add_order",
    "add_output",
    "add_page_size",
    "add_pages",
    "add_preset",
    "add_quiet",
    "add_seed",
    "add_time",
    "listed",
    "listed_texts",
    "not_negative",
    "option_of",
    "positive",
    "share_above_0",
    "tolerance",
    "whole",
]

DEFAULT_POLICIES = "fcfs,spf,sglang-lpm,lpm"
OUTPUT_OPTIONS = ("json", "csv", "output", "quiet")
"""What ``add_output`` adds."""
_MOST_WHOLE = 2**63 - 1


def option_of(name: str) -> str:
    """Return how an option is written."""
    return "--" + name.replace("_", "-")


def whole(least: int) -> Callable[[str], int]:
    """Return a check for a whole number of at least ``least``."""

    def parse(text: str) -> int:
        try:
            value = int(text.replace("_", "").replace(",", ""))
        except ValueError:
            value = least - 1
        if value > _MOST_WHOLE:
            raise argparse.ArgumentTypeError(f"{text!r} is no number below 2**63")
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return parse


def positive(text: str) -> float:
    """Take a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number above 0")
    return value


Item = TypeVar("Item")


def listed(parse: Callable[[str], Item]) -> Callable[[str], tuple[Item, ...]]:
    """Return a check for a comma-separated list, each value given once."""

    def parse_all(text: str) -> tuple[Item, ...]:
        values = tuple(parse(part.strip()) for part in text.split(","))
        for value in values:
            if values.count(value) > 1:
                raise argparse.ArgumentTypeError(f"{text!r} has {value} twice: give it once")
        return values

    return parse_all


def listed_texts(text: str) -> tuple[str, ...]:
    """Take a comma-separated list of texts, none of them empty."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty place")
    return parts


def share_above_0(text: str) -> float:
    """Take a number above 0 and at most 1."""
    value = positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and at most 1")
    return value


def tolerance(text: str) -> float:
    """Take a relative tolerance that rates of four digits can meet."""
    value = positive(text)
    if not 0.001 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0.001 to 1")
    return value


def not_negative(text: str) -> float:
    """Take a finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number of at least 0")
    return value


def _tokens_or_inf(text: str) -> float:
    return math.inf if text == "inf" else whole(0)(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def add_page_size(group: argparse._ActionsContainer) -> None:
    """Add the page size."""
    group.add_argument(
        "--page-size",
        type=whole(1),
        metavar="P",
        help="tokens a page (default: the trace's blocks, else 64)",
    )


_NO_REUSE = ", or none for no reuse"


def add_memory(parser: argparse.ArgumentParser, evictions: str = _NO_REUSE) -> None:
    """Add one KV memory and how it is used; see ``add_pages``."""
    group = parser.add_argument_group("memory")
    group.add_argument(
        "--capacity-tokens",
        type=whole(1),
        metavar="N",
        help="KV memory (default: the workload's own, 1048576 for a trace)",
    )
    add_pages(group, evictions)


def add_pages(group: argparse._ActionsContainer, evictions: str = _NO_REUSE) -> None:
    """Add how memory is used, apart from how much there is.

    ``evictions`` says what may be named beside the eviction policies.
    """
    add_page_size(group)
    add_eviction(group, evictions)


def add_eviction(group: argparse._ActionsContainer, more: str = "") -> None:
    """Add the eviction policy; ``more`` says what else may be named."""
    group.add_argument(
        "--eviction",
        default="lru",
        metavar="NAME",
        help="eviction policy: lru, lfu, fifo, filo, mru, slru, priority, random, t-lru, arc, "
        f"ghost-gittins{more} (default: lru)",
    )


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Add one preset."""
    parser.add_argument(
        "--preset",
        default="ours",
        metavar="NAME",
        help="the engine whose habits are simulated: ours, vllm, sglang (default: ours)",
    )


def add_engine(parser: argparse.ArgumentParser, unsaid_outputs: str = "all") -> None:
    """Add what the engine does; ``unsaid_outputs`` is cached where nothing says how much."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--chunk-tokens",
        type=whole(1),
        default=8192,
        metavar="N",
        help="prefill tokens a step (default: 8192)",
    )
    group.add_argument(
        "--max-running",
        type=whole(1),
        default=256,
        metavar="N",
        help="admitted requests at a time (default: 256)",
    )
    group.add_argument(
        "--max-in-flight",
        type=whole(1),
        default=1,
        metavar="N",
        help="batches scheduled and not completed (default: 1)",
    )
    group.add_argument(
        "--publish",
        choices=("complete", "schedule"),
        help="when computed pages can be shared (default: the preset's, complete for ours)",
    )
    group.add_argument(
        "--output-reserve-ratio",
        type=_share,
        metavar="X",
        help="share of max_new_tokens reserved at admission (default: the preset's, 1 for ours)",
    )
    group.add_argument(
        "--cache-output",
        choices=("all", "none", "visible"),
        help="how much of an answer stays cached (default: what the row says, else "
        f"{unsaid_outputs})",
    )
    group.add_argument(
        "--visible-share",
        type=_share,
        metavar="X",
        help="with --cache-output visible: the share of an answer, from its start",
    )
    group.add_argument(
        "--oracle-lengths",
        action="store_true",
        help="let the scheduler know the true output lengths",
    )


def add_order(parser: argparse.ArgumentParser) -> None:
    """Add what every order is bound by."""
    group = parser.add_argument_group("order")
    add_hold(group)
    group.add_argument(
        "--lookahead",
        type=whole(0),
        metavar="N",
        help="waiting requests that do not fit and may be passed over; 0: the first blocks "
        "(default: the preset's, else the policy's)",
    )
    group.add_argument(
        "--preempt-priority-gap",
        type=whole(1),
        metavar="N",
        help="a waiting request takes the pages of running ones whose priority is lower by N "
        "(default: none does; needs priority+ORDER)",
    )
    group.add_argument(
        "--guard-base-tokens",
        type=_tokens_or_inf,
        metavar="N",
        help="tokens of later arrivals that may go before any request, or inf (default: 4 chunks "
        "for orders with a guard, else inf)",
    )
    group.add_argument(
        "--guard-kappa",
        type=not_negative,
        metavar="X",
        help="share of the backlog at arrival on top (default: 0.5 for orders with a guard)",
    )
    group.add_argument(
        "--waiting-aware",
        action=argparse.BooleanOptionalAction,
        help="evict what waiting requests need last (default: the policy's)",
    )


def add_time(parser: argparse.ArgumentParser) -> None:
    """Add how long steps take and how arrivals are made."""
    group = parser.add_argument_group("time")
    group.add_argument(
        "--prefill-rate",
        type=positive,
        metavar="R",
        help="prefill tokens/s of the cost model (default: 20000)",
    )
    group.add_argument("--cost-model", metavar="FILE", help="a JSON file with the cost model")
    group.add_argument(
        "--poisson", action="store_true", help="Poisson arrivals at the rate, not as recorded"
    )
    group.add_argument(
        "--closed-loop",
        action="store_true",
        help="sessions: a turn arrives a think time after the answer before it; the load axis "
        "scales when sessions start",
    )
    group.add_argument(
        "--keep-ticks",
        action="store_true",
        help="keep rounded timestamps instead of spreading them",
    )


def add_loads(group: argparse._ArgumentGroup, *, several: bool) -> None:
    """Add the load axis; for several values its names are plural."""
    loads = group.add_mutually_exclusive_group()
    for name, metavar, text in (
        ("rate", "R", "requests/s on average (default: the workload's own)"),
        ("load", "RHO", "load relative to the DFS optimum"),
        ("time-scale", "X", "factor on recorded times (default: 1 for a trace)"),
    ):
        if several:
            loads.add_argument(
                f"--{name}s",
                type=listed(positive),
                metavar=f"{metavar},{metavar},...",
                help=text,
            )
        else:
            loads.add_argument(f"--{name}", type=positive, metavar=metavar, help=text)


def add_arrivals(parser: argparse.ArgumentParser) -> None:
    """Add one load and one seed."""
    group = parser.add_argument_group("arrivals")
    add_loads(group, several=False)
    add_seed(group)


def add_seed(group: argparse._ActionsContainer) -> None:
    """Add one seed."""
    group.add_argument(
        "--seed",
        type=whole(0),
        default=0,
        metavar="S",
        help="seed of everything drawn (default: 0)",
    )


def add_output(parser: argparse.ArgumentParser, *, csv: bool = True) -> None:
    """Add the form of the result and where it goes."""
    group = parser.add_argument_group("output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of the table")
    if csv:
        form.add_argument("--csv", action="store_true", help="print CSV instead of the table")
    group.add_argument(
        "--output", "-o", metavar="FILE", help="write there instead of to standard output"
    )
    add_quiet(group)


def add_quiet(group: argparse._ActionsContainer) -> None:
    """Add that only the result is printed."""
    group.add_argument("--quiet", "-q", action="store_true", help="no progress bar")
