"""The HTML report of `radixcache compare`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scheduler.cli.loaded import Requests
from scheduler.cli.parsing import command_line
from scheduler.cli.version import installed_version
from scheduler.report.html.compare_page import compare_report
from scheduler.report.html.page import render_html
from scheduler.report.summary import Summary

__all__ = ["page_of"]


def page_of(arguments: argparse.Namespace, loaded: Requests, summaries: Sequence[Summary]) -> str:
    """Return the page of runs on the same requests."""
    return render_html(
        compare_report(
            summaries,
            subject=loaded.subject,
            command=command_line(arguments),
            version=installed_version(),
            notes=loaded.notes,
        )
    )
