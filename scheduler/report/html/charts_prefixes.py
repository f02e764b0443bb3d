"""The hottest prefixes as a radix tree: where they branch, how long they are, who has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scheduler.report.html.axes import Frame, x_axis
from scheduler.report.html.figure import NARROW_BELOW, Canvas, Column, DataTable, Definition, Figure
from scheduler.report.html.scale import LinearScale
from scheduler.report.html.svg import line, rect, text
from scheduler.report.html.text import amount, bare_percent, percent, printable

__all__ = ["HotPrefix", "prefixes_figure"]

_ROW = 44.0
_THINNEST, _THICKEST = 3.0, 15.0

_DEFINITIONS = (
    Definition(
        "from, to",
        "tokens from the start of the prompt",
        "The stretch that this prefix adds to the one it goes on from.",
    ),
    Definition("requests", "count", "Prompts that start with all of the prefix."),
    Definition(
        "repeated",
        "repeated tokens / sum of n",
        "Prompt tokens in the stretch that an earlier request had already sent, as a share of all "
        "prompt tokens: what a cache can save here. No token counts for two prefixes.",
    ),
)


@dataclass(frozen=True, slots=True)
class HotPrefix:
    """A stretch of the tree that many prompts run through."""

    opening: str
    """How it begins, quoted."""
    start_tokens: int
    stop_tokens: int
    requests: int
    repeated_share: float | None
    parent: int | None = None
    """The place in the list of the prefix it goes on from; None: none of the list."""


def prefixes_figure(prefixes: Sequence[HotPrefix]) -> Figure:
    """Return the prefixes as branches along an axis of tokens, children below their parents."""
    order = _in_depth(prefixes)
    said = [
        f"{_head(prefixes[i].opening, 24)}: {prefixes[i].requests:,} requests, tokens "
        f"{prefixes[i].start_tokens:,} to {prefixes[i].stop_tokens:,}"
        for i, _ in order[:3]
    ]
    return Figure(
        name="prefixes",
        title="The hottest prefixes",
        about="Tree of prefixes along an axis of tokens, one branch a row. "
        f"{'; '.join(said) or 'No prefix is shared'}.",
        draw=lambda width: _draw(prefixes, order, width),
        caption="Each branch spans the tokens it adds and is as thick as it has requests; thin "
        "lines lead from the prefix it goes on from, dotted ones stand for prefixes that are not "
        "among these.",
        table=DataTable(
            "Shared prefixes, in the order of the tree",
            (
                Column("begins with"),
                Column("from", "tokens"),
                Column("to", "tokens"),
                Column("requests"),
                Column("repeated", "% of all"),
            ),
            [
                (
                    "· " * depth + prefixes[i].opening,
                    f"{prefixes[i].start_tokens:,}",
                    f"{prefixes[i].stop_tokens:,}",
                    f"{prefixes[i].requests:,}",
                    bare_percent(prefixes[i].repeated_share),
                )
                for i, depth in order
            ],
        ),
        definitions=_DEFINITIONS,
    )


def _head(opening: str, most: int) -> str:
    """Return the first characters of an opening."""
    said = printable(opening)
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _in_depth(prefixes: Sequence[HotPrefix]) -> list[tuple[int, int]]:
    """Return (place, depth) with each prefix before its children, hot ones first."""
    below: dict[int | None, list[int]] = {}
    for i, prefix in enumerate(prefixes):
        below.setdefault(prefix.parent, []).append(i)
    order: list[tuple[int, int]] = []
    stack = [(i, 0) for i in reversed(below.get(None, []))]
    while stack:
        i, depth = stack.pop()
        order.append((i, depth))
        stack.extend((child, depth + 1) for child in reversed(below.get(i, [])))
    return order


def _draw(prefixes: Sequence[HotPrefix], order: Sequence[tuple[int, int]], width: float) -> Canvas:
    narrow = width < NARROW_BELOW
    frame = Frame(10.0, 18.0, width - (12 if narrow else 150), 18.0 + _ROW * len(order))
    scale = LinearScale.over(
        [float(prefix.stop_tokens) for prefix in prefixes], frame.left, frame.right
    )
    axis = x_axis(
        frame, scale, amount, title="tokens from the start of the prompt", grid=True, edge=width
    )
    drawn: list[Markup] = []
    if not narrow:
        drawn.append(text(width - 74, 10, "requests", "k", "end"))
        drawn.append(text(width, 10, "repeated", "k", "end"))
    most = max((prefix.requests for prefix in prefixes), default=1)
    middles: dict[int, float] = {}
    branches: list[Markup] = []
    for row, (i, _) in enumerate(order):
        prefix = prefixes[i]
        y = frame.top + _ROW * row + 30
        middles[i] = y
        thick = _THINNEST + (_THICKEST - _THINNEST) * math.sqrt(prefix.requests / most)
        start, stop = scale.at(prefix.start_tokens), scale.at(prefix.stop_tokens)
        above = middles.get(-1 if prefix.parent is None else prefix.parent)
        if above is not None:
            branches.append(line(start, above, start, y, "e"))
        elif prefix.start_tokens:
            branches.append(line(frame.left, y, start, y, "e dot"))
        branches.append(rect(start, y - thick / 2, max(stop - start, 2.0), thick, "b s0"))
        drawn += _words(prefix, y, start, frame, width)
    return Canvas([*axis, *branches, *drawn], frame.bottom + 42)


def _words(prefix: HotPrefix, y: float, start: float, frame: Frame, width: float) -> list[Markup]:
    """Write how the stretch begins above it, and its numbers to the right."""
    narrow = width < NARROW_BELOW
    counts = f"{amount(prefix.requests)} · {percent(prefix.repeated_share, 1)}"
    room = frame.right - start
    if narrow:
        return [
            text(frame.left, y - 13, _head(prefix.opening, 24), "mono"),
            text(width, y - 13, counts, "v", "end"),
        ]
    late = room < 130
    most = min(60, int((start - frame.left if late else room) / 7.4))
    said = _head(prefix.opening, most)
    return [
        text(start, y - 13, said, "mono", "end" if late else None),
        text(width - 74, y + 4, f"{prefix.requests:,}", "v", "end"),
        text(width, y + 4, percent(prefix.repeated_share), "v", "end"),
    ]
