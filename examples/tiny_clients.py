"""The clients of ``engine_loop.py``, and what the model answers them without any engine.

It shows nothing by itself. Clients are closed loops: the next prompt goes out when the last
answer has ended. A chat's prompt is the whole history; a few-shot prompt is a system prompt, a
set of examples and a question. Some answers are hung up on, before or after their first token.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from tiny_transformer import Shape, TinyTransformer

__all__ = ["FULL", "SMALL", "STOP_TOKENS", "Client", "Reference", "Sizes", "Talk", "make_clients"]

STOP_TOKENS = 8
"""The ids below this end an answer."""

Talk: TypeAlias = Generator[list[int], list[int], None]
"""Yields prompts and takes the answer to each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the model and the traffic are."""

    shape: Shape
    clients: int = 6
    turns: int = 4
    system_tokens: int = 64
    example_tokens: int = 192
    question_tokens: int = 32
    max_new_tokens: int = 32
    page_size: int = 8
    chunk_tokens: int = 128

    def largest_pages(self, client: Client) -> int:
        """Return the pages of the longest prompt this client can send, with its answer."""
        asked = len(client.prefix) + self.max_new_tokens
        if client.chat:
            asked += sum(map(len, client.questions)) + (self.turns - 1) * self.max_new_tokens
        else:
            asked += max(map(len, client.questions))
        return -(-asked // self.page_size)


FULL = Sizes(shape=Shape())
SMALL = Sizes(
    shape=Shape(width=32),
    clients=6,
    turns=3,
    system_tokens=16,
    example_tokens=36,
    question_tokens=12,
    max_new_tokens=20,
    page_size=4,
    chunk_tokens=24,
)


class Client(NamedTuple):
    """Sends one prompt after another: the chat so far, or its examples, and a question."""

    name: str
    prefix: list[int]
    questions: list[list[int]]
    chat: bool
    hangs_up_after: list[int | None]
    """Tokens of each answer after which it is aborted; None: it is read to its end. 0 means while
    it waits or its first batch is in flight: with one batch at a time a token may have come."""

    def talk(self) -> Talk:
        """Return the talk of this client, from its start."""
        history = self.prefix
        for question in self.questions:
            prompt = history + question
            answer = yield prompt
            if self.chat:
                history = prompt + answer


def make_clients(sizes: Sizes, *, chat: bool, hang_ups: bool) -> list[Client]:
    """Return clients that share two system prompts, each with two sets of examples."""
    rng = np.random.default_rng(7)

    def draw(length: int) -> list[int]:
        tokens: list[int] = rng.integers(0, sizes.shape.vocabulary, length).tolist()
        return tokens

    systems = [draw(sizes.system_tokens) for _ in range(2)]
    prefixes = systems if chat else [s + draw(sizes.example_tokens) for s in systems * 2]
    clients = []
    for index in range(sizes.clients):
        lengths = rng.integers(sizes.question_tokens // 2, sizes.question_tokens + 1, sizes.turns)
        limits: list[int | None] = [None] * sizes.turns
        if hang_ups:
            limits = [(0, 1, 5, None, None, None, None)[int(rng.integers(7))] for _ in limits]
        questions = [draw(int(length)) for length in lengths]
        prefix = prefixes[index % len(prefixes)]
        clients.append(Client(f"client {index}", prefix, questions, chat, limits))
    return clients


class Reference:
    """Answers the same clients by plain full passes of the model, one token at a time."""

    def __init__(self, model: TinyTransformer, max_new_tokens: int) -> None:
        self._model = model
        self._max_new_tokens = max_new_tokens
        self._answers: dict[tuple[int, ...], list[int]] = {}

    def serve(self, clients: Sequence[Client]) -> dict[str, list[int]]:
        answers = {}
        for client in clients:
            talk = client.talk()
            prompt = next(talk)
            for turn, limit in enumerate(client.hangs_up_after):
                answer = self.answer(prompt)[:limit]
                answers[f"{client.name}.{turn}"] = answer
                if turn + 1 < len(client.questions):
                    prompt = talk.send(answer)
        return answers

    def answer(self, prompt: Sequence[int]) -> list[int]:
        """Return the greedy answer. Scenarios ask alike, so each prompt is computed once."""
        key = tuple(prompt)
        if key not in self._answers:
            answer: list[int] = []
            while len(answer) < self._max_new_tokens:
                answer.append(self._model.next_token([*prompt, *answer]))
                if answer[-1] < STOP_TOKENS:
                    break
            self._answers[key] = answer
        return self._answers[key]
