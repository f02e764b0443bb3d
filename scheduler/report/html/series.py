"""Series: the colour, dash and marker that tell one line from another, and its label."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from scheduler.report.html.svg import element, text
from scheduler.report.html.text import printable, shortened, text_width

__all__ = [
    "COLOURS",
    "fitted_name",
    "label",
    "label_width",
    "marker",
    "series_class",
    "shown_name",
    "spread",
]

COLOURS = 7
"""Colours of the style sheet; with five dashes, 35 lines differ."""
_DASHES = 5
_LONGEST_NAME = 26


def series_class(place: int) -> str:
    """Return the classes of a series: its colour, and a dash that differs from its neighbours'."""
    return f"s{place % COLOURS} d{(place + place // COLOURS) % _DASHES}"


def shown_name(name: str, most: int = _LONGEST_NAME) -> str:
    """Return the name of a series as it stands in a picture."""
    return shortened(printable(name), most)


def fitted_name(name: str, room: float) -> str:
    """Return the name of a series, cut to a width in pixels."""
    short = shown_name(name)
    while len(short) > 3 and label_width(short) > room:
        short = shown_name(name, len(short) - 1)
    return short


def label_width(content: str) -> float:
    """Estimate the width of a label, which is bold."""
    return 1.1 * text_width(content, 13)


def marker(
    place: int,
    x: float,
    y: float,
    *,
    size: float = 4.0,
    hollow: bool = False,
) -> Markup:
    """Return the mark of a series: one of five shapes, full or hollow."""
    kind = f"{'mh' if hollow else 'm'} s{place % COLOURS}"
    shape = place % 5
    if shape == 0:
        return element("circle", cx=x, cy=y, r=size, class_=kind)
    corners = {
        1: ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        2: ((0.0, -1.25), (1.15, 0.8), (-1.15, 0.8)),
        3: ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
        4: ((0.0, 1.25), (1.15, -0.8), (-1.15, -0.8)),
    }[shape]
    points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners)
    return element("polygon", points=points, class_=kind)


def label(place: int, x: float, y: float, content: str, anchor: str | None = None) -> Markup:
    """Return the label of a series in its colour, set off from what lies below it."""
    return text(x, y, content, f"lb s{place % COLOURS}", anchor)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places at least ``gap`` apart and inside, near the wanted ones and in their order.

    What is too much for the space stands closer.
    """
    if not wanted:
        return []
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    blocks: list[list[float]] = []  # [sum of (wanted - offset), count, place of the first]
    for i in order:
        blocks.append([wanted[i], 1.0, wanted[i]])
        while len(blocks) > 1 and blocks[-2][2] + gap * blocks[-2][1] > blocks[-1][2]:
            total, count, _ = blocks.pop()
            before = blocks[-1]
            before[0] += total - gap * before[1] * count
            before[1] += count
            before[2] = before[0] / before[1]
    places = [block[2] + gap * i for block in blocks for i in range(int(block[1]))]
    for i in range(len(places)):
        places[i] = max(places[i], low + gap * i)
    for i in range(len(places)):
        places[i] = min(places[i], high - gap * (len(places) - 1 - i))
    found = [0.0] * len(wanted)
    for place, i in zip(places, order, strict=True):
        found[i] = place
    return found
