"""The HTML report of `radixcache explain`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from scheduler.analysis.explanation import Explanation
from scheduler.analysis.explanation_html import explanation_page
from scheduler.cli.loaded import subject_of
from scheduler.cli.parsing import command_line
from scheduler.cli.version import installed_version
from scheduler.report.html.page import render_html

__all__ = ["page_of"]


def page_of(
    arguments: argparse.Namespace, explanation: Explanation, title: str, notes: Sequence[str]
) -> str:
    """Return the page of an explanation."""
    waterfall = explanation.waterfall
    return render_html(
        explanation_page(
            explanation,
            subject=subject_of(title, waterfall.requests, waterfall.prompt_tokens),
            command=command_line(arguments),
            version=installed_version(),
            notes=notes,
        )
    )
