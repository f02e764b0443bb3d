"""SVG in pieces: elements as escaped text, short numbers, a picture with its alternative."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from scheduler.report.html.text import printable

__all__ = ["Point", "element", "group", "line", "number", "picture", "polyline", "rect", "text"]

Point = tuple[float, float]
Value = str | float | int | None


def number(value: float) -> str:
    """Return a coordinate with one decimal, as short as it can be written."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no coordinate: leave the point out")
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def element(name: str, *children: str, **attributes: Value) -> Markup:
    """Return an element; children that are not Markup are escaped, attributes always.

    A trailing ``_`` of an attribute's name is dropped, others become ``-``; None is left out.
    """
    head = name
    for key, value in attributes.items():
        if value is not None:
            written = value if isinstance(value, str) else number(value)
            head += f' {key.rstrip("_").replace("_", "-")}="{escape(printable(written))}"'
    inner = "".join(_inner(child) for child in children)
    return Markup(f"<{head}>{inner}</{name}>" if inner else f"<{head}/>")


def _inner(child: str) -> str:
    return child if isinstance(child, Markup) else escape(printable(child))


def group(children: Iterable[Markup], **attributes: Value) -> Markup:
    """Return a group of elements."""
    return element("g", *children, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    """Return a rectangle; nothing is narrower than 0."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=class_)


def text(x: float, y: float, content: str, class_: str = "t", anchor: str | None = None) -> Markup:
    """Return a line of text that starts, has its middle or ends at x."""
    return element("text", content, x=x, y=y, class_=class_, text_anchor=anchor)


def polyline(runs: Iterable[Sequence[Point]], class_: str) -> Markup:
    """Return lines through points; each run is a line of its own, a single point a dot."""
    path = []
    for run in runs:
        if len(run) == 1:
            path.append(f"M{number(run[0][0])} {number(run[0][1])}h.01")
        elif run:
            path.append("M" + " ".join(f"{number(x)} {number(y)}" for x, y in run))
    return element("path", d="".join(path), class_=class_)


def picture(
    children: Iterable[Markup], *, width: float, height: float, name: str, title: str, about: str
) -> Markup:
    """Return an SVG picture with a title and a description that are read out in its place."""
    return element(
        "svg",
        element("title", title, id=f"{name}-t"),
        element("desc", about, id=f"{name}-d"),
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
    )
