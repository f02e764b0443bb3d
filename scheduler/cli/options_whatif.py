"""Options of `radixcache whatif`: the changes that can be asked about, and the caches."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from scheduler.cli.options import add_eviction, add_output, add_seed, listed, whole
from scheduler.cli.options_models import add_model
from scheduler.cli.options_trace import add_input

__all__ = ["DEFAULT_MARKS", "add_whatif"]

DEFAULT_MARKS = ("<think>", "</think>")
_SALTS = ("session", "tenant", "none")
_ROUTES = ("cache-aware", "prefix", "session", "round-robin")


def _named(known: tuple[str, ...]) -> Callable[[str], str]:
    """Return a check for one of the known names."""

    def parse(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}")
        return text

    return parse


def _marks(text: str) -> tuple[str, ...]:
    marks = tuple(text.split(","))
    if len(marks) != 2 or not all(marks):
        raise argparse.ArgumentTypeError(f"{text!r} is no START,STOP")
    return marks


def add_whatif(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "whatif",
        help="what a page size, isolation, pinning or replicas cost",
        description="Replay lookups in arrival order as they are, with each change alone, and with "
        "all of them together (of several page sizes, salts or routes with the first). Every cache "
        "has the same capacity in tokens. Without a change, page sizes and 4 replicas are shown.",
    )
    _add_changes(parser.add_argument_group("changes"))
    _add_replicas(parser.add_argument_group("replicas"))
    _add_caches(parser.add_argument_group("caches"))
    add_model(parser, roofline=False)
    add_input(parser)
    add_output(parser)
    add_seed(parser)


def _add_changes(group: argparse._ArgumentGroup) -> None:
    """Add what can be done to requests and pages."""
    group.add_argument(
        "--page-size",
        type=listed(whole(1)),
        metavar="P,P,...",
        help="pages of so many tokens; of a trace of block ids multiples of its block",
    )
    group.add_argument(
        "--salt-by",
        type=listed(_named(_SALTS)),
        metavar="A,B,...",
        help="who is kept apart: session, tenant (client or user of a row), or none: nobody, "
        "whatever salt the rows have",
    )
    group.add_argument(
        "--pin",
        action="append",
        metavar="PREFIX",
        help="a prefix that is never evicted once it was computed: RID:TOKENS, the first TOKENS "
        "tokens of the prompt of request RID ('line N' where rows have no name), or top:K, the K "
        "prefixes that spare most tokens in the whole trace; may be given several times, makes one "
        "row",
    )
    group.add_argument(
        "--drop-outputs", action="store_true", help="recorded outputs are not cached"
    )
    group.add_argument(
        "--strip-reasoning",
        action="store_true",
        help="reasoning is left out of later prompts, and of an output only what comes before it "
        "(or the row's visible_tokens) is cached; marks have to be tokens of their own",
    )
    group.add_argument(
        "--reasoning-marks",
        type=_marks,
        metavar="START,STOP",
        help="with --strip-reasoning: the text around reasoning "
        f"(default: {','.join(DEFAULT_MARKS)})",
    )
    group.add_argument(
        "--move-timestamp",
        action="store_true",
        help="short spans that differ (a date, an id) stand behind the text that follows them",
    )


def _add_replicas(group: argparse._ArgumentGroup) -> None:
    """Add how many caches there are, and who goes where."""
    group.add_argument(
        "--replicas",
        type=whole(2),
        metavar="N",
        help="N caches, each with the whole capacity, beside one of N times the capacity",
    )
    group.add_argument(
        "--route",
        type=listed(_named(_ROUTES)),
        metavar="A,B,...",
        help="with --replicas: cache-aware (the longest cached prefix, if it is 0.3 of the prompt, "
        "else the least loaded), prefix (always the longest), session, round-robin (default: each "
        "of them, session where the trace names any)",
    )


def _add_caches(group: argparse._ArgumentGroup) -> None:
    """Add what every cache is like."""
    group.add_argument(
        "--capacity-tokens",
        type=whole(1),
        metavar="N",
        help="KV memory of a cache (default: the workload's own, 1048576 for a trace)",
    )
    group.add_argument(
        "--base-page-size",
        type=whole(1),
        metavar="P",
        help="tokens a page of the first row (default: the trace's blocks, else 64)",
    )
    add_eviction(group)
