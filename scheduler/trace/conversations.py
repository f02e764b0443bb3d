"""Conversations to sessions: turn n's prompt is the whole history before its answer.

The rows of a conversation are its answers, and the messages after the last one: each gives
one request, or is skipped with its reason. The recorded answer and its end mark are the
output, so that the next prompt is this prompt, the output and what was said since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from scheduler.request import Request
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.messages import ANSWER, Message
from scheduler.trace.sessions import SessionPlan, Turn
from scheduler.trace.summary import TraceSummary

__all__ = ["nominal_arrivals", "placed_turns", "turns_of"]

EMPTY = "empty conversation"
EMPTY_ANSWER = "empty answer"
EMPTY_MESSAGE = "empty message dropped"
LEADING_ANSWER = "answer without a prompt before it"
SECOND_ANSWER = "answer right after an answer: its prompt ends with the first one"


def turns_of(
    messages: Sequence[Message],
    encoder: ChatEncoder,
    summary: TraceSummary,
    number: int,
    *,
    max_new_tokens: int,
    think_s: float,
) -> tuple[Turn, ...]:
    """Return a turn for each answer, and one without output for what follows the last.

    Every answer and every unanswered end is counted once. A conversation without any of
    them counts as one skipped row. Cost: O(text).
    """
    placed = placed_turns(
        messages, encoder, summary, number, max_new_tokens=max_new_tokens, think_s=think_s
    )
    return tuple(turn for _, turn in placed)


def placed_turns(
    messages: Sequence[Message],
    encoder: ChatEncoder,
    summary: TraceSummary,
    number: int,
    *,
    max_new_tokens: int,
    think_s: float,
) -> list[tuple[int, Turn]]:
    """Return what ``turns_of`` does, each with the place of its answer among the messages.

    The place of a turn without an answer is the number of messages.
    """
    rows_before = summary.rows
    turns: list[tuple[int, Turn]] = []
    added = b""
    # Has anything been asked since the last answer that was kept; since any answer?
    asked = open_end = False

    def take(place: int, output: bytes | None) -> None:
        turn = Turn(
            added=added + encoder.header(ANSWER),
            output=output,
            think_s=think_s if turns else 0.0,
            max_new_tokens=max(max_new_tokens, len(output or b"") // 4),
        )
        turns.append((place, turn))
        summary.took()

    for place, message in enumerate(messages):
        blank = not message.text.strip()
        if message.role != ANSWER:
            if blank:
                summary.repair(EMPTY_MESSAGE, number)
                continue
            added += encoder.message(message.role, message.text)
            asked = open_end = True
            continue
        open_end = False
        if not turns and not asked:
            summary.skip(LEADING_ANSWER, number)
        elif blank:
            summary.skip(EMPTY_ANSWER, number)
        else:
            if not asked:
                summary.repair(SECOND_ANSWER, number)
            take(place, encoder.text(message.text) + encoder.end)
            added = encoder.between
            asked = False
    if open_end:
        take(len(messages), None)
    if summary.rows == rows_before:
        summary.skip(EMPTY, number)
    return turns


def nominal_arrivals(
    sessions: Iterable[SessionPlan], *, rate_per_s: float, think_s: float
) -> Iterator[Request]:
    """Give arrivals to sessions without times: one request every ``1 / rate_per_s``.

    It is the turn that has waited longest among the sessions whose turn before is at least
    ``think_s`` ago; when there is none, a new session starts. So turns interleave, and at
    most ``rate_per_s * think_s + 1`` sessions are held. Cost: O(n log sessions).
    """
    gap_s = 1 / rate_per_s
    now_s = 0.0
    source = enumerate(sessions)
    waiting: list[tuple[float, int, Iterator[Request]]] = []
    while True:
        if waiting and waiting[0][0] <= now_s:
            _, order, turns = heappop(waiting)
        elif (started := next(source, None)) is not None:
            order, turns = started[0], started[1].requests()
        elif waiting:
            ready_s, order, turns = heappop(waiting)
            now_s = max(now_s, ready_s)
        else:
            return
        request = next(turns, None)
        if request is not None:
            yield replace(request, arrival_s=now_s)
            heappush(waiting, (now_s + think_s, order, turns))
            now_s += gap_s
