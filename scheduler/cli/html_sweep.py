"""The HTML report of `radixcache sweep`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from radixcache.errors import ConfigError
from scheduler.report.html.page import render_html
from scheduler.report.html.sweep_page import sweep_report
from scheduler.report.sweep import Sweep

__all__ = ["page_of"]


def page_of(arguments: argparse.Namespace, subject: str, notes: Sequence[str], sweep: Sweep) -> str:
    """Return the page of a sweep. Raises: ConfigError when no run is left to draw."""
    if not any(cell.summary is not None for cell in sweep.cells):
        raise ConfigError(
            f"html {arguments.html}: every run failed and nothing can be drawn: see what failed "
            "without --html"
        )
    return render_html(sweep_report(sweep, subject=subject, notes=notes))
