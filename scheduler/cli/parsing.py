"""The command line: commands, what they take, and what does not go together."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn, TypeAlias

from radixcache.errors import ConfigError
from scheduler.cli.model_memory import complete_memory
from scheduler.cli.options import (
    DEFAULT_POLICIES,
    add_arrivals,
    add_engine,
    add_loads,
    add_memory,
    add_order,
    add_output,
    add_page_size,
    add_pages,
    add_preset,
    add_quiet,
    add_seed,
    add_time,
    listed,
    option_of,
    positive,
    tolerance,
    whole,
)
from scheduler.cli.options_calibrate import add_calibrate
from scheduler.cli.options_convert import add_convert
from scheduler.cli.options_curve import add_curve
from scheduler.cli.options_explain import add_explain
from scheduler.cli.options_guards import add_guards
from scheduler.cli.options_html import add_html
from scheduler.cli.options_models import add_model
from scheduler.cli.options_trace import (
    DEFAULT_MAX_NEW_TOKENS,
    DEFAULT_WORKLOAD,
    WORKLOADS,
    add_input,
)
from scheduler.cli.options_validate import add_validate
from scheduler.cli.options_whatif import add_whatif
from scheduler.report.order_words import ORDER_WORDS

__all__ = ["command_line", "parse_arguments"]

_CHANGES_NO_BYTE = {"jobs", "quiet", "output", "json", "csv", "html"}
"""Options of which the result does not depend."""
_ONLY_WITH_A_TRACE = ("format", "strict", "max_new_tokens", "id_tokens", "tokenizer")

_READ = ("trace", "log", "after", "cost_model", "hf_config", "tokenizer")
"""What names a file that is read."""
_WRITTEN = ("output", "html")
_ORDERS = f"{', '.join(ORDER_WORDS)}, or priority+ORDER"

_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


class _Parser(argparse.ArgumentParser):
    """One line for a wrong call, as for every other wrong input."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is left over where the options are known that it may have meant."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest)}")
        return found, rest

    def _meant(self, words: Sequence[str]) -> str:
        """Name the options that are written much like those that do not exist."""
        names = [name for action in self._actions for name in action.option_strings]
        wrong = [word.partition("=")[0] for word in words if word.startswith("--")]
        near = [match for word in wrong for match in get_close_matches(word, names, n=1)]
        return f": did you mean {', '.join(near)}?" if near else ""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see '{self.prog} --help')")


class _Version(argparse.Action):
    """Print the version; the metadata are read only for that."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"radixcache {import_module('scheduler.cli.version').installed_version()}")
        parser.exit()


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policies",
        metavar="A,B,...",
        help=f"orders to run, or all: {_ORDERS} (default: {DEFAULT_POLICIES}; with several presets "
        "each its own)",
    )
    parser.add_argument(
        "--preset",
        default="ours",
        metavar="A,B,...",
        help="engines whose habits are simulated: ours, vllm, sglang (default: ours)",
    )
    parser.add_argument(
        "--jobs", type=whole(1), metavar="N", help="processes (default: one a core)"
    )


def _add_compare(commands: _Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="several orders on one trace, with the optimum beside them",
        description="Replay a trace on a simulated engine, once with each order of the waiting "
        "requests, and print hit rates, waiting times and throughput side by side, beside the "
        "best hit rate there can be. Orders differ only when requests wait: raise --rate or "
        "--load until they do.",
    )
    for add in (_add_runs, add_memory, add_engine, add_order, add_time, add_arrivals, add_output):
        add(parser)
    add_model(parser)
    add_html(parser)
    add_input(parser)


def _add_sweep(commands: _Commands) -> None:
    parser = commands.add_parser(
        "sweep",
        help="orders x guards x loads x capacities x seeds, and the highest rate at a latency",
        description="Run every order at every guard, load, capacity and seed, on all cores. The "
        "file of --output gets one row a run, the tables go to standard output.",
    )
    _add_runs(parser)
    group = parser.add_argument_group("the grid")
    group.add_argument(
        "--capacities",
        "--capacity-tokens",
        type=listed(whole(1)),
        metavar="N,N,...",
        help="KV memory in tokens (default: the workload's own, 1048576 for a trace)",
    )
    add_loads(group, several=True)
    add_guards(group)
    group.add_argument(
        "--seeds",
        type=listed(whole(0)),
        default=(0,),
        metavar="S,S,...",
        help="seeds of everything drawn (default: 0)",
    )
    group = parser.add_argument_group("the highest rate")
    group.add_argument(
        "--target-ttft-p99",
        type=positive,
        metavar="SECONDS",
        help="find the highest rate whose p99 TTFT is at most this, for each order, capacity and "
        "seed: from the first of --rates (default: half of what the DFS optimum could carry) "
        "doubled or halved until one rate passes and one fails, then bisected; each probe is a "
        "full run, and one that is OVERLOADED fails; the grid runs only where loads are given",
    )
    group.add_argument(
        "--tolerance",
        type=tolerance,
        default=0.02,
        metavar="X",
        help="relative distance to a rate that fails (default: 0.02)",
    )
    for add in (add_pages, add_engine, add_order, add_time, add_output):
        add(parser)
    add_model(parser, several=True)
    add_html(parser)
    add_input(parser)
    parser.set_defaults(capacity_tokens=None, rate=None, load=None, time_scale=None, seed=0)


def _add_replay(commands: _Commands) -> None:
    parser = commands.add_parser(
        "replay",
        help="one order, every number; or a plain lookup",
        description="Replay a trace on a simulated engine with one order and print every number; "
        "or with --lookup look its prompts up in arrival order, without queue, engine or time.",
    )
    parser.add_argument(
        "--policy", default="lpm", metavar="NAME", help=f"the order: {_ORDERS} (default: lpm)"
    )
    add_preset(parser)
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
    add_memory(parser, evictions=", none for no reuse, or with --lookup optimal")
    add_engine(parser, unsaid_outputs="all; with --lookup none")
    for add in (add_order, add_time, add_arrivals, add_output):
        add(parser)
    add_model(parser)
    add_input(parser)


def _add_inspect(commands: _Commands) -> None:
    parser = commands.add_parser(
        "inspect",
        help="what is in a trace, and what a cache could reach",
        description="Say how long prompts and answers are, how requests arrive, which prefixes "
        "they share, and the best hit rates that there can be.",
    )
    add_page_size(parser)
    add_input(parser)
    add_output(parser, csv=False)
    add_seed(parser)


def _add_generate(commands: _Commands) -> None:
    parser = commands.add_parser(
        "generate",
        help="write a synthetic trace",
        description="Write one of the built-in workloads as a trace in the project's own format; "
        "the same seed gives the same bytes.",
    )
    parser.add_argument("kind", choices=WORKLOADS, help="the workload")
    parser.add_argument(
        "--output",
        "-o",
        required=True,
        metavar="FILE",
        help="a .jsonl or .jsonl.gz file; for sharegpt-like also .json: a ShareGPT array",
    )
    parser.add_argument(
        "--size",
        type=whole(1),
        metavar="N",
        help="its requests, sessions or problems (default: the workload's own)",
    )
    add_seed(parser)
    parser.add_argument(
        "--timestamp",
        choices=("before", "after"),
        help="chat: write when it started before or after the system prompt (default: nowhere)",
    )
    add_quiet(parser)


def _make_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Return the parser of the whole command, and those of its commands by name."""
    parser = _Parser(
        prog="radixcache",
        description="Replay LLM traffic against prefix caches and scheduling orders.",
        epilog="Without a trace commands run on a built-in workload: begin with 'radixcache "
        "compare'. 'radixcache COMMAND --help' has the options of a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for add in (
        _add_compare,
        _add_sweep,
        _add_replay,
        add_curve,
        _add_inspect,
        add_explain,
        add_whatif,
        add_convert,
        _add_generate,
        add_calibrate,
        add_validate,
    ):
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
    if "kv_memory" in arguments:
        complete_memory(arguments)
    _keep_what_is_read(arguments)
    return arguments


def _keep_what_is_read(arguments: argparse.Namespace) -> None:
    """Refuse to write a result over the file, or into the trace, that it is made of."""
    written = [name for name in _WRITTEN if getattr(arguments, name, None) is not None]
    for read in _READ:
        source: str | None = getattr(arguments, read, None)
        if source is None:
            continue
        if read == "tokenizer" and os.path.isdir(source):
            source = os.path.join(source, "tokenizer.json")
        for name in written:
            path: str = getattr(arguments, name)
            if _same_file(path, source):
                what = "the trace itself" if read == "trace" else "read by this command"
                raise ConfigError(f"{name} {path}: is {what}: give another file")
            # Imported for such a folder only: the readers take a while.
            if os.path.isdir(source) and import_module("scheduler.trace.source").joins_trace(
                path, source
            ):
                raise ConfigError(
                    f"{name} {path}: would be a file of the trace {source}: give a file outside "
                    "of that folder"
                )


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # what is not there is nothing that could be lost
        return False


def command_line(arguments: argparse.Namespace) -> str:
    """Return the command that gives the same bytes, without what changes none of them."""
    words = ["radixcache", arguments.command]
    positional = "log" if "log" in arguments else "trace"
    if positional in arguments.given:
        words.append(str(arguments.given[positional]))
    for name, value in arguments.given.items():
        if name in _CHANGES_NO_BYTE or name == positional:
            continue
        for given in value if isinstance(value, list) else [value]:
            words.append(option_of(f"no_{name}" if given is False else name))
            if not isinstance(given, bool):
                values = given if isinstance(given, tuple) else (given,)
                words.append(",".join(map(_written, values)))
    # A path may hold bytes that are no text.
    return shlex.join(words).encode("utf-8", "backslashreplace").decode("utf-8")


def _written(value: object) -> str:
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _only_looks_up(arguments: argparse.Namespace) -> bool:
    """Tell whether a command reads the requests alone: nothing is drawn, nothing answers them."""
    if arguments.command == "explain":
        return arguments.policy is None
    if arguments.command == "replay":
        return bool(arguments.lookup)
    return arguments.command in {"curve", "inspect", "whatif", "convert"}


def _complete_input(arguments: argparse.Namespace) -> None:
    """Fill in what is read, and refuse what goes with a trace only, or with none."""
    given, trace = arguments.given, arguments.trace
    for name in _ONLY_WITH_A_TRACE:
        if name in given and trace is None:
            raise ConfigError(f"{option_of(name)} goes with a TRACE: leave it out")
    for name in ("workload", "size"):
        if name in given and trace is not None:
            raise ConfigError(f"{option_of(name)} and TRACE {trace} exclude each other: give one")
    if trace is not None and _only_looks_up(arguments):
        if "seed" in given and getattr(arguments, "sample", None) is None:
            raise ConfigError(
                "--seed does nothing with a TRACE, which is read as it is: leave it out"
            )
        visible_share = getattr(arguments, "visible_share", None)
        asked = arguments.command == "convert" or visible_share is not None
        if "max_new_tokens" in given and not asked:
            raise ConfigError("--max-new-tokens does nothing without a queue: leave it out")
    if trace is None:
        arguments.workload = arguments.workload or DEFAULT_WORKLOAD
    arguments.max_new_tokens = arguments.max_new_tokens or DEFAULT_MAX_NEW_TOKENS
