"""Reads an HTML report for tests: its pictures as XML, its tables as text, its anchors."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from html.parser import HTMLParser

from scheduler.report.html.figure import Figure

__all__ = ["Page", "pictures", "read_page", "words"]

_VOID = {"meta", "link", "br", "img", "hr", "input"}


@dataclass
class Page:
    """What a reader finds in a page."""

    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Everything that would be fetched."""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """Cells by caption, the header first."""
    text: str = ""
    unclosed: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        page, given = self.page, dict(attrs)
        page.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        page.ids += [value for name, value in attrs if name == "id" and value]
        if tag == "a":
            page.links.append(given.get("href") or "")
        for name in ("src", "srcset", "data", "poster", "action", "xlink:href"):
            if given.get(name):
                page.requests.append(str(given[name]))
        if tag in {"link", "use", "image"} and given.get("href"):
            page.requests.append(str(given["href"]))
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in {"td", "th"}:
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.page.unclosed.append(tag)
        if tag == "table":
            self.page.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.page.text += data
        if "caption" in self.open:
            self._caption += data
        elif self._rows and self._rows[-1] and {"td", "th"} & set(self.open):
            self._rows[-1][-1] += data


def read_page(html: str) -> Page:
    """Return what is in a page; ``unclosed`` names tags that do not nest."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.page.unclosed += reader.open
    reader.page.requests += re.findall(r"url\((.*?)\)|@import (\S+)", html)
    return reader.page


def pictures(figure: Figure) -> list[ET.Element]:
    """Return the figure's two pictures, parsed; every coordinate is a finite number."""
    found = [ET.fromstring(figure.wide), ET.fromstring(figure.narrow)]
    for svg in found:
        for node in svg.iter():
            for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"):
                float(node.attrib.get(name, 0))
            assert "nan" not in node.attrib.get("d", "")
    return found


def words(svg: ET.Element) -> list[str]:
    """Return the texts of a picture."""
    return [node.text or "" for node in svg.iter("text")]
