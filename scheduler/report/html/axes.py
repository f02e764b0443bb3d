"""Axes: few gridlines, ticks with their units, and the frame that a plot stands in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scheduler.report.html.scale import Scale
from scheduler.report.html.svg import line, text
from scheduler.report.html.text import text_width

__all__ = ["Frame", "x_axis", "y_axis"]

_TICK_ROOM = 52.0
_ROW_ROOM = 34.0
_CLOSEST = 30.0


@dataclass(frozen=True, slots=True)
class Frame:
    """The inside of a plot, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Pixels from left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Pixels from top to bottom."""
        return self.bottom - self.top


def y_axis(
    frame: Frame, scale: Scale, shown: Callable[[float], str], *, most: int | None = None
) -> list[Markup]:
    """Return a line across for each tick, its value to the left."""
    drawn = []
    ticks = scale.ticks(most or max(2, int(frame.height // _ROW_ROOM)))
    for value in ticks:
        y = scale.at(value)
        drawn.append(line(frame.left, y, frame.right, y, "g"))
        drawn.append(text(frame.left - 8, y + 4, shown(value), "k", "end"))
    return drawn


def x_axis(
    frame: Frame,
    scale: Scale,
    shown: Callable[[float], str],
    *,
    title: str = "",
    grid: bool = False,
    room: float = _TICK_ROOM,
    values: Sequence[float] | None = None,
    edge: float = math.inf,
) -> list[Markup]:
    """Return the base line, ticks below it, and what they count below these.

    Ticks stand at round values, or at those given; one too close to that before has none.
    No label goes beyond 0 or ``edge``, the width of the picture.
    """
    drawn = [line(frame.left, frame.bottom, frame.right, frame.bottom, "a")]
    last = -room
    for value in scale.ticks(max(2, int(frame.width // room))) if values is None else values:
        x = scale.at(value)
        if abs(x - last) < _CLOSEST:
            continue
        last = x
        top = frame.top if grid else frame.bottom
        drawn.append(line(x, top, x, frame.bottom + (0 if grid else 4), "g" if grid else "a"))
        half = text_width(shown(value), 12) / 2
        at = min(max(x, half), edge - half)
        drawn.append(text(at, frame.bottom + 18, shown(value), "k", "middle"))
    if title:
        drawn.append(text(frame.right, frame.bottom + 36, title, "k", "end"))
    return drawn
