"""Reader of prompts that follow each other without answers: AIPerf multi-turn and its like.

::

    {"session_id":"s1","turns":[{"text":"Q1","output_length":9},{"text":"Q2","delay":500}]}
    {"question_id":1,"category":"writing","turns":["Q1","Q2"]}
    {"session_id":0,"prompts":["Q1","Q2"],"completions":["A1","A2"]}

The first is AIPerf's, the second that of MT-bench and spec-bench, the third that of AIBrix's
dataset generator. A turn is a request, and a row of the summary; its prompt is all turns so
far and the answers between them. An answer that is not recorded but has a length is stood in
for by so many ids that nobody else has; one without a length is left out of the next prompt.
A leading turn of the role ``system`` opens the prompt. A turn comes at its ``timestamp``, or
``delay`` (or ``think_s``) after the answer before, both in milliseconds; a session without a
timestamp starts so that ``rate_per_s`` requests come a second in the mean.

Memory: the prompts of the sessions alive at one time; of all where they go back in time.
Ref: ai-dynamo/aiperf ``dataset/loader/multi_turn.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request
from scheduler.trace.assumed import said_of_answers, said_of_text
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.fields import count_of, name_of, row_of, time_of
from scheduler.trace.formats import UNITS_PER_S, Head, ReadOptions, ReadPlan, TraceFormat
from scheduler.trace.json_objects import objects_in
from scheduler.trace.messages import ANSWER, Message, messages_of
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.session_rows import Session, in_session_order
from scheduler.trace.sessions import OUTPUT_TOKEN_S
from scheduler.trace.source import Line, Source
from scheduler.trace.stand_ins import STAND_INS, stand_in
from scheduler.trace.summary import RowError, TraceSummary
from scheduler.trace.time_order import UNTIMED, Clock, scan_clock

__all__ = ["TURNS"]

BACK = "turn goes back in time inside its session: it comes with the one before"
MEDIA = ("image", "images", "audio", "audios", "video", "videos")
NAME_KEYS = ("session_id", "question_id", "id")


class _TurnRows:
    """Streams one file of sessions."""

    __slots__ = ("encoder", "head", "options", "timed", "units_per_s")

    def __init__(self, head: Head, options: ReadOptions, timed: bool) -> None:
        self.head = head
        self.options = options
        self.timed = timed
        self.units_per_s = UNITS_PER_S[options.time_unit or "ms"]
        self.encoder = ChatEncoder(options.tokenizer, options.template)

    def stream(self, source: Source, summary: TraceSummary) -> Iterator[Request]:
        """Yield the requests of all sessions in arrival order, and count every one."""
        clock = UNTIMED
        if self.timed:
            lines = objects_in(source, self.head.data, TraceSummary())
            clock = scan_clock(lines, "timestamp", self.units_per_s, read=_first_of)
        sessions = self._sessions(source, clock, summary)
        yield from in_session_order(sessions, in_order=clock.in_order, summary=summary)

    def _sessions(self, source: Source, clock: Clock, summary: TraceSummary) -> Iterator[Session]:
        """Yield the sessions in file order."""
        names = UniqueNames()
        strict = self.options.strict

        def make(line: Line) -> tuple[str, float, list[Any], list[Any]]:
            row = row_of(line, summary)
            turns, answers = _turns_in(row)
            start_s = summary.requests / self.options.rate_per_s
            if self.timed:
                start_s = clock.seconds(time_of(_stamped(turns), "timestamp"))
            return _name_of(row, line[0]), start_s, turns, answers

        lines = objects_in(source, self.head.data, summary)
        for line, found in made_rows(lines, make, summary, strict=strict, path=source.path):
            summary.records += 1
            name, start_s, turns, answers = found
            name = names.claim(name, line, summary)
            maker = _Requests(self, clock, name, start_s, summary)
            said = [(line, turn, answer) for turn, answer in zip(turns, answers, strict=True)]
            if len(turns) > 1 and maker.opens(line, turns[0]):
                said = said[1:]
            made = made_rows(said, maker, summary, strict=strict, path=source.path)
            yield Session(line, start_s, [request for _, request in made])


class _Requests:
    """Makes the requests of one session, one after another."""

    __slots__ = ("answered_s", "arrived_s", "clock", "data", "made", "name", "reader", "summary")

    def __init__(
        self, reader: _TurnRows, clock: Clock, name: str, start_s: float, summary: TraceSummary
    ) -> None:
        self.reader = reader
        self.clock = clock if reader.timed else UNTIMED
        self.name = name
        self.arrived_s = self.answered_s = start_s
        """When the turn before came, and when its answer was there."""
        self.summary = summary
        self.data = b""
        self.made = 0

    def opens(self, line: int, turn: Any) -> bool:
        """Take a leading system turn into the prompt; tell whether it is one."""
        if not isinstance(turn, dict) or turn.get("role") != "system":
            return False
        message = _message(turn, self.summary, line)
        self.data = self.reader.encoder.message(message.role, message.text)
        return True

    def __call__(self, numbered: tuple[int, Any, Any]) -> Request:
        """Make the request of the next turn."""
        line, turn, answer = numbered
        encoder, options = self.reader.encoder, self.reader.options
        row = turn if isinstance(turn, dict) else {"text": turn}
        message = _message(row, self.summary, line)
        if not message.text.strip():
            raise RowError("empty turn")
        output = self._output(row, answer)
        prompt = self.data + encoder.message(message.role, message.text) + encoder.header(ANSWER)
        key = PrefixKey.from_packed(prompt, KeyKind.TOKENS)
        self.arrived_s = self._come(row, line)
        output_tokens = None if output is None else len(output) // 4
        output_ids = None
        if output is not None:
            output_ids = tuple(PrefixKey.from_packed(output, KeyKind.TOKENS).tokens())
        self.made += 1
        self.data = prompt + (output or b"") + encoder.between
        self.answered_s = self.arrived_s + (output_tokens or 0) * OUTPUT_TOKEN_S
        self.summary.took()
        return Request(
            rid=f"{self.name}/{self.made}",
            key=key,
            prompt_tokens=len(key),
            max_new_tokens=max(options.max_new_tokens, output_tokens or 0),
            arrival_s=self.arrived_s,
            session_id=self.name,
            recorded_output_tokens=output_tokens,
            recorded_output_ids=output_ids,
        )

    def _output(self, row: dict[str, Any], answer: Any) -> bytes | None:
        """Return the packed answer, recorded or stood in for; None when nothing is known."""
        if isinstance(answer, str):
            encoder = self.reader.encoder
            return encoder.text(answer) + encoder.end
        if row.get("output_length") is None:
            return None
        return stand_in(f"{self.name}/{self.made}", count_of(row, "output_length", least=0))

    def _come(self, row: dict[str, Any], line: int) -> float:
        """Return when a turn comes."""
        reader = self.reader
        if self.clock is not UNTIMED and row.get("timestamp") is not None:
            arrival_s = self.clock.seconds(time_of(row, "timestamp"))
            if arrival_s < self.arrived_s:
                self.summary.repair(BACK, line)
            return max(arrival_s, self.arrived_s)
        if not self.made:
            return self.arrived_s
        if row.get("delay") is not None:
            return self.answered_s + time_of(row, "delay") / reader.units_per_s
        return self.answered_s + reader.options.think_s


def _turns_in(row: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the turns of a row and their recorded answers. Raises: RowError."""
    turns = row.get("turns", row.get("prompts"))
    if not isinstance(turns, list):
        raise RowError("turns is no list")
    if not turns:
        raise RowError("session without turns")
    answers = row.get("completions")
    if not isinstance(answers, list) or len(answers) != len(turns):
        answers = [None] * len(turns)
    return turns, answers


def _stamped(turns: list[Any]) -> dict[str, Any]:
    """Return the first turn with a timestamp, or one without."""
    found = (turn for turn in turns if isinstance(turn, dict) and turn.get("timestamp") is not None)
    return next(found, {})


def _first_of(line: Line) -> dict[str, Any]:
    """Return what the clock reads of a session. Raises: RowError."""
    return {"timestamp": _stamped(_turns_in(row_of(line, TraceSummary()))[0]).get("timestamp")}


def _name_of(row: dict[str, Any], line: int) -> str:
    """Return the name of a session."""
    return next((name for key in NAME_KEYS if (name := name_of(row, key))), f"line {line}")


def _message(turn: dict[str, Any], summary: TraceSummary, line: int) -> Message:
    """Return what a turn says as a message; media by their digest."""
    parts: list[Any] = [{"type": "text", "text": turn.get("text")}] if turn.get("text") else []
    texts = turn.get("texts")
    for found in texts if isinstance(texts, list) else ():
        inner = found.get("contents") if isinstance(found, dict) else [found]
        parts += [{"type": "text", "text": t} for t in inner] if isinstance(inner, list) else []
    parts += [{"type": key, key: turn[key]} for key in MEDIA if turn.get(key)]
    (message,) = messages_of(
        [{"role": turn.get("role") or "user", "content": parts}], summary, line
    )
    return message


def _plan(head: Head, options: ReadOptions) -> ReadPlan:
    """Plan the reading of sessions and list what is taken for granted."""
    timed = False
    for row in head.rows[:1]:
        turns = row.get("turns")
        timed = isinstance(turns, list) and bool(_stamped(turns))
    reader = _TurnRows(head, options, timed)
    unit = options.time_unit or "ms (the format's own)"
    when = (
        f"timestamps and delays are in {unit}"
        if timed
        else f"sessions start so that the mean rate is {options.rate_per_s:g} requests/s; "
        f"delays are in {unit}"
    )
    return ReadPlan(
        kind=KeyKind.TOKENS,
        assumptions=(
            when,
            f"a turn without a time comes {options.think_s:g} s after the answer before, which "
            f"takes {OUTPUT_TOKEN_S * 1000:g} ms a token",
            *said_of_text(options),
            said_of_answers(options),
            STAND_INS,
        ),
        rows=reader.stream,
    )


def _holds_turns(row: dict[str, Any]) -> bool:
    """Recognise a session of turns."""
    turns = row.get("turns", row.get("prompts"))
    return isinstance(turns, list) and all(isinstance(turn, str | dict) for turn in turns)


TURNS = TraceFormat(
    name="aiperf",
    title="AIPerf multi-turn sessions, or prompts in turn",
    recognises=_holds_turns,
    plan=_plan,
)
