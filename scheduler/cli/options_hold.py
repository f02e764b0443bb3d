"""Options of holding: --hold, --hold MODE and --no-hold, for every command that has an order."""

from __future__ import annotations

import argparse

__all__ = ["add_hold"]

_HOLD_MODES = ("stop", "skip", "share", "off")


def add_hold(group: argparse._ArgumentGroup) -> None:
    """Add what becomes of a request whose next page is being computed."""
    hold = group.add_mutually_exclusive_group()
    hold.add_argument(
        "--hold",
        type=_hold_mode,
        nargs="?",
        const="stop",
        metavar="MODE",
        help="what becomes of a request whose next page is being computed: stop (alone: this), "
        "skip, share or off (default: the preset's, else the policy's)",
    )
    hold.add_argument(
        "--no-hold",
        dest="hold",
        action="store_const",
        const="off",
        help="the same as --hold off",
    )


def _hold_mode(text: str) -> str:
    """Take a mode; what follows a bare --hold may be a trace, which would be swallowed."""
    if text not in _HOLD_MODES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of {', '.join(_HOLD_MODES)}: put TRACE before --hold, or write "
            "--hold stop"
        )
    return text
