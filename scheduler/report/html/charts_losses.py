"""Where prompt tokens went: a waterfall from all of them to those that were hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scheduler.report.html.axes import Frame, x_axis
from scheduler.report.html.figure import NARROW_BELOW, Canvas, Column, DataTable, Definition, Figure
from scheduler.report.html.scale import LinearScale
from scheduler.report.html.series import fitted_name, label_width
from scheduler.report.html.svg import line, rect, text
from scheduler.report.html.text import amount, bare_percent, percent

__all__ = ["LossStep", "waterfall_figure"]


@dataclass(frozen=True, slots=True)
class LossStep:
    """One part of the prompt tokens; the parts add up to all of them."""

    name: str
    tokens: int
    doc: str
    """What belongs to it, in a sentence."""
    kind: str
    """``hit``, ``lost`` (something could be done) or ``new`` (nothing can)."""
    share: str | None = None
    """Its percentage as it is to be shown; None: rounded by itself."""

    def percentage(self, whole: int) -> str:
        """Return its share of all prompt tokens."""
        return f"{self.bare_percentage(whole)}\N{NO-BREAK SPACE}%" if whole else percent(None)

    def bare_percentage(self, whole: int) -> str:
        """Return the same without the sign."""
        if self.share is None or not whole:
            return bare_percent(_share(self.tokens, whole))
        return self.share


_COLOURS = {"hit": "s2", "lost": "s1", "new": "s5"}


def waterfall_figure(steps: Sequence[LossStep], caption: str = "") -> Figure:
    """Return the parts as bars, each from where the one before ends, over all prompt tokens."""
    whole = sum(step.tokens for step in steps)
    said = [f"{step.name} {step.percentage(whole)}" for step in steps]
    return Figure(
        name="waterfall",
        title="Where the prompt tokens went",
        about=f"Waterfall chart of {whole:,} prompt tokens: {', '.join(said) or 'no token'}.",
        draw=lambda width: _draw(steps, whole, width),
        caption=caption
        or "Each bar starts where the one above ends; together they are all prompt tokens.",
        table=DataTable(
            "Prompt tokens by what became of them",
            (Column("part"), Column("tokens"), Column("share", "%")),
            [
                *((s.name, f"{s.tokens:,}", s.bare_percentage(whole)) for s in steps),
                ("all prompt tokens", f"{whole:,}", bare_percent(1.0 if whole else None)),
            ],
        ),
        definitions=[Definition(step.name, "", step.doc) for step in steps],
    )


def _share(tokens: int, whole: int) -> float | None:
    return tokens / whole if whole else None


def _draw(steps: Sequence[LossStep], whole: int, width: float) -> Canvas:
    narrow = width < NARROW_BELOW
    row = 46.0 if narrow else 34.0
    longest = max((label_width(fitted_name(s.name, 200)) for s in steps), default=0)
    left = 8.0 if narrow else longest + 16
    top = 8.0 if narrow else 24.0
    frame = Frame(left, top, width - (12 if narrow else 150), top + row * len(steps))
    scale = LinearScale(0.0, 1.0, frame.left, frame.right)
    drawn = x_axis(
        frame, scale, lambda v: percent(v, 0), title="of all prompt tokens", grid=True, edge=width
    )
    if not narrow:
        drawn.append(text(width - 70, 10, "share", "k", "end"))
        drawn.append(text(width, 10, "tokens", "k", "end"))
    done = 0
    for i, step in enumerate(steps):
        start, stop = (scale.at(_share(t, whole) or 0.0) for t in (done, done + step.tokens))
        done += step.tokens
        top = frame.top + row * i
        if i + 1 < len(steps):
            bar_top = top + (24 if narrow else 9)
            drawn.append(line(stop, bar_top, stop, bar_top + row, "h"))
        drawn += _row(step, whole, top, (start, stop), frame, width)
    return Canvas(drawn, frame.bottom + 42)


def _row(
    step: LossStep,
    whole: int,
    top: float,
    ends: tuple[float, float],
    frame: Frame,
    width: float,
) -> list[Markup]:
    narrow = width < NARROW_BELOW
    start, stop = ends
    share = step.percentage(whole)
    bar_top = top + (24 if narrow else 9)
    bar = rect(
        start,
        bar_top,
        max(stop - start, 1.0 if step.tokens else 0.0),
        14 if narrow else 16,
        f"b {_COLOURS[step.kind]}",
    )
    if narrow:
        return [
            bar,
            text(0, top + 17, fitted_name(step.name, 190), "n"),
            text(width - 4, top + 17, f"{share} · {amount(step.tokens)}", "v", "end"),
        ]
    return [
        bar,
        text(frame.left - 12, top + 22, fitted_name(step.name, 200), "n", "end"),
        text(width - 70, top + 22, share, "v", "end"),
        text(width, top + 22, amount(step.tokens), "v", "end"),
    ]
