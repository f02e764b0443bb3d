"""Table: several runs side by side, for a terminal or as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler.report.cached_share import CACHED_FROM_SHARE
from scheduler.report.metrics import METRICS, Metric, metric
from scheduler.report.plain_text import HIDDEN, OVERLOADED_NOTE, UNCALIBRATED_NOTE, lined_up
from scheduler.report.summary import EXTRAPOLATED, Summary

__all__ = [
    "DEFAULT_COLUMNS",
    "UNIT_SHOWN",
    "extrapolations",
    "glossary",
    "notes_on_runs",
    "print_table",
    "render_table",
    "shown_value",
    "shown_verdict",
]

_WHO_WAITED = ("mostly_computed_ttft_p99_s", "mostly_cached_ttft_p99_s")
DEFAULT_COLUMNS: tuple[str, ...] = (
    "cold_hit_rate_share",
    "warm_hit_rate_share",
    "optimal_reached_share",
    "drain_requests_per_s",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "ttft_max_s",
    "utilisation_share",
    "queue_mean_requests",
    "queue_max_requests",
    "running_mean_requests",
    "tpot_mean_s",
    "e2e_mean_s",
    "e2e_p99_s",
    "output_tokens_per_s",
    *_WHO_WAITED,
    "overtaken_max_tokens",
    "evicted_tokens",
    "recomputed_tokens",
    "retractions_count",
)
"""What a comparison shows; every metric is in the JSON and the CSV."""

_COLUMN_WORDS = {
    "cold_hit_rate_share": "Hit cold: cached share of all prompt tokens, from an empty cache",
    "warm_hit_rate_share": "hit warm: the same of the second half of the requests",
    "optimal_reached_share": "of opt.: hit cold / DFS optimum, the best any order can reach",
    "overtaken_max_tokens": "overtaken max: most tokens of later arrivals that went before one "
    "request",
}
_PLAIN_WIDTH = 100
_NARROWEST_NOTE = 40
_GAP = "  "
UNIT_SHOWN = {"share": "%", "requests": "req", "requests/s": "req/s", "tokens": "tok",
               "tokens/s": "tok/s", "s": "s", "count": ""}  # fmt: skip
"""Units as a column's head has room for them."""


@dataclass(frozen=True, slots=True)
class _Column:
    header: str
    unit: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(len(self.header), len(self.unit), *(len(cell) for cell in self.cells))


def render_table(
    summaries: Sequence[Summary],
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    width: int = _PLAIN_WIDTH,
) -> str:
    """Return the comparison as plain text, a row a run, at most ``width`` characters wide.

    What does not fit goes into a further block that repeats the names. A line is longer only
    when a name and a single column are. An overloaded run shows its drain rate; its seconds
    would measure the trace's length and are hidden.
    """
    lines: list[str] = []
    for block in _blocks(summaries, columns, width, len(_GAP)):
        rows = [[c.header for c in block], [c.unit for c in block]]
        rows += [list(row) for row in zip(*(c.cells for c in block), strict=True)]
        lines += [*lined_up(rows).splitlines(), ""]
    for note in _notes(summaries, columns):
        lines += wrap(note, max(width, _NARROWEST_NOTE), subsequent_indent=_GAP)
    return "\n".join(lines).rstrip("\n") + "\n"


def print_table(
    summaries: Sequence[Summary],
    console: Console | None = None,
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
) -> None:
    """Print the comparison: rich tables on a terminal, plain text elsewhere."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(render_table(summaries, columns=columns))
        return
    for block in _blocks(summaries, columns, console.width - 2, 3):
        table = Table(pad_edge=False)
        for i, column in enumerate(block):
            head = Text(f"{column.header}\n{column.unit}")
            table.add_column(head, justify="left" if i == 0 else "right", no_wrap=True)
        for row in zip(*(c.cells for c in block), strict=True):
            hot = "OVERLOADED" in row
            table.add_row(*(Text(cell) for cell in row), style="yellow" if hot else "")
        console.print(table)
    for note in _notes(summaries, columns):
        console.print(note, style="dim", highlight=False, markup=False)


def glossary() -> str:
    """Return every metric as a Markdown table."""
    lines = ["| metric | unit | formula | meaning |", "|---|---|---|---|"]
    lines += [f"| `{m.name}` | {m.unit} | {m.formula} | {m.doc} |" for m in METRICS]
    return "\n".join(lines) + "\n"


def _blocks(
    summaries: Sequence[Summary], names: Sequence[str], width: int, gap: int
) -> list[list[_Column]]:
    """Cut the columns into blocks that fit, the run's name first in each."""
    label = _Column("policy", "", [summary.label for summary in summaries])
    verdict = _Column("verdict", "", [shown_verdict(summary) for summary in summaries])
    rest = [verdict] + [_column(metric(name), summaries) for name in names]
    blocks = [[label]]
    used = label.width
    for column in rest:
        if len(blocks[-1]) > 1 and used + gap + column.width > width:
            blocks.append([label])
            used = label.width
        blocks[-1].append(column)
        used += gap + column.width
    return blocks


def _column(shown: Metric, summaries: Sequence[Summary]) -> _Column:
    return _Column(shown.header, UNIT_SHOWN[shown.unit], [shown_value(shown, s) for s in summaries])


def shown_value(shown: Metric, summary: Summary) -> str:
    """Return a metric of a run as a table shows it; what an overload stretches is hidden."""
    if shown.stretches and summary.overloaded:
        return HIDDEN
    value = summary.values[shown.name]
    if value is None:
        return "-"
    if shown.unit == "share":
        value *= 100
    return f"{value:,.{shown.decimals}f}"


def shown_verdict(summary: Summary) -> str:
    """Return the verdict on a run's load, or a dash."""
    return summary.load.verdict.value if summary.load.verdict else "-"


def _notes(summaries: Sequence[Summary], columns: Sequence[str]) -> list[str]:
    """Say what holds for all rows, how the numbers are to be read, and what was assumed."""
    return [*notes_on_runs(summaries, columns), *_words(columns), *_assumptions(summaries)]


def _words(columns: Sequence[str]) -> list[str]:
    """Say what the columns are whose heads do not say it themselves."""
    said = [words for name, words in _COLUMN_WORDS.items() if name in columns]
    return [f"{'; '.join(said)}."] if said else []


def notes_on_runs(summaries: Sequence[Summary], columns: Sequence[str]) -> list[str]:
    """Say what holds for all rows, and how the numbers are to be read."""
    notes = []
    bounds = [_bound(summary) for summary in summaries]
    if bounds:
        same = len(set(bounds)) == 1
        notes += (
            bounds[:1]
            if same
            else [f"{s.label}: {b}" for s, b in zip(summaries, bounds, strict=True)]
        )
    if any(summary.overloaded for summary in summaries):
        notes.append(OVERLOADED_NOTE)
    if _nobody_waits(summaries):
        notes.append(
            "No request ever waited (queue max 0), so there was nothing to order: the orders "
            "differ at a higher --rate or --load."
        )
    if any(name in columns for name in _WHO_WAITED):
        notes.append(
            "computed p99, cached p99: TTFT of the requests of whose prompt less than "
            f"{CACHED_FROM_SHARE:.0%}, or at least that, was cached at their first admission."
        )
    timed = any(metric(name).simulated for name in columns)
    if timed and not all(summary.calibrated for summary in summaries):
        notes.append(UNCALIBRATED_NOTE)
    if timed:
        notes += extrapolations(summaries)
    return notes


def extrapolations(summaries: Sequence[Summary]) -> list[str]:
    """Say in a line which runs left the range that their cost model was measured in."""
    outside = [summary for summary in summaries if EXTRAPOLATED in summary.assumptions]
    if not outside:
        return []
    named = "; ".join(f"{s.label}: {s.assumptions[EXTRAPOLATED]}" for s in outside)
    return [f"Extrapolated: steps outside the fitted range of the cost model. {named}."]


def _bound(summary: Summary) -> str:
    """Say what no run can beat, as far as it is known, and what was offered."""
    roughly = "" if summary.optimal_exact else " (estimated, within 1.3 points)"
    bounds = {
        "optimal_hit_rate_share": f"DFS optimum {{}} %{roughly}",
        "ceiling_hit_rate_share": "unbounded cache in arrival order {} %",
    }
    known = ", ".join(
        text.format(shown_value(metric(name), summary))
        for name, text in bounds.items()
        if summary.values[name] is not None
    )
    requests = shown_value(metric("submitted_requests"), summary)
    offered = shown_value(metric("offered_requests_per_s"), summary)
    return f"{known}{'; ' if known else ''}{requests} requests offered at {offered} req/s."


def _nobody_waits(summaries: Sequence[Summary]) -> bool:
    """Tell whether several runs had nothing to order."""
    queues = [summary.values["queue_max_requests"] for summary in summaries]
    return len(queues) > 1 and all(queue == 0 for queue in queues)


def _assumptions(summaries: Sequence[Summary]) -> list[str]:
    """List what was assumed: once where all runs agree, by run where they differ."""
    names = sorted({n for summary in summaries for n in summary.assumptions} - {EXTRAPOLATED})
    shared, own = [], []
    for name in names:
        values = [summary.assumptions.get(name) for summary in summaries]
        if all(value == values[0] for value in values):
            shared.append(f"{name} {values[0]}")
        else:
            each = ", ".join(
                f"{s.label} {v}" for s, v in zip(summaries, values, strict=True) if v is not None
            )
            own.append(f"{name}: {each}.")
    seeds = {summary.seed for summary in summaries if summary.seed is not None}
    if len(seeds) == 1:
        shared.append(f"seed {seeds.pop()}")
    return ([f"Assumed: {'; '.join(shared)}."] if shared else []) + own
