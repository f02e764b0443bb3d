"""HtmlReport: sections of words, figures and tables, rendered as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scheduler.report.html.figure import DataTable, Definition, Figure
from scheduler.report.html.text import printable

__all__ = ["Fact", "HtmlReport", "Section", "render_html"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what it is."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report under its own heading."""

    name: str
    """Its anchor; letters, digits and hyphens."""
    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[DataTable] = ()
    facts: Sequence[Fact] = ()
    definitions: Sequence[Definition] = ()


@dataclass(frozen=True, slots=True)
class HtmlReport:
    """A whole report; every text in it is data and is escaped."""

    title: str
    subject: str
    """What it is about, as a rule the trace."""
    summary: Sequence[str]
    """What was found, in sentences."""
    command: str
    """The command that makes it again."""
    version: str
    sections: Sequence[Section] = field(default_factory=tuple)
    notes: Sequence[str] = ()
    """How the numbers are to be read."""


def render_html(report: HtmlReport) -> str:
    """Return the report as one HTML file: no script, no request, the same bytes for the same data.

    Cost: O(points and cells).
    """
    environment = Environment(
        loader=PackageLoader("scheduler.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_harmless,
    )
    page = environment.get_template("report.html.j2")
    return page.render(report=report)


def _harmless(value: object) -> object:
    """Let every character of a text show; markup was made of such texts."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
