"""TraceSummary: what became of every row of a trace. rows = requests + skipped, always."""

from __future__ import annotations

from collections import Counter

__all__ = ["RowError", "TraceSummary"]

FIRST_LINES = 5


class RowError(Exception):
    """Say why one row gives no request; a reader catches it, counts it and goes on."""

    def __init__(self, reason: str, value: object = None) -> None:
        super().__init__(reason if value is None else f"{reason}: {_shown(value)}")
        self.reason = reason


class TraceSummary:
    """Counts of one pass over a trace: every row is a request or is skipped for a reason.

    A row is what its format gives one request for: a line of a JSONL file, a turn of a
    conversation. A repaired row is a request too; one row may be repaired in two ways.
    """

    __slots__ = ("first_lines", "records", "repaired", "requests", "rows", "skipped")

    def __init__(self) -> None:
        self.records = 0
        """Conversations read, where one gives several rows; else 0."""
        self.rows = 0
        self.requests = 0
        self.skipped: Counter[str] = Counter()
        """Rows that gave no request, by reason."""
        self.repaired: Counter[str] = Counter()
        """What was put right on the way, by reason."""
        self.first_lines: dict[str, list[int]] = {}
        """The first line (or record) numbers, 1-based, of each reason."""

    @property
    def skipped_rows(self) -> int:
        """Rows that gave no request, over all reasons."""
        return self.skipped.total()

    def took(self) -> None:
        """Count a row that became a request."""
        self.rows += 1
        self.requests += 1

    def skip(self, reason: str, line: int | None, rows: int = 1) -> None:
        """Count rows that gave no request."""
        self.rows += rows
        self.skipped[reason] += rows
        self._remember(reason, line)

    def repair(self, reason: str, line: int | None = None) -> None:
        """Count something that was put right."""
        self.repaired[reason] += 1
        self._remember(reason, line)

    def check(self) -> None:
        """Assert that no row was lost."""
        assert self.rows == self.requests + self.skipped_rows, _counts(self)

    def lines(self) -> list[str]:
        """Return the summary as short lines of text, one for each reason."""
        total = f"{self.rows} rows = {self.requests} requests + {self.skipped_rows} skipped"
        text = [f"{self.records} conversations: {total}" if self.records else total]
        for title, reasons in (("skipped", self.skipped), ("repaired", self.repaired)):
            for reason, count in sorted(reasons.items()):
                places = ", ".join(map(str, self.first_lines.get(reason, ())))
                text.append(
                    f"{title} {count}: {reason}" + (f" (first: {places})" if places else "")
                )
        return text

    def _remember(self, reason: str, line: int | None) -> None:
        """Keep the first few places where a reason occurred."""
        places = self.first_lines.setdefault(reason, [])
        if line is not None and len(places) < FIRST_LINES and line not in places:
            places.append(line)


def _shown(value: object) -> str:
    """Return a value as short text in one line."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    try:
        return repr(value)[:60]
    except ValueError:
        return "a very long number"


def _counts(summary: TraceSummary) -> str:
    """Return the counts in one line, for the message of a failed check."""
    return f"{summary.rows} rows, {summary.requests} requests, skipped {dict(summary.skipped)}"
