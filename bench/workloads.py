"""Six seeded shapes of traffic, each a list of (prompt, prompt + output) in arrival order.

W1 a shared system prompt, W2 chats of 8 turns, W3 unique prompts, W4 a branching few-shot
tree, W5 agents up to 32k tokens (one to 128k), W6 the Mooncake conversation trace with one
token a block id.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHAPES", "Turn", "make_workload", "mooncake_ids", "unique_tokens"]

Tokens: TypeAlias = NDArray[np.int64]

_LOWEST_ID, _HIGHEST_ID = 1_000, 128_000


class Turn(NamedTuple):
    """One request."""

    prompt: Tokens
    full: Tokens
    """The prompt followed by the output."""


class _Draw:
    """Random lengths and token ids."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def length(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def ids(self, length: int) -> Tokens:
        return self.rng.integers(_LOWEST_ID, _HIGHEST_ID, size=length, dtype=np.int64)

    def turn(self, start: Tokens, new: int, output: int) -> Turn:
        prompt = np.concatenate((start, self.ids(new)))
        return Turn(prompt, np.concatenate((prompt, self.ids(output))))


def shared_system_prompt(draw: _Draw, scale: float) -> list[Turn]:
    system = draw.ids(2_000)
    return [
        draw.turn(system, draw.length(20, 200), draw.length(50, 150))
        for _ in range(round(5_000 * scale))
    ]


def chats(draw: _Draw, scale: float) -> list[Turn]:
    count = max(1, round(500 * scale))
    history = [draw.ids(500)] * count
    turns = []
    for chat in draw.rng.permutation(np.repeat(np.arange(count), 8)).tolist():
        turn = draw.turn(history[chat], draw.length(100, 200), draw.length(200, 300))
        history[chat] = turn.full
        turns.append(turn)
    return turns


def unique_prompts(draw: _Draw, scale: float) -> list[Turn]:
    nothing = draw.ids(0)
    return [draw.turn(nothing, 1_024, 64) for _ in range(round(4_000 * scale))]


def few_shot_tree(draw: _Draw, scale: float) -> list[Turn]:
    prompts = [draw.ids(0)]
    for _ in range(5):
        prompts = [np.concatenate((p, draw.ids(200))) for p in prompts for _ in range(4)]
    order = draw.rng.permutation(len(prompts)).tolist()[: max(1, round(len(prompts) * scale))]
    return [draw.turn(prompts[number], 0, 20) for number in order]


def agents(draw: _Draw, scale: float) -> list[Turn]:
    steps = [3_200] * max(1, round(200 * scale)) + [12_800]
    history = [draw.ids(500)] * len(steps)
    turns = []
    for agent in draw.rng.permutation(np.repeat(np.arange(len(steps)), 10)).tolist():
        turn = draw.turn(history[agent], steps[agent] - 300, 300)
        history[agent] = turn.full
        turns.append(turn)
    return turns


SHAPES: dict[str, Callable[[_Draw, float], list[Turn]]] = {
    "W1": shared_system_prompt,
    "W2": chats,
    "W3": unique_prompts,
    "W4": few_shot_tree,
    "W5": agents,
}
"""The synthetic ones by name."""


def mooncake_ids(traces_dir: Path) -> list[list[int]] | None:
    """Return the block ids of each request, or None where the trace is absent."""
    path = traces_dir / "mooncake_conversation.jsonl.gz"
    if not path.is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["hash_ids"] for line in lines]


def make_workload(name: str, scale: float, seed: int, traces_dir: Path) -> list[Turn] | None:
    """Return the requests of a workload, or None where its trace is absent."""
    if name == "W6":
        rows = mooncake_ids(traces_dir)
        if rows is None:
            return None
        prompts = [np.array(row, np.int64) for row in rows[: round(len(rows) * scale)]]
        return [Turn(prompt, prompt) for prompt in prompts]
    return SHAPES[name](_Draw(1_000 * seed + int(name[1:])), scale)


def unique_tokens(turns: list[Turn], page_size: int) -> int:
    """Return the tokens in the trie of all whole pages: what an unbounded cache would hold."""
    # Big-endian bytes sort as the ids do, so neighbours share the longest prefixes.
    rows = sorted(
        turn.full[: len(turn.full) // page_size * page_size].astype(">i4").tobytes()
        for turn in turns
    )
    total, before = 0, b""
    for row in rows:
        both = min(len(before), len(row))
        if before[:both] == row[:both]:
            shared = both
        else:
            one, two = (np.frombuffer(side, np.uint8, both) for side in (before, row))
            shared = int(np.argmax(one != two))
        total += len(row) // 4 - shared // 4 // page_size * page_size
        before = row
    return total
