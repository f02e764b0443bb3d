"""The command line: every option, its default and its unit."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import NoReturn

__all__ = ["DEFAULT_POLICIES", "make_parser"]

DEFAULT_POLICIES = "fcfs,spf,sglang-lpm,lpm"
_KINDS = ("sharegpt-like", "few-shot", "chat", "agents", "tree", "unique")


class _Parser(argparse.ArgumentParser):
    """One line for a wrong call, as for every other wrong input."""

    def error(self, message: str) -> NoReturn:
        print(f"radixcache: {message} (see '{self.prog} --help')", file=sys.stderr)
        raise SystemExit(2)


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text.replace("_", "").replace(",", ""))
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return parse


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number above 0")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def _add_input(parser: argparse.ArgumentParser, *, optional: bool) -> None:
    group = parser.add_argument_group("trace")
    if optional:
        group.add_argument(
            "trace",
            nargs="?",
            metavar="TRACE",
            help="a trace file, .gz or not; without one the built-in workload runs",
        )
        group.add_argument(
            "--workload",
            choices=_KINDS,
            default="few-shot",
            help="the built-in workload (default: few-shot)",
        )
    else:
        group.add_argument("trace", metavar="TRACE", help="a trace file, .gz or not")
    group.add_argument(
        "--format", metavar="NAME", help="the format of TRACE (default: found by its content)"
    )
    group.add_argument("--requests", type=_whole(1), metavar="N", help="only the first N requests")
    group.add_argument(
        "--strict", action="store_true", help="stop at the first bad row instead of counting it"
    )
    group.add_argument(
        "--max-new-tokens",
        type=_whole(1),
        default=2048,
        metavar="N",
        help="asked for by rows that do not say (default: 2048)",
    )


def _add_memory(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("memory")
    group.add_argument(
        "--capacity-tokens",
        type=_whole(1),
        metavar="N",
        help="KV memory (default: 131072 for few-shot, else 1048576)",
    )
    group.add_argument(
        "--page-size",
        type=_whole(1),
        metavar="P",
        help="tokens a page (default: the trace's blocks, else 64)",
    )
    group.add_argument(
        "--output-reserve-ratio",
        type=_share,
        metavar="X",
        help="share of max_new_tokens reserved at admission (default: the preset's, 1 for ours)",
    )
    group.add_argument(
        "--oracle-lengths",
        action="store_true",
        help="let the scheduler know the true output lengths",
    )
    group.add_argument(
        "--eviction",
        default="lru",
        metavar="NAME",
        help="eviction policy, or none for no reuse (default: lru)",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--chunk-tokens",
        type=_whole(1),
        default=8192,
        metavar="N",
        help="prefill tokens a step (default: 8192)",
    )
    group.add_argument(
        "--max-running",
        type=_whole(1),
        default=256,
        metavar="N",
        help="admitted requests at a time (default: 256)",
    )
    group.add_argument(
        "--max-in-flight",
        type=_whole(1),
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
        "--hold",
        choices=("stop", "skip", "share", "off"),
        help="what becomes of a request whose next page is being computed "
        "(default: the preset's, else the policy's)",
    )
    group.add_argument(
        "--preempt-priority-gap",
        type=_whole(1),
        metavar="N",
        help="a waiting request takes the pages of running ones whose priority is lower by N "
        "(default: none does; needs priority+ORDER)",
    )
    group.add_argument(
        "--prefill-rate",
        type=_positive,
        metavar="R",
        help="prefill tokens/s of the cost model (default: 20000)",
    )
    group.add_argument("--cost-model", metavar="FILE", help="a JSON file with the cost model")


def _add_arrivals(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("arrivals")
    load = group.add_mutually_exclusive_group()
    load.add_argument("--rate", type=_positive, metavar="R", help="requests/s on average")
    load.add_argument(
        "--load",
        type=_positive,
        metavar="RHO",
        help="load relative to the DFS optimum (default: 0.9 for a workload)",
    )
    load.add_argument(
        "--time-scale",
        type=_positive,
        metavar="X",
        help="factor on recorded times (default: 1 for a trace)",
    )
    group.add_argument(
        "--poisson", action="store_true", help="Poisson arrivals at --rate instead of recorded ones"
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
    group.add_argument(
        "--seed",
        type=_whole(0),
        default=0,
        metavar="S",
        help="seed of everything drawn (default: 0)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of the table")
    form.add_argument("--csv", action="store_true", help="print CSV instead of the table")
    group.add_argument(
        "--output", "-o", metavar="FILE", help="write there instead of to standard output"
    )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress bar")


def _add_generate(commands: argparse._SubParsersAction[_Parser]) -> None:
    generate = commands.add_parser("generate", help="write a synthetic trace")
    generate.add_argument("kind", choices=_KINDS, help="the workload")
    generate.add_argument(
        "--output", "-o", required=True, metavar="FILE", help="a .jsonl or .jsonl.gz file"
    )
    generate.add_argument(
        "--requests",
        type=_whole(1),
        metavar="N",
        help="about so many requests (default: the workload's own size)",
    )
    generate.add_argument(
        "--seed", type=_whole(0), default=0, metavar="S", help="seed (default: 0)"
    )


def _add_compare_and_replay(
    commands: argparse._SubParsersAction[_Parser],
) -> tuple[_Parser, _Parser]:
    compare = commands.add_parser(
        "compare", help="several orders on one trace, with the optimum beside them"
    )
    compare.add_argument(
        "--policies",
        metavar="A,B,...",
        help=f"orders to compare (default: {DEFAULT_POLICIES}; with several presets each its own)",
    )
    compare.add_argument(
        "--preset",
        default="ours",
        metavar="A,B,...",
        help="engines whose habits are simulated: ours, vllm, sglang (default: ours)",
    )
    compare.add_argument(
        "--jobs", type=_whole(1), metavar="N", help="processes (default: one a core)"
    )
    replay = commands.add_parser("replay", help="one order, every number; or a plain lookup")
    replay.add_argument("--policy", default="lpm", metavar="NAME", help="the order (default: lpm)")
    replay.add_argument(
        "--preset",
        default="ours",
        metavar="NAME",
        help="the engine whose habits are simulated: ours, vllm, sglang (default: ours)",
    )
    replay.add_argument(
        "--lookup",
        action="store_true",
        help="no queue and no engine: look up in arrival order, as a cache simulator does",
    )
    replay.add_argument(
        "--last-token",
        action="store_true",
        help="with --lookup: one token of each prompt has to be computed",
    )
    return compare, replay


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command; ``command`` of its result names the module."""
    parser = _Parser(
        prog="radixcache",
        description="Replay LLM traffic against prefix caches and scheduling orders.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    compare, replay = _add_compare_and_replay(commands)
    inspect = commands.add_parser(
        "inspect", help="what is in a trace, and what a cache could reach"
    )
    inspect.add_argument(
        "--page-size",
        type=_whole(1),
        metavar="P",
        help="tokens a page (default: the trace's blocks, else 64)",
    )
    _add_generate(commands)
    _add_input(compare, optional=True)
    _add_input(replay, optional=False)
    _add_input(inspect, optional=False)
    for command in (compare, replay):
        _add_memory(command)
        _add_engine(command)
        _add_arrivals(command)
    for command in (compare, replay, inspect):
        _add_output(command)
    for name, command in commands.choices.items():
        command.set_defaults(command=name)
    return parser
