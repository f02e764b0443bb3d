"""Reader of ShareGPT-shaped conversations: a JSON array, JSONL, or objects in a row.

``[{"id":"a1_0","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello"}]}]``

Keys may be conversations, conversation, messages or items; from or role; value or content;
roles are matched by name (human, gpt, user, assistant, chatgpt, bing, bard, system, tool,
function_call, observation, ...). A top-level ``system`` or ``tools`` opens the prompt. Every
answer is a row: its prompt is the whole history. A leading answer has no prompt and is
skipped. Long conversations come in chunks ``ID_0``, ``ID_11``, ``ID_17``: a chunk whose number
is the count of messages before it continues the record just before it.

The file has no times: one turn arrives every ``1 / rate_per_s``, the turns of a conversation
at least ``think_s`` apart (``nominal_arrivals``). Memory: the conversations alive at one
time, and the ids of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from radixcache import KeyKind
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers, said_of_missing_times, said_of_text
from scheduler.trace.chat_datasets import is_dataset_row
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.conversations import nominal_arrivals, turns_of
from scheduler.trace.fields import name_of, row_of
from scheduler.trace.formats import Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.json_objects import objects_in
from scheduler.trace.messages import Message, conversation_in, messages_of, preamble_of
from scheduler.trace.openai import is_request_row
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.sessions import SessionPlan
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["SHAREGPT", "sessions_from"]

ID_KEYS = ("id", "conversation_id", "conversation_hash")
CHUNK = re.compile(r"(.+)_(0|[1-9][0-9]{0,8})", re.DOTALL)
JOINED = "continuation chunk joined to the conversation before it"


@dataclass(slots=True)
class _Conversation:
    """A conversation as it is put together from its chunks."""

    number: int
    name: str
    chunk: int | None
    preamble: list[Message]
    messages: list[Message]

    def goes_on_with(self, other: _Conversation) -> bool:
        """Tell whether a record is the next chunk; ids that just count up are not."""
        if self.chunk is None or len(self.messages) < 2 or not other.messages:
            return False
        return other.name == self.name and other.chunk == self.chunk + len(self.messages)


def sessions_from(
    lines: Iterator[Line], options: ReadOptions, summary: TraceSummary, path: str | None = None
) -> Iterator[SessionPlan]:
    """Yield a session for each conversation that gives a request; starts are all 0."""
    encoder = ChatEncoder(options.tokenizer, options.template)
    names = UniqueNames()
    for found in _joined(lines, options, summary, path):
        turns = turns_of(
            [*found.preamble, *found.messages],
            encoder,
            summary,
            found.number,
            max_new_tokens=options.max_new_tokens,
            think_s=options.think_s,
        )
        if not turns:
            continue
        name = found.name if found.chunk is None else f"{found.name}_{found.chunk}"
        name = names.claim(name, found.number, summary)
        yield SessionPlan(session_id=name, start_s=0.0, turns=turns)


def _joined(
    lines: Iterator[Line], options: ReadOptions, summary: TraceSummary, path: str | None
) -> Iterator[_Conversation]:
    """Yield conversations, chunks put together."""
    held: _Conversation | None = None
    for number, found in made_rows(
        lines, lambda line: _record(line, summary), summary, strict=options.strict, path=path
    ):
        summary.records += 1
        if held is not None and held.goes_on_with(found):
            held.messages += found.messages
            summary.repair(JOINED, number)
            continue
        if held is not None:
            yield held
        held = found
    if held is not None:
        yield held


def _record(line: Line, summary: TraceSummary) -> _Conversation:
    """Read one record; an id that ends in a number may be that of a chunk."""
    row = row_of(line, summary)
    items = conversation_in(row)
    if items is None:
        raise RowError("no list of messages in it")
    name = next((found for key in ID_KEYS if (found := name_of(row, key))), f"record {line[0]}")
    messages = messages_of(items, summary, line[0])
    preamble = preamble_of(row, summary, line[0]) if messages else []
    parts = CHUNK.fullmatch(name)
    if parts is None:
        return _Conversation(line[0], name, None, preamble, messages)
    return _Conversation(line[0], parts[1], int(parts[2]), preamble, messages)


def _assumed(options: ReadOptions) -> tuple[str, ...]:
    """Say what is taken for granted of text without times."""
    return (
        f"{said_of_missing_times(options)}, turns of a "
        f"conversation at least {options.think_s:g} s apart",
        *said_of_text(options),
        said_of_answers(options),
    )


def _is_conversation(row: dict[str, Any]) -> bool:
    """Recognise a whole conversation; neither a request of an API log nor a dataset's row."""
    items: Any = conversation_in(row)
    if not items or not all(isinstance(item, dict) for item in items):
        return False
    if is_request_row(row) or is_dataset_row(row):
        return False
    return "from" in items[0] or "role" in items[0]


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of conversations."""

    def rows(source: Source, summary: TraceSummary) -> Iterator[Request]:
        lines = objects_in(source, head.data, summary)
        sessions = sessions_from(lines, options, summary, source.path)
        return nominal_arrivals(sessions, rate_per_s=options.rate_per_s, think_s=options.think_s)

    return ReadPlan(kind=KeyKind.TOKENS, assumptions=_assumed(options), rows=rows)


SHAREGPT = TraceFormat(
    name="sharegpt",
    title="ShareGPT conversations",
    recognises=_is_conversation,
    plan=_plan,
)
