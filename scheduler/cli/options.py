"""The command line: every option, its default and its unit."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeAlias

from radixcache.errors import ConfigError

__all__ = ["DEFAULT_POLICIES", "option_of", "parse_arguments"]

DEFAULT_POLICIES = "fcfs,spf,sglang-lpm,lpm"
_WORKLOADS = ("sharegpt-like", "few-shot", "chat", "agents", "tree", "unique")
_DEFAULT_WORKLOAD = "few-shot"
_DEFAULT_MAX_NEW_TOKENS = 2048
_ONLY_WITH_A_TRACE = ("format", "strict", "max_new_tokens")

_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


class _Parser(argparse.ArgumentParser):
    """One line for a wrong call, as for every other wrong input."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see '{self.prog} --help')")


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


def _not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number of at least 0")
    return value


def _tokens_or_inf(text: str) -> float:
    return math.inf if text == "inf" else _whole(0)(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def _add_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("trace")
    group.add_argument(
        "trace",
        nargs="?",
        metavar="TRACE",
        help="a trace file, .gz or not; without one the built-in workload runs",
    )
    group.add_argument(
        "--workload",
        choices=_WORKLOADS,
        help=f"the built-in workload (default: {_DEFAULT_WORKLOAD})",
    )
    group.add_argument(
        "--size",
        type=_whole(1),
        metavar="N",
        help="requests, sessions or problems of the built-in workload (default: its own)",
    )
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
        metavar="N",
        help=f"asked for by rows that do not say (default: {_DEFAULT_MAX_NEW_TOKENS})",
    )


def _add_page_size(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--page-size",
        type=_whole(1),
        metavar="P",
        help="tokens a page (default: the trace's blocks, else 64)",
    )


def _add_memory(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("memory")
    group.add_argument(
        "--capacity-tokens",
        type=_whole(1),
        metavar="N",
        help="KV memory (default: 131072 for few-shot, else 1048576)",
    )
    _add_page_size(group)
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
        "--output-reserve-ratio",
        type=_share,
        metavar="X",
        help="share of max_new_tokens reserved at admission (default: the preset's, 1 for ours)",
    )
    group.add_argument(
        "--cache-output",
        choices=("all", "none", "visible"),
        help="how much of an answer stays cached (default: what the row says, else all)",
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


def _add_order(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("order")
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
        "--guard-base-tokens",
        type=_tokens_or_inf,
        metavar="N",
        help="tokens of later arrivals that may go before any request, or inf (default: 4 chunks "
        "for orders with a guard, else inf)",
    )
    group.add_argument(
        "--guard-kappa",
        type=_not_negative,
        metavar="X",
        help="share of the backlog at arrival on top (default: 0.5 for orders with a guard)",
    )
    group.add_argument(
        "--waiting-aware",
        action=argparse.BooleanOptionalAction,
        help="evict what waiting requests need last (default: the policy's)",
    )


def _add_arrivals(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("time")
    group.add_argument(
        "--prefill-rate",
        type=_positive,
        metavar="R",
        help="prefill tokens/s of the cost model (default: 20000)",
    )
    group.add_argument("--cost-model", metavar="FILE", help="a JSON file with the cost model")
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


def _add_output(parser: argparse.ArgumentParser, *, csv: bool = True) -> None:
    group = parser.add_argument_group("output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of the table")
    if csv:
        form.add_argument("--csv", action="store_true", help="print CSV instead of the table")
    group.add_argument(
        "--output", "-o", metavar="FILE", help="write there instead of to standard output"
    )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress bar")


def _add_compare(commands: _Commands) -> None:
    parser = commands.add_parser(
        "compare", help="several orders on one trace, with the optimum beside them"
    )
    parser.add_argument(
        "--policies",
        metavar="A,B,...",
        help=f"orders to compare, or all (default: {DEFAULT_POLICIES}; with several presets each "
        "its own)",
    )
    parser.add_argument(
        "--preset",
        default="ours",
        metavar="A,B,...",
        help="engines whose habits are simulated: ours, vllm, sglang (default: ours)",
    )
    parser.add_argument(
        "--jobs", type=_whole(1), metavar="N", help="processes (default: one a core)"
    )
    for add in (_add_memory, _add_engine, _add_order, _add_arrivals, _add_output):
        add(parser)
    _add_input(parser)


def _add_replay(commands: _Commands) -> None:
    parser = commands.add_parser("replay", help="one order, every number; or a plain lookup")
    parser.add_argument("--policy", default="lpm", metavar="NAME", help="the order (default: lpm)")
    parser.add_argument(
        "--preset",
        default="ours",
        metavar="NAME",
        help="the engine whose habits are simulated: ours, vllm, sglang (default: ours)",
    )
    parser.add_argument(
        "--lookup",
        action="store_true",
        help="no queue and no engine: look up in arrival order, as a cache simulator does",
    )
    parser.add_argument(
        "--last-token",
        action="store_true",
        help="with --lookup: one token of each prompt has to be computed",
    )
    for add in (_add_memory, _add_engine, _add_order, _add_arrivals, _add_output):
        add(parser)
    _add_input(parser)


def _add_inspect(commands: _Commands) -> None:
    parser = commands.add_parser("inspect", help="what is in a trace, and what a cache could reach")
    _add_page_size(parser)
    _add_input(parser)
    _add_output(parser, csv=False)
    parser.add_argument("--seed", type=_whole(0), default=0, metavar="S", help="seed (default: 0)")


def _add_generate(commands: _Commands) -> None:
    parser = commands.add_parser("generate", help="write a synthetic trace")
    parser.add_argument("kind", choices=_WORKLOADS, help="the workload")
    parser.add_argument(
        "--output",
        "-o",
        required=True,
        metavar="FILE",
        help="a .jsonl or .jsonl.gz file; for sharegpt-like also .json: a ShareGPT array",
    )
    parser.add_argument(
        "--size",
        type=_whole(1),
        metavar="N",
        help="its requests, sessions or problems (default: the workload's own)",
    )
    parser.add_argument("--seed", type=_whole(0), default=0, metavar="S", help="seed (default: 0)")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress bar")


def _make_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of the whole command, and those of its commands by name."""
    parser = _Parser(
        prog="radixcache",
        description="Replay LLM traffic against prefix caches and scheduling orders.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for add in (_add_compare, _add_replay, _add_inspect, _add_generate):
        add(commands)
    for name, command in commands.choices.items():
        command.set_defaults(command=name)
    return parser, commands.choices


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line, checked for options that do nothing together.

    ``command`` of the result names the module that runs it, ``given`` holds the options that
    differ from their defaults.

    Raises: ConfigError for a wrong call.
    """
    parser, commands = _make_parser()
    arguments = parser.parse_args(argv)
    command = commands[arguments.command]
    arguments.given = {
        name: value
        for name, value in vars(arguments).items()
        if name != "command" and value != command.get_default(name)
    }
    if "workload" in arguments:
        _complete_input(arguments)
    return arguments


def option_of(name: str) -> str:
    """Return how an option is written."""
    return "--" + name.replace("_", "-")


def _complete_input(arguments: argparse.Namespace) -> None:
    """Fill in what is read, and refuse what goes with a trace only, or with none."""
    given, trace = arguments.given, arguments.trace
    for name in _ONLY_WITH_A_TRACE:
        if name in given and trace is None:
            raise ConfigError(f"{option_of(name)} goes with a TRACE: leave it out")
    for name in ("workload", "size"):
        if name in given and trace is not None:
            raise ConfigError(f"{option_of(name)} and TRACE {trace} exclude each other: give one")
    if trace is None:
        arguments.workload = arguments.workload or _DEFAULT_WORKLOAD
    arguments.max_new_tokens = arguments.max_new_tokens or _DEFAULT_MAX_NEW_TOKENS
