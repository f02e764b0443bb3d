"""The answer of a what-if as a table for people, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from textwrap import fill

from scheduler.analysis.what_if import WhatIf, WhatIfRow

__all__ = ["format_what_if", "what_if_csv", "what_if_json"]

_WIDTH = 100
DEFINITION = (
    "Requests in arrival order, no queue and no time; recorded outputs are cached; one token of "
    "each prompt has to be computed. The second half counts the last 50 % of the requests over "
    "caches that the first half warmed; change is against the first row, cold; ceiling: an "
    "unbounded cache; optimum: the best order there is."
)


def format_what_if(answer: WhatIf) -> str:
    """Return a line a row, then what the rows with replicas lose, and the definition."""
    table = [
        ["", "page", "hit cold", "change", "2nd half", "hit", "evicted", "ceiling", "optimum"],
        ["", "tokens", "%", "points", "%", "tokens", "pages", "%", "%"],
        *(_cells(answer, row) for row in answer.rows),
    ]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        for cells in table
    ]
    said = [text for row in answer.rows for text in _said_of(answer, row)]
    if not all(row.exact for row in answer.rows):
        said.append("~: estimated, within 1.3 points; the ceiling is not known there.")
    said.append(
        f"Each cache has {answer.capacity_tokens:,} tokens ({answer.eviction} eviction). "
        + DEFINITION
    )
    return "\n".join([*lines, "", *(fill(text, _WIDTH) for text in said), ""])


def _cells(answer: WhatIf, row: WhatIfRow) -> list[str]:
    """Return one row of the table."""
    points = answer.points(row)
    optimum = _percent(row.optimal_hit_rate)
    return [
        row.label,
        str(row.page_size),
        _percent(row.cold_hit_rate),
        "-" if points is None or row is answer.rows[0] else _signed(points),
        _percent(row.second_half_hit_rate),
        f"{row.hit_tokens:,}",
        f"{row.evicted_pages:,}",
        _percent(row.ceiling_hit_rate),
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


def what_if_json(answer: WhatIf, command: str, version: str) -> str:
    """Return it as JSON: sorted keys, no NaN."""
    document = {
        "command": command,
        "version": version,
        "definition": DEFINITION,
        "capacity_tokens": answer.capacity_tokens,
        "eviction": answer.eviction,
        "rows": [_fields(answer, row) for row in answer.rows],
    }
    return json.dumps(document, sort_keys=True, indent=2, allow_nan=False) + "\n"


def what_if_csv(answer: WhatIf) -> str:
    """Return it as CSV, a line a row; an empty cell is a number that does not exist."""
    out = io.StringIO()
    rows = [
        {
            name: "|".join(map(str, value)) if isinstance(value, tuple) else value
            for name, value in _fields(answer, row).items()
        }
        for row in answer.rows
    ]
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


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


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def _signed(points: float) -> str:
    """Return points with a sign; a change too small to show has none."""
    text = f"{points:+.2f}"
    return "0.00" if text in {"+0.00", "-0.00"} else text
