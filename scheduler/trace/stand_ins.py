"""Answers that were not recorded: ids that stand in for them, and the sessions they join."""

from __future__ import annotations

from dataclasses import replace
from hashlib import shake_128
from typing import Any

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request
from scheduler.trace.summary import RowError

__all__ = ["STAND_INS", "TEXT_SESSIONS", "TextSessions", "stand_in"]

LONGEST = 1 << 20
STAND_INS = (
    "an answer that is not recorded is stood in for by ids that nobody else has, as many as its "
    "output_length says; by none where that is missing"
)
TEXT_SESSIONS = "a text_input goes on after the texts and answers of its session before"


def stand_in(name: str, tokens: int) -> bytes:
    """Return the packed ids of an answer of so many tokens; the same name gives the same.

    Raises: RowError when it is too long to be held.
    """
    if tokens > LONGEST:
        raise RowError("output_length is out of range", tokens)
    return shake_128(name.encode(errors="replace")).digest(4 * tokens)


class TextSessions:
    """Puts the ``text_input`` rows of a session behind each other, as AIPerf sends them.

    Memory: the last prompt and answer of each session.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, bytes]] = {}

    def joined(self, request: Request, row: dict[str, Any]) -> Request:
        """Return the request of a row with all of its session before it. Raises: RowError."""
        session = request.session_id
        if session is None or not isinstance(row.get("text_input"), str):
            return request
        turn, history = self._held.get(session, (0, b""))
        key = PrefixKey.from_packed(
            history + request.key.data, KeyKind.TOKENS, request.key.namespace
        )
        output = None
        if request.recorded_output_tokens is not None:
            output = stand_in(f"{session}/{turn}", request.recorded_output_tokens)
        self._held[session] = (turn + 1, key.data + (output or b""))
        if output is None:
            return replace(request, key=key, prompt_tokens=len(key))
        ids = tuple(PrefixKey.from_packed(output, KeyKind.TOKENS).tokens())
        return replace(request, key=key, prompt_tokens=len(key), recorded_output_ids=ids)
