"""The option for a report to look at."""

from __future__ import annotations

import argparse

__all__ = ["add_html"]


def add_html(parser: argparse.ArgumentParser) -> None:
    """Add the HTML report, beside whatever else is written."""
    group = parser.add_argument_group("report")
    group.add_argument(
        "--html",
        metavar="FILE",
        help="also write a report with charts: one HTML file that needs nothing else",
    )
