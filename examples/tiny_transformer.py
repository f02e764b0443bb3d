"""A small decoder-only transformer in numpy, with a plain forward pass and one on paged KV.

It shows nothing by itself: ``engine_loop.py`` runs it. Weights come from a seed. Arithmetic is
float64, so that rounding, which depends on how tokens are grouped into matrix products, stays
below 1e-13, while the best two logits differ by far more (``smallest_margin`` says by how much).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["PagedKV", "Shape", "Span", "TinyTransformer"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.integer]
Attend: TypeAlias = Callable[[int, Floats, Floats, Floats], Floats]
"""(layer, queries, keys, values), each [tokens, heads, head width] -> the same shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of the model."""

    layers: int = 2
    heads: int = 4
    width: int = 64
    vocabulary: int = 320
    seed: int = 0


class Span(NamedTuple):
    """Tokens ``[position, position + len(tokens))`` of one request, and its row of page ids."""

    tokens: Ints
    position: int
    row: Ints


class PagedKV:
    """Keys and values of all layers: ``[layers, pages, page_size, heads, head width]``."""

    def __init__(self, shape: Shape, pages: int, page_size: int) -> None:
        size = (shape.layers, pages, page_size, shape.heads, shape.width // shape.heads)
        self.page_size = page_size
        self.keys = np.full(size, np.nan)
        self.values = np.full(size, np.nan)

    def scrub(self, pages: Sequence[int]) -> None:
        """Make what pages hold unusable: whoever reads it gets no number."""
        self.keys[:, pages] = np.nan
        self.values[:, pages] = np.nan

    def write(self, layer: int, where: tuple[Ints, Ints], keys: Floats, values: Floats) -> None:
        """Store new tokens at (page ids, offsets in the page)."""
        self.keys[layer][where] = keys
        self.values[layer][where] = values

    def read(self, layer: int, row: Ints, length: int) -> tuple[Floats, Floats]:
        """Return keys and values of the first ``length`` tokens of a row."""
        pages = row[: -(-length // self.page_size)]
        tail = self.keys.shape[3:]
        keys = self.keys[layer, pages].reshape(-1, *tail)[:length]
        return keys, self.values[layer, pages].reshape(-1, *tail)[:length]


class _Layer(NamedTuple):
    qkv: Floats
    out: Floats
    up: Floats
    down: Floats


class TinyTransformer:
    """RMS norm, rotary positions, causal attention, a ReLU layer, an output head of its own."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        rng = np.random.default_rng(shape.seed)
        width = shape.width

        def weights(inputs: int, outputs: int, gain: float = 1.0) -> Floats:
            return rng.normal(0, gain / inputs**0.5, (inputs, outputs))

        self._embedding = rng.standard_normal((shape.vocabulary, width))
        # Large gains: attention is sharp, so an answer depends on single tokens far back.
        self._layers = [
            _Layer(
                np.hstack([weights(width, 2 * width, 1.8), weights(width, width, 2.0)]),
                weights(width, width, 2.0),
                weights(width, 4 * width),
                weights(4 * width, width),
            )
            for _ in range(shape.layers)
        ]
        self._head = weights(width, shape.vocabulary)
        half = width // shape.heads // 2
        self._frequencies = 1000.0 ** (-np.arange(half) / half)
        self.smallest_margin = np.inf
        """Least difference between the best two logits of a sampled token so far."""

    def next_token(self, tokens: Sequence[int]) -> int:
        """Return the greedy next token by a plain pass over the whole sequence: no KV is kept."""
        ids = np.asarray(tokens)
        hidden = self._run(ids, np.arange(len(ids)), lambda _, q, k, v: _attention(q, k, v))
        return int(self._greedy(hidden[-1:])[0])

    def next_tokens(self, spans: Sequence[Span], kv: PagedKV) -> Ints:
        """Run one batch on paged KV; return the greedy token after each span.

        Each layer writes the KV of all spans before any span reads: a span may rely on pages
        that another span of the same batch fills. Attention runs one request at a time.
        """
        positions = np.concatenate([s.position + np.arange(len(s.tokens)) for s in spans])
        pages = np.concatenate(
            [s.row[(s.position + np.arange(len(s.tokens))) // kv.page_size] for s in spans]
        )
        where = (pages, positions % kv.page_size)
        bounds = np.cumsum([0, *(len(s.tokens) for s in spans)])

        def attend(layer: int, queries: Floats, keys: Floats, values: Floats) -> Floats:
            kv.write(layer, where, keys, values)
            return np.concatenate(
                [
                    _attention(
                        queries[start:stop],
                        *kv.read(layer, span.row, span.position + len(span.tokens)),
                    )
                    for span, (start, stop) in zip(spans, pairwise(bounds), strict=True)
                ]
            )

        hidden = self._run(np.concatenate([s.tokens for s in spans]), positions, attend)
        return self._greedy(hidden[bounds[1:] - 1])

    def _run(self, tokens: Ints, positions: Ints, attend: Attend) -> Floats:
        """Return the last hidden states of the tokens."""
        heads = (len(tokens), 3, self.shape.heads, -1)
        x = self._embedding[tokens]
        for number, layer in enumerate(self._layers):
            queries, keys, values = (_norm(x) @ layer.qkv).reshape(heads).swapaxes(0, 1)
            queries, keys = self._rotate(queries, positions), self._rotate(keys, positions)
            x = x + attend(number, queries, keys, values).reshape(x.shape) @ layer.out
            x = x + np.maximum(_norm(x) @ layer.up, 0) @ layer.down
        return _norm(x)

    def _rotate(self, x: Floats, positions: Ints) -> Floats:
        angles = positions[:, None, None] * self._frequencies
        cosine, sine = np.cos(angles), np.sin(angles)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)

    def _greedy(self, hidden: Floats) -> Ints:
        logits = hidden @ self._head
        second, best = np.partition(logits, -2, axis=-1)[:, -2:].T
        self.smallest_margin = min(self.smallest_margin, float((best - second).min()))
        greedy: Ints = logits.argmax(axis=-1)
        return greedy


def _norm(x: Floats) -> Floats:
    scale: Floats = np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    return x / scale


def _attention(queries: Floats, keys: Floats, values: Floats) -> Floats:
    """Causal attention of the last ``len(queries)`` of ``len(keys)`` tokens."""
    new, length = len(queries), len(keys)
    scores = queries.transpose(1, 0, 2) @ keys.transpose(1, 2, 0)
    scores *= queries.shape[-1] ** -0.5
    if new > 1:
        scores[:, np.triu(np.ones((new, length), bool), length - new + 1)] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return (scores @ values.transpose(1, 0, 2)).transpose(1, 0, 2)
