"""Blocks of a page that a script makes: found by their marks, and replaced between them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["RESULTS", "ROOT", "table_rows", "write_block"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"


def write_block(page: Path, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- NAME ... -->`` and ``<!-- end of NAME -->``.

    Raises: ValueError where the page does not have both marks once, in this order.
    """
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(f"<!-- {name}:")
    said, close, rest = rest.partition("-->")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    if not (start and close and end) or f"<!-- {name}:" in after:
        raise ValueError(f"{page} has no block {name!r}: put its two marks there")
    page.write_text(f"{before}{start}{said}{close}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def table_rows(rows: list[list[str]]) -> str:
    """Return a Markdown table; the first row is the head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)
