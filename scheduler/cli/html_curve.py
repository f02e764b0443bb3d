"""The HTML report of `radixcache curve`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scheduler.analysis.curve_html import curve_page
from scheduler.analysis.curve_report import CurveReport
from scheduler.cli.loaded import subject_of
from scheduler.cli.parsing import command_line
from scheduler.cli.version import installed_version
from scheduler.report.html.page import render_html

__all__ = ["page_of"]


def page_of(arguments: argparse.Namespace, report: CurveReport, notes: Sequence[str]) -> str:
    """Return the page of a curve."""
    curve = report.curve
    return render_html(
        curve_page(
            report,
            subject=subject_of(report.title, curve.requests, curve.prompt_tokens),
            command=command_line(arguments),
            version=installed_version(),
            notes=notes,
        )
    )
