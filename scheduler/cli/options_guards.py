"""The option of a sweep over guards."""

from __future__ import annotations

import argparse
import math

from scheduler.cli.options import listed, not_negative, whole
from scheduler.report.guard_setting import GuardSetting

__all__ = ["add_guards"]


def add_guards(group: argparse._ActionsContainer) -> None:
    """Add the guards that orders are bound by, one run each."""
    group.add_argument(
        "--guards",
        type=listed(_setting),
        metavar="B0:KAPPA,...",
        help="bounds on overtaking, each a run of its own for orders with a guard: B0 tokens + "
        "KAPPA of the backlog at arrival; 0:0 is arrival order, inf:0 no bound; in place of "
        "--guard-base-tokens and --guard-kappa",
    )


def _setting(text: str) -> GuardSetting:
    base, colon, kappa = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is no B0:KAPPA such as 32768:0.5 or inf:0")
    # 0.0 is added so that -0 is 0.
    setting = GuardSetting(math.inf if base == "inf" else whole(0)(base), not_negative(kappa) + 0.0)
    if setting.kappa and not setting.bounded:
        raise argparse.ArgumentTypeError(f"{text!r} bounds nothing with any KAPPA: write inf:0")
    return setting
