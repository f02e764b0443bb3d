"""Records of a CSV file, one at a time; a quoted field may hold line ends, commas and quotes.

The ``csv`` module of the standard library limits a field for the whole process and reads text;
this one reads bytes in bounded memory, and goes on at the next line where a quote never ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from scheduler.trace.fields import NON_UTF8
from scheduler.trace.source import MAX_LINE_BYTES, Line, Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["csv_records", "fields_of"]

OPEN = "a quote that never ends: the line is skipped"
FIELD = re.compile(r'\s*"((?:[^"]++|"")*+)"[^,]*(?:,|$)|([^,]*)(?:,|$)', re.DOTALL)


def csv_records(source: Source, summary: TraceSummary) -> Iterator[Line]:
    """Yield (first line from 1, record, is it ended) without blank records.

    Lines lose the blanks at their ends. A line with an odd number of quotes goes on in the
    next ones, up to one that has an odd number too. Where there is none up to MAX_LINE_BYTES
    or the end of the file, the first line alone is a cut record and reading goes on behind it.
    Cost: O(file); memory O(record).
    """
    held: list[Line] = []
    held_bytes = 0
    lines = source.lines(summary)
    pending: list[Line] = []
    while True:
        line = pending.pop() if pending else next(lines, None)
        if line is not None and not held and line[1].count(b'"') % 2 == 0:
            yield line
            continue
        if line is not None:
            held.append(line)
            held_bytes += len(line[1])
            if len(held) > 1 and line[1].count(b'"') % 2:
                yield held[0][0], b"\n".join(part for _, part, _ in held), line[2]
                held, held_bytes = [], 0
                continue
        if held and (line is None or held_bytes > MAX_LINE_BYTES):
            yield held[0][0], held[0][1], False
            pending = [*pending, *reversed(held[1:])]
            held, held_bytes = [], 0
        elif line is None:
            return


def fields_of(line: Line, summary: TraceSummary) -> list[str]:
    """Return the fields of a record. Raises: RowError when a quote never ends."""
    number, data, _ = line
    if data.count(b'"') % 2:
        raise RowError(OPEN)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        summary.repair(NON_UTF8, number)
    fields = []
    position = 0
    while position <= len(text):
        found = FIELD.match(text, position)
        assert found is not None, "FIELD matches any text"
        quoted, plain = found[1], found[2]
        fields.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        if not found[0].endswith(","):
            break
        position = found.end()
    return fields
