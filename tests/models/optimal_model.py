"""C* by its definition, over sets of tuples: slow and obvious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from radixcache import PrefixKey
from scheduler.request import Request

__all__ = ["Ask", "as_request", "slow_optimum"]


@dataclass(frozen=True)
class Ask:
    """A prompt, its output, and a cap on what it may match."""

    prompt: tuple[int, ...]
    output: tuple[int, ...] = ()
    max_match_tokens: int | None = None

    def cap(self, page: int) -> int:
        n = len(self.prompt)
        cap = (n - 1) // page * page if n else 0
        if self.max_match_tokens is not None:
            cap = min(cap, self.max_match_tokens // page * page)
        return cap

    def computed(self) -> tuple[int, ...]:
        return self.prompt + self.output[:-1]


def as_request(ask: Ask, rid: int = 0) -> Request:
    return Request(
        rid=str(rid),
        key=PrefixKey(ask.prompt),
        prompt_tokens=len(ask.prompt),
        max_new_tokens=8,
        max_match_tokens=ask.max_match_tokens,
        recorded_output_ids=ask.output or None,
    )


def slow_optimum(
    asks: Sequence[Ask], page: int, *, outputs: bool = False, warm: Iterable[tuple[int, ...]] = ()
) -> int:
    asked: set[tuple[int, ...]] = set()
    held: set[tuple[int, ...]] = set()
    forced: Counter[tuple[int, ...]] = Counter()
    tails = 0
    for key in warm:
        held.update(key[:end] for end in range(page, len(key) + 1, page))
    for ask in asks:
        n = len(ask.prompt)
        tails += n % page
        for end in range(page, n + 1, page):
            asked.add(ask.prompt[:end])
            forced[ask.prompt[:end]] += end > ask.cap(page)
        if outputs:
            whole = ask.computed()
            held.update(whole[:end] for end in range(page, len(whole) + 1, page) if end > n)
    return tails + page * sum(max(forced[v], 0 if v in held else 1) for v in asked)
