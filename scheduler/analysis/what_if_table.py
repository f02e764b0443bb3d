"""The answer of a what-if as a table for people, as JSON and as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from textwrap import fill

from scheduler.analysis.what_if import WhatIf, WhatIfRow
from scheduler.report.document import csv_text, json_text
from scheduler.report.plain_text import lined_up, percent

__all__ = ["format_what_if", "what_if_csv", "what_if_json"]

_WIDTH = 100
DEFINITION = (
    "Requests in arrival order, no queue and no time; outputs are cached where the trace has their "
    "ids; one token of each prompt has to be computed. Warm: the last 50 % of the requests, over "
    "caches that the others warmed; change is against the first row, cold; ceiling: an "
    "unbounded cache; optimum: the best order there is."
)


def format_what_if(answer: WhatIf) -> str:
    """Return a line a row, then what the rows with replicas lose, and the definition."""
    table = [
        ["", "page", "hit cold", "change", "hit warm", "hit", "evicted", "ceiling", "optimum"],
        ["", "tokens", "%", "points", "%", "tokens", "pages", "%", "%"],
        *(_cells(answer, row) for row in answer.rows),
    ]
    said = [text for row in answer.rows for text in _said_of(answer, row)]
    if not all(row.exact for row in answer.rows):
        said.append("~: estimated, within 1.3 points; the ceiling is not known there.")
    said.append(
        f"Each cache has {answer.capacity_tokens:,} tokens ({answer.eviction} eviction). "
        + DEFINITION
    )
    return "\n".join([lined_up(table), *(fill(text, _WIDTH) for text in said), ""])


def _cells(answer: WhatIf, row: WhatIfRow) -> list[str]:
    """Return one row of the table."""
    points = answer.points(row)
    optimum = percent(row.optimal_hit_rate)
    return [
        row.label,
        str(row.page_size),
        percent(row.cold_hit_rate),
        "-" if points is None or row is answer.rows[0] else _signed(points),
        percent(row.second_half_hit_rate),
        f"{row.hit_tokens:,}",
        f"{row.evicted_pages:,}",
        percent(row.ceiling_hit_rate),
        optimum if row.exact else f"~{optimum}",
    ]


def _said_of(answer: WhatIf, row: WhatIfRow) -> Iterator[str]:
    """Say of a row what the table has no column for."""
    if row.parts:
        if row.pooled == 1:
            yield f"{row.label}: {', '.join(row.parts)}."
    elif 0 < row.edited_requests < row.requests:
        yield f"{row.label}: concerns {row.edited_requests:,} of {row.requests:,} requests."
    if row.pinned_pages and row.pooled == 1:
        where = " of each replica" if row.replicas > 1 else ""
        yield (
            f"{row.label}: {row.pinned_pages:,} of the {row.capacity_pages:,} pages{where} are "
            "kept for pinned prefixes."
        )
    pooled = answer.pooled_row(row)
    if pooled is None:
        return
    lost, said = _difference(row, pooled), []
    if lost is not None:
        said.append(f"{_signed(lost)} points against one cache of {row.replicas}x")
    if row.imbalance is not None:
        said.append(f"the busiest replica computes {row.imbalance:.2f}x the mean")
    yield f"{row.label}: {', '.join(said) or '-'}."


def what_if_json(answer: WhatIf, **more: object) -> str:
    """Return it as JSON, and what more there is to say."""
    return json_text(
        {
            "definition": DEFINITION,
            "capacity_tokens": answer.capacity_tokens,
            "eviction": answer.eviction,
            "rows": [_fields(answer, row) for row in answer.rows],
            **more,
        }
    )


def what_if_csv(answer: WhatIf) -> str:
    """Return it as CSV, a line a row; an empty cell is a number that does not exist."""
    rows = [_fields(answer, row) for row in answer.rows]
    return csv_text(
        list(rows[0]),
        (
            ["|".join(map(str, v)) if isinstance(v, tuple) else v for v in row.values()]
            for row in rows
        ),
    )


def _fields(answer: WhatIf, row: WhatIfRow) -> dict[str, object]:
    """Return every number of a row by name."""
    pooled = answer.pooled_row(row)
    return {
        **asdict(row),
        "capacity_tokens": answer.capacity_tokens * row.pooled,
        "computed_tokens": row.computed_tokens,
        "cold_hit_rate": row.cold_hit_rate,
        "second_half_hit_rate": row.second_half_hit_rate,
        "change_points": answer.points(row),
        "pooled_change_points": None if pooled is None else _difference(row, pooled),
        "imbalance": row.imbalance,
    }


def _difference(row: WhatIfRow, other: WhatIfRow) -> float | None:
    """Return the difference of two cold hit rates in points."""
    if row.cold_hit_rate is None or other.cold_hit_rate is None:
        return None
    return 100 * (row.cold_hit_rate - other.cold_hit_rate)


def _signed(points: float) -> str:
    """Return points with a sign; a change too small to show has none."""
    text = f"{points:+.2f}"
    return "0.00" if text in {"+0.00", "-0.00"} else text
