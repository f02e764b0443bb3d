"""ShareGPT-shaped conversations with every quirk of the real files, drawn from a seed.

As a file (``sharegpt_json``) it is a pretty-printed array for the ShareGPT reader; as a
workload (``sharegpt_like``) the same records go through that reader's code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scheduler.trace.assumed import said_of_tokenizer
from scheduler.trace.formats import ReadOptions
from scheduler.trace.sessions import OPEN_LOOP, SessionPlan
from scheduler.trace.sharegpt import sessions_from
from scheduler.trace.source import Line
from scheduler.trace.summary import TraceSummary
from scheduler.trace.workload import Workload, check_sizes, poisson

__all__ = ["sharegpt_json", "sharegpt_like", "sharegpt_records"]

SYLLABLES = "ka lo mi ren ta su vel dor in pa qui sto ne fra ul be ghi mo zan er"
WORDS = 3000
MEAN_TURNS = 5.0
ROLES = (("human", "gpt"),) * 40 + (("user", "chatgpt"), ("user", "assistant"), ("human", "bing"))


class _Words:
    """Draws text: made-up words, common ones more often."""

    __slots__ = ("rng", "weights", "words")

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        syllables = SYLLABLES.split()
        counts = rng.integers(1, 4, WORDS)
        self.words = [
            "".join(syllables[i] for i in rng.integers(0, len(syllables), count))
            for count in counts
        ]
        weights = np.arange(1, WORDS + 1, dtype=np.float64) ** -0.9
        self.weights = np.cumsum(weights / weights.sum())

    def text(self, mean_words: int) -> str:
        """Return some sentences, an exponential number of words."""
        count = 1 + int(self.rng.exponential(mean_words))
        chosen = np.searchsorted(self.weights, self.rng.random(count))
        words = [self.words[min(i, WORDS - 1)] for i in chosen.tolist()]
        sentences = [" ".join(words[i : i + 12]).capitalize() for i in range(0, count, 12)]
        return ". ".join(sentences) + "."


def sharegpt_records(seed: int, *, conversations: int = 600) -> Iterator[dict[str, Any]]:
    """Yield records as of a ShareGPT file; a long conversation gives several.

    About a third of the records are later chunks of a conversation that was cut, most of
    them starting with an answer; a few chunks are missing, so that their rest has no start.
    Under 1 % each are empty, single messages, blank values, doubled roles and ids used
    twice; some have other role names, a system message, tools. Raises: ConfigError.
    """
    check_sizes(seed, rate_per_s=1.0, conversations=conversations)
    rng = np.random.default_rng(seed)
    words = _Words(rng)
    systems = [words.text(120) for _ in range(6)]
    tools = [json.dumps([{"name": words.words[i], "description": words.text(30)}]) for i in (7, 8)]
    for index in range(conversations):
        name = f"c{index if rng.random() > 0.003 else index // 2}"
        if rng.random() < 0.007:
            yield {"id": f"{name}_0", "conversations": []}
            continue
        messages = _messages(rng, words)
        top: dict[str, Any] = {}
        if rng.random() < 0.15:
            messages.insert(0, {"from": "system", "value": systems[int(rng.integers(6))]})
        elif rng.random() < 0.05:
            top["tools"] = tools[int(rng.integers(2))]
        start = 0
        while start < len(messages):
            length = 2 * int(rng.integers(2, 7)) + (start == 0)
            if not start or rng.random() > 0.05:
                chunk = messages[start : start + length]
                yield {"id": f"{name}_{start}", "conversations": chunk} | top
            start += length


def _messages(rng: np.random.Generator, words: _Words) -> list[dict[str, str]]:
    """Draw the messages of one conversation."""
    asks, answers = ROLES[int(rng.integers(len(ROLES)))]
    messages = []
    for _ in range(int(rng.geometric(1 / MEAN_TURNS))):
        messages.append({"from": asks, "value": words.text(45)})
        messages.append({"from": answers, "value": words.text(160)})
    odd = float(rng.random())
    if odd < 0.008:
        del messages[1:]
    elif odd < 0.016:
        messages[int(rng.integers(len(messages)))]["value"] = ""
    elif odd < 0.020:
        messages.append({"from": answers, "value": words.text(20)})
    return messages


def sharegpt_json(seed: int, *, conversations: int = 600) -> Iterator[bytes]:
    """Yield the lines of a ShareGPT file: a pretty-printed JSON array of the records."""
    before = "[\n"
    for record in sharegpt_records(seed, conversations=conversations):
        text = json.dumps(record, indent=2, ensure_ascii=False)
        yield (before + "  " + text.replace("\n", "\n  ")).encode()
        before = ",\n"
    yield b"\n]\n"


def sharegpt_like(
    seed: int,
    *,
    conversations: int = 600,
    think_s: float = 30.0,
    rate_per_s: float = 1.0,
    options: ReadOptions | None = None,
) -> Workload:
    """Make the records of ``sharegpt_records`` a workload of sessions.

    Conversations start as a Poisson process, think times are exponential. Raises:
    ConfigError.
    """
    check_sizes(seed, rate_per_s=rate_per_s, think_s=think_s, conversations=conversations)
    options = options or ReadOptions()

    def plan(summary: TraceSummary) -> Iterator[SessionPlan]:
        records = sharegpt_records(seed, conversations=conversations)
        lines: Iterator[Line] = (
            (number, json.dumps(record).encode(), True)
            for number, record in enumerate(records, start=1)
        )
        rng = np.random.default_rng([seed, 1])
        start_s = 0.0
        for session in sessions_from(lines, options, summary):
            start_s += float(rng.exponential(MEAN_TURNS / rate_per_s))
            thinks_s = rng.exponential(think_s, len(session.turns)).tolist()
            turns = tuple(
                replace(turn, think_s=thinks_s[index] if index else 0.0)
                for index, turn in enumerate(session.turns)
            )
            yield replace(session, start_s=start_s, turns=turns)

    return Workload(
        format="sharegpt-like",
        title=f"{conversations} ShareGPT-shaped conversations",
        assumptions=(
            poisson("conversations", MEAN_TURNS / rate_per_s),
            f"think times are exponential with mean {think_s:g} s",
            OPEN_LOOP,
            said_of_tokenizer(options),
            f"every request asks for up to {options.max_new_tokens} new tokens",
        ),
        plan=plan,
    )
