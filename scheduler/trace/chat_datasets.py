"""Readers of chat datasets: LMSYS-Chat-1M and WildChat, as Parquet or as JSONL.

A row is one conversation; every answer gives a request whose prompt is the history before it::

    {"conversation_id":"c","model":"m","conversation":[{"role":"user","content":"Hi"},...]}
    {"conversation_hash":"h","model":"m","timestamp":"2023-04-09T00:02:53Z","hashed_ip":"i",
     "conversation":[{"role":"user","content":"Hi","timestamp":null},...]}

Conversations with different models share nothing. LMSYS rows have no times: one turn arrives
every ``1 / rate_per_s``. WildChat rows have: a turn arrives at the time of the message that
asks; where only the answer has one, so much earlier as the answer takes, 30 ms for 4 characters;
where neither has, a think time and its answer before the next turn; the row's own time is that
of the last answer. Numbers count ``time_unit`` (ms) since 1970. The hashed address is the client.

Memory of WildChat: 16 bytes a conversation, and those that are alive at one time or lie in the
file before one that starts earlier.
Ref: dataset cards of lmsys/lmsys-chat-1m and allenai/WildChat-1M.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

from radixcache import KeyKind, Namespace
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers, said_of_missing_times, said_of_text
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.conversations import nominal_arrivals, placed_turns
from scheduler.trace.fields import name_of, row_of
from scheduler.trace.formats import UNITS_PER_S, Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.json_objects import objects_in
from scheduler.trace.messages import Message, messages_of
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.sessions import OUTPUT_TOKEN_S, SessionPlan, Turn, merged
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["LMSYS", "WILDCHAT", "is_dataset_row"]

ID_KEYS = ("conversation_hash", "conversation_id")
CHARACTERS_A_TOKEN = 4
NO_TIME = "timestamp that cannot be read: taken as absent"
GUESSED = "turn without a time: a think time and its answer before the next"
TIMELESS = "no timestamp in the row or its messages"


@dataclass(frozen=True, slots=True)
class _Talk:
    """One conversation as it was read; times are seconds since 1970, as far as they are known."""

    number: int
    name: str
    model: str | None
    client: str | None
    messages: list[Message]
    times: list[float | None]
    ended_s: float | None
    """The row's own time, else the latest of its messages."""


class _Untokenized:
    """Gives no tokens: for finding turns and their times alone."""

    name = "none"

    def encode(self, text: str) -> list[int]:
        return []


class _Datasets:
    """Streams one file of conversations."""

    __slots__ = ("encoder", "head", "options", "timed")

    def __init__(self, head: Head, options: ReadOptions, *, timed: bool) -> None:
        self.head = head
        self.options = options
        self.timed = timed
        self.encoder = ChatEncoder(options.tokenizer, options.template)

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests at the times of the file, from its earliest on, or at nominal ones."""
        if self.timed:
            return merged(self._streams(source, summary, *self._starts(source)))
        rate_per_s, think_s = self.options.rate_per_s, self.options.think_s
        return nominal_arrivals(
            self._plans(source, summary), rate_per_s=rate_per_s, think_s=think_s
        )

    def _plans(self, source: Source, summary: TraceSummary) -> Iterator[SessionPlan]:
        """Yield the conversations that give a request, without times."""
        names = UniqueNames()
        for talk in self._talks(source, summary):
            turns = self._turns(talk, self.encoder, summary)
            if turns:
                yield self._plan(talk, turns, names, summary)

    def _starts(self, source: Source) -> tuple[array[int], array[float]]:
        """Return the lines of the conversations, and the earliest start from each on."""
        lines, starts_s = array("q"), array("d")
        unseen = TraceSummary()
        encoder = ChatEncoder(_Untokenized(), self.options.template)
        options = replace(self.options, strict=False)
        for talk in _Datasets(self.head, options, timed=True)._talks(source, unseen):
            turns = self._turns(talk, encoder, unseen)
            if turns:
                lines.append(talk.number)
                starts_s.append(self._arrivals(talk, turns, unseen)[0])
        for index in range(len(starts_s) - 2, -1, -1):
            starts_s[index] = min(starts_s[index], starts_s[index + 1])
        return lines, starts_s

    def _streams(
        self,
        source: Source,
        summary: TraceSummary,
        lines: array[int],
        earliest_s: array[float],
    ) -> Iterator[tuple[float, Iterator[Request]]]:
        """Yield (start, requests) of each conversation, by start; ties in file order."""
        names = UniqueNames()
        held: list[tuple[float, int, Iterator[Request]]] = []
        origin_s = earliest_s[0] if earliest_s else 0.0
        read = 0
        for talk in self._talks(source, summary):
            while read < len(lines) and lines[read] <= talk.number:
                read += 1
            turns = self._turns(talk, self.encoder, summary)
            if turns:
                plan = self._plan(talk, turns, names, summary)
                arrivals_s = [t - origin_s for t in self._arrivals(talk, turns, summary)]
                heappush(held, (arrivals_s[0], talk.number, _at(plan, arrivals_s)))
            until_s = earliest_s[read] - origin_s if read < len(lines) else math.inf
            while held and held[0][0] <= until_s:
                start_s, _, requests = heappop(held)
                yield start_s, requests
        while held:
            start_s, _, requests = heappop(held)
            yield start_s, requests

    def _talks(self, source: Source, summary: TraceSummary) -> Iterator[_Talk]:
        """Yield the conversations in file order; a row that is none is skipped and counted."""
        for _, talk in made_rows(
            objects_in(source, self.head.data, summary),
            lambda line: self._talk(line, summary),
            summary,
            strict=self.options.strict,
            path=source.path,
        ):
            summary.records += 1
            yield talk

    def _talk(self, line: Line, summary: TraceSummary) -> _Talk:
        """Read one row."""
        row = row_of(line, summary)
        items = row.get("conversation")
        if not isinstance(items, list):
            raise RowError("no list of messages in it")
        clients = [row, *(item for item in items if isinstance(item, dict))]
        client = next((found for item in clients if (found := name_of(item, "hashed_ip"))), None)
        name = next((found for key in ID_KEYS if (found := name_of(row, key))), f"row {line[0]}")
        model = name_of(row, "model")
        messages: list[Message] = []
        times: list[float | None] = []
        for item in items:
            made = messages_of([item], summary, line[0])
            time_s = self._time(item.get("timestamp"), line[0], summary) if made else None
            messages += made
            times += [time_s] * len(made)
        ended_s = self._time(row.get("timestamp"), line[0], summary)
        if ended_s is None:
            ended_s = max((time_s for time_s in times if time_s is not None), default=None)
        if self.timed and ended_s is None:
            raise RowError(TIMELESS)
        return _Talk(line[0], name, model, client, messages, times, ended_s)

    def _time(self, value: object, line: int, summary: TraceSummary) -> float | None:
        """Return a time in seconds since 1970, None when there is none that can be read."""
        if value is None:
            return None
        try:
            if isinstance(value, str):
                stamp = datetime.fromisoformat(value)
                return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
            if isinstance(value, int | float) and not isinstance(value, bool):
                time_s = value / UNITS_PER_S[self.options.time_unit or "ms"]
                if abs(time_s) < 1e12:
                    return time_s
        except (ValueError, OverflowError):
            pass
        summary.repair(NO_TIME, line)
        return None

    def _turns(
        self, talk: _Talk, encoder: ChatEncoder, summary: TraceSummary
    ) -> list[tuple[int, Turn]]:
        """Return the turns of a conversation, each with the place of its answer."""
        return placed_turns(
            talk.messages,
            encoder,
            summary,
            talk.number,
            max_new_tokens=self.options.max_new_tokens,
            think_s=self.options.think_s,
        )

    def _arrivals(
        self, talk: _Talk, turns: list[tuple[int, Turn]], summary: TraceSummary
    ) -> list[float]:
        """Return when each turn arrives, in seconds since 1970."""
        places = [place for place, _ in turns]
        known = [
            _asked(talk, place, before)
            for place, before in zip(places, [-1, *places[:-1]], strict=True)
        ]
        if known[-1] is None and talk.ended_s is not None:
            known[-1] = talk.ended_s - _answer_s(talk, places[-1])
        gaps_s = [self.options.think_s + _answer_s(talk, place) for place in places]
        # From the end, where a time is known, back to the start; then none goes back.
        later_s = known[-1] or 0.0
        arrivals_s = []
        for time_s, gap_s in zip(reversed(known), reversed(gaps_s), strict=True):
            if time_s is None:
                summary.repair(GUESSED, talk.number)
            later_s = later_s - gap_s if time_s is None else time_s
            arrivals_s.append(later_s)
        return list(accumulate(reversed(arrivals_s), max))

    def _plan(
        self,
        talk: _Talk,
        turns: list[tuple[int, Turn]],
        names: UniqueNames,
        summary: TraceSummary,
    ) -> SessionPlan:
        """Return a conversation as a session."""
        return SessionPlan(
            session_id=names.claim(talk.name, talk.number, summary),
            start_s=0.0,
            turns=tuple(turn for _, turn in turns),
            namespace=Namespace.of(talk.model),
            client_id=talk.client,
        )


def _asked(talk: _Talk, place: int, before: int) -> float | None:
    """Return when the messages after one answer and before the next were sent, if known."""
    for index in range(place - 1, before, -1):
        time_s = talk.times[index]
        if time_s is not None:
            return time_s
    answered_s = talk.times[place] if place < len(talk.times) else None
    return None if answered_s is None else answered_s - _answer_s(talk, place)


def _answer_s(talk: _Talk, place: int) -> float:
    """Return how long an answer is taken to last."""
    if place == len(talk.messages):
        return 0.0
    return len(talk.messages[place].text) / CHARACTERS_A_TOKEN * OUTPUT_TOKEN_S


def _at(plan: SessionPlan, arrivals_s: list[float]) -> Iterator[Request]:
    """Yield the requests of a session at given times."""
    for request, arrival_s in zip(plan.requests(), arrivals_s, strict=True):
        yield replace(request, arrival_s=arrival_s)


def _plan_reading(head: Head, options: ReadOptions, *, timed: bool) -> ReadPlan:
    """Plan the reading and list what is taken for granted."""
    if timed:
        when = (
            "a turn arrives when it was asked; where only the answer has a time, that minus "
            f"{OUTPUT_TOKEN_S * 1000:g} ms for {CHARACTERS_A_TOKEN} characters of it"
        )
    else:
        when = (
            f"{said_of_missing_times(options)}, turns of a "
            f"conversation at least {options.think_s:g} s apart"
        )
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(
            when,
            *said_of_text(options),
            said_of_answers(options),
            "conversations with different models share nothing",
        ),
        rows=lambda source, summary: _Datasets(head, options, timed=timed).stream(source, summary),
    )


def is_dataset_row(row: dict[str, Any]) -> bool:
    """Recognise a conversation with the columns that both datasets have."""
    named = any(key in row for key in ID_KEYS)
    return named and "model" in row and isinstance(row.get("conversation"), list)


WILDCHAT = TraceFormat(
    name="wildchat",
    title="WildChat conversations",
    recognises=lambda row: is_dataset_row(row) and "timestamp" in row,
    plan=lambda head, options: _plan_reading(head, options, timed=True),
)
LMSYS = TraceFormat(
    name="lmsys",
    title="LMSYS-Chat-1M conversations",
    recognises=lambda row: is_dataset_row(row) and "timestamp" not in row,
    plan=lambda head, options: _plan_reading(head, options, timed=False),
)
