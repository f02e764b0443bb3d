"""Sessions: turns that follow each other, and their flattening into recorded arrivals.

A plan keeps what a turn adds, not whole prompts: n turns take O(n) memory. A closed-loop
replay asks for the next turn's request when the answer before is there; ``open_loop`` makes
requests with fixed arrivals of it instead, and states what it assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from itertools import pairwise

import numpy as np

from radixcache import DEFAULT_NAMESPACE, KeyKind, Namespace, PrefixKey
from radixcache.errors import InvalidInputError
from scheduler.request import CacheOutput, Request

__all__ = [
    "OPEN_LOOP",
    "OUTPUT_TOKEN_S",
    "SessionPlan",
    "Turn",
    "merged",
    "open_loop",
    "sessions_of",
]

OUTPUT_TOKEN_S = 0.03
OPEN_LOOP = (
    "arrivals are fixed: the next turn comes a think time after an answer that takes "
    f"{OUTPUT_TOKEN_S * 1000:g} ms a token, whatever the replayed server does"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of a session: what it adds to the history, and its recorded answer."""

    added: bytes
    """Prompt tokens after the history, packed as in ``PrefixKey.data``."""
    output: bytes | None
    """The answer's tokens, packed; part of the next turn's history. None when not recorded."""
    think_s: float
    """From the answer before to this turn; 0 for the first."""
    max_new_tokens: int
    keep_tokens: int | None = None
    """How much of the history is kept; None is all of it."""
    output_tokens: int | None = None
    """The length of the answer, where only that was recorded."""
    cache_output: CacheOutput = "all"
    visible_tokens: int | None = None
    max_match_tokens: int | None = None
    samples: int = 1
    abort_after_s: float | None = None
    abort_after_tokens: int | None = None
    """As in ``Request``, these six."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """The turns of one client, to be sent one after another."""

    session_id: str
    start_s: float
    turns: tuple[Turn, ...]
    namespace: Namespace = DEFAULT_NAMESPACE
    client_id: str | None = None
    priority: int = 0

    def request(self, turn: int, arrival_s: float) -> Request:
        """Make the request of a turn (from 0). Cost: O(its history)."""
        data = b""
        for before, after in pairwise(self.turns[: turn + 1]):
            data = _kept(data + before.added + (before.output or b""), after)
        return self._made(turn, data, arrival_s)

    def requests(self, output_token_s: float = OUTPUT_TOKEN_S) -> Iterator[Request]:
        """Yield the requests of all turns with the arrivals of ``open_loop``."""
        data = b""
        arrival_s = self.start_s
        for index, turn in enumerate(self.turns):
            if index:
                data = _kept(data, turn)
                arrival_s += turn.think_s
            request = self._made(index, data, arrival_s)
            yield request
            data = request.key.data + (turn.output or b"")
            arrival_s += (request.recorded_output_tokens or 0) * output_token_s

    def _made(self, index: int, history: bytes, arrival_s: float) -> Request:
        """Make a turn's request after its history."""
        turn = self.turns[index]
        key = PrefixKey.from_packed(history + turn.added, KeyKind.TOKENS, self.namespace)
        output_ids = None
        if turn.output is not None:
            output_ids = tuple(np.frombuffer(turn.output, dtype="<u4").tolist())
        return Request(
            rid=f"{self.session_id}/{index + 1}",
            key=key,
            prompt_tokens=len(key),
            max_new_tokens=turn.max_new_tokens,
            arrival_s=arrival_s,
            priority=self.priority,
            client_id=self.client_id,
            session_id=self.session_id,
            cache_output=turn.cache_output,
            visible_tokens=turn.visible_tokens,
            max_match_tokens=turn.max_match_tokens,
            samples=turn.samples,
            abort_after_s=turn.abort_after_s,
            abort_after_tokens=turn.abort_after_tokens,
            recorded_output_tokens=turn.output_tokens if output_ids is None else len(output_ids),
            recorded_output_ids=output_ids,
        )


def _kept(history: bytes, turn: Turn) -> bytes:
    """Return the part of the history that a turn keeps."""
    return history if turn.keep_tokens is None else history[: 4 * turn.keep_tokens]


def open_loop(
    sessions: Iterable[SessionPlan], *, output_token_s: float = OUTPUT_TOKEN_S
) -> Iterator[Request]:
    """Merge sessions, given by start time, into requests by arrival; ties by session.

    A turn arrives ``think_s`` after the answer before, which takes ``output_token_s`` a
    token. Memory: the sessions that are alive at one time. Cost: O(n log sessions).
    Raises: InvalidInputError when the starts go back in time.
    """

    def streams() -> Iterator[tuple[float, Iterator[Request]]]:
        latest_s = 0.0
        for session in sessions:
            if session.start_s < latest_s:
                raise InvalidInputError(
                    f"session {session.session_id} starts before the one before it"
                )
            latest_s = session.start_s
            yield latest_s, session.requests(output_token_s)

    return merged(streams())


def merged(streams: Iterable[tuple[float, Iterator[Request]]]) -> Iterator[Request]:
    """Merge streams of requests, given by start time, into one by arrival; ties by stream.

    A stream is asked for its first request when its start has come, so memory is that of
    the streams alive at one time. Cost: O(n log streams).
    """
    alive: list[tuple[float, int, Request, Iterator[Request]]] = []
    for order, (start_s, stream) in enumerate(streams):
        while alive and alive[0][0] < start_s:
            yield _step(alive)
        first = next(stream, None)
        if first is not None:
            heappush(alive, (first.arrival_s, order, first, stream))
    while alive:
        yield _step(alive)


def _step(alive: list[tuple[float, int, Request, Iterator[Request]]]) -> Request:
    """Take the earliest request out and put its stream's next one in."""
    _, order, request, stream = alive[0]
    following = next(stream, None)
    if following is None:
        heappop(alive)
    else:
        heapreplace(alive, (following.arrival_s, order, following, stream))
    return request


def sessions_of(
    requests: Iterable[Request], *, output_token_s: float = OUTPUT_TOKEN_S
) -> list[SessionPlan]:
    """Group recorded requests into sessions again; one without a session is its own.

    The think time is what remains of the gap between two arrivals after an answer of
    ``output_token_s`` a token, at least 0. An answer whose ids were not recorded stays so.
    Raises: InvalidInputError when a key holds no token ids of 4 bytes.
    """
    plans: dict[str, SessionPlan] = {}
    whole: dict[str, tuple[bytes, float]] = {}
    for request in requests:
        key = request.key
        if key.kind is not KeyKind.TOKENS:
            raise InvalidInputError(f"request {request.rid} has a {key.kind.value} key, no tokens")
        output = None
        if request.recorded_output_ids is not None:
            output = np.array(request.recorded_output_ids, dtype="<u4").tobytes()
        name = request.session_id or request.rid
        plan = plans.get(name)
        if plan is None:
            plan = SessionPlan(
                session_id=name,
                start_s=request.arrival_s,
                turns=(),
                namespace=key.namespace,
                client_id=request.client_id,
                priority=request.priority,
            )
            keep, think_s = 0, 0.0
        else:
            history, answered_s = whole[name]
            before = PrefixKey.from_packed(history, KeyKind.TOKENS, plan.namespace)
            keep = key.common_prefix_tokens(before) if key.namespace == plan.namespace else 0
            think_s = max(0.0, request.arrival_s - answered_s)
        turn = Turn(
            added=key.data[4 * keep :],
            output=output,
            think_s=think_s,
            max_new_tokens=request.max_new_tokens,
            keep_tokens=keep,
            output_tokens=request.recorded_output_tokens,
            cache_output=request.cache_output,
            visible_tokens=request.visible_tokens,
            max_match_tokens=request.max_match_tokens,
            samples=request.samples,
            abort_after_s=request.abort_after_s,
            abort_after_tokens=request.abort_after_tokens,
        )
        plans[name] = replace(plan, turns=(*plan.turns, turn))
        answered_s = request.arrival_s + (request.recorded_output_tokens or 0) * output_token_s
        whole[name] = (key.data + (output or b""), answered_s)
    return sorted(plans.values(), key=lambda plan: plan.start_s)
