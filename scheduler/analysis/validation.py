"""Validation: the cached tokens that a server reports beside those a lookup replay predicts.

Predicted is a cache without a queue: each request finds what every request before it left, in
whole pages and with one token of its prompt left to compute, and its answer is cached when it
ended. A server finds less where requests with the same prefix run at the same time, and where
running requests take the memory that the replay gives to the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from statistics import fmean
from textwrap import wrap

from scheduler.lookup_cache import LookupCache
from scheduler.optimal import computed_key
from scheduler.report.document import json_text
from scheduler.report.html.text import printable
from scheduler.request import Request

__all__ = [
    "Measured",
    "RequestCheck",
    "Validation",
    "checks_of",
    "format_validation",
    "predicted_tokens",
    "validation_json",
]

_WORST = 5
_ROUNDING = 1e-9
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One request and what the server said of it."""

    request: Request
    prompt_tokens: int
    """By the server's tokenizer."""
    cached_tokens: int
    ended_s: float | None = None
    """When its answer was whole; None: before the next request."""


@dataclass(frozen=True, slots=True)
class RequestCheck:
    """One request: the server's count beside ours, both in the server's tokens."""

    rid: str
    prompt_tokens: int
    reported_tokens: int
    predicted_tokens: int

    @property
    def error_tokens(self) -> int:
        """Predicted less reported."""
        return self.predicted_tokens - self.reported_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Totals of both, and each request where the server told them one by one."""

    definition: str
    """What the server counts."""
    page_size: int
    capacity_tokens: int | None
    """None: unbounded."""
    cached_outputs: bool
    tolerance_points: float
    requests: int
    reported_prompt_tokens: int
    reported_cached_tokens: int
    predicted_prompt_tokens: int
    predicted_cached_tokens: int
    checks: tuple[RequestCheck, ...] = ()
    """Empty where only totals are known."""
    notes: tuple[str, ...] = ()

    @property
    def reported_hit_rate(self) -> float:
        """Cached of all prompt tokens, as the server counted; 0 for none."""
        return self.reported_cached_tokens / max(self.reported_prompt_tokens, 1)

    @property
    def predicted_hit_rate(self) -> float:
        """Cached of all prompt tokens, as predicted; 0 for none."""
        return self.predicted_cached_tokens / max(self.predicted_prompt_tokens, 1)

    @property
    def difference_points(self) -> float:
        """Predicted less reported, in percentage points."""
        return 100 * (self.predicted_hit_rate - self.reported_hit_rate)

    @property
    def agrees(self) -> bool:
        """Whether the totals differ by no more than the tolerance."""
        return abs(self.difference_points) <= self.tolerance_points + _ROUNDING


def predicted_tokens(
    requests: Iterable[tuple[Request, float | None]],
    page_size: int,
    *,
    capacity_pages: int | None,
    policy: str,
    cache_outputs: bool,
) -> list[int]:
    """Return the tokens that each request hits, in the order given.

    Each comes with the time its answer was whole; None is before the next request. Prompts
    are cached at once. Cost: as ``lookup_replay``; memory: the answers still to come.
    """
    cache = LookupCache(page_size, capacity_pages=capacity_pages, policy=policy, last_token=True)
    ending: list[tuple[float, int, Request]] = []
    hits = []
    for place, (request, ended_s) in enumerate(requests):
        while ending and ending[0][0] <= request.arrival_s:
            _leave_answer(cache, heappop(ending)[2])
        hits.append(cache.serve(request))
        if not cache_outputs:
            continue
        if ended_s is None:
            _leave_answer(cache, request)
        else:
            heappush(ending, (ended_s, place, request))
    return hits


def _leave_answer(cache: LookupCache, request: Request) -> None:
    whole = computed_key(request)
    if whole is not None:
        cache.serve(replace(request, key=whole, prompt_tokens=len(whole)))


def checks_of(measured: Sequence[Measured], hits: Sequence[int]) -> tuple[RequestCheck, ...]:
    """Return each request's counts; a prediction by another tokenizer keeps its share."""
    checks = []
    for row, hit in zip(measured, hits, strict=True):
        own = row.request.prompt_tokens
        predicted = hit if own == row.prompt_tokens else round(hit / own * row.prompt_tokens)
        checks.append(
            RequestCheck(row.request.rid, row.prompt_tokens, row.cached_tokens, predicted)
        )
    return tuple(checks)


def validation_json(validation: Validation, **more: object) -> str:
    """Return it as JSON, and what more there is to say."""
    document = {
        **more,
        "definition": validation.definition,
        "page_size": validation.page_size,
        "capacity_tokens": validation.capacity_tokens,
        "cached_outputs": validation.cached_outputs,
        "requests": validation.requests,
        "reported": _totals(
            validation.reported_prompt_tokens,
            validation.reported_cached_tokens,
            validation.reported_hit_rate,
        ),
        "predicted": _totals(
            validation.predicted_prompt_tokens,
            validation.predicted_cached_tokens,
            validation.predicted_hit_rate,
        ),
        "difference_points": validation.difference_points,
        "tolerance_points": validation.tolerance_points,
        "agrees": validation.agrees,
        "checks": [
            {
                "rid": check.rid,
                "prompt_tokens": check.prompt_tokens,
                "reported_tokens": check.reported_tokens,
                "predicted_tokens": check.predicted_tokens,
            }
            for check in validation.checks
        ],
    }
    return json_text(document)


def _totals(prompt: int, cached: int, rate: float) -> dict[str, float]:
    return {"prompt_tokens": prompt, "cached_tokens": cached, "hit_rate": rate}


def format_validation(validation: Validation) -> str:
    """Return it as plain text for people."""
    memory = "unbounded KV memory"
    if validation.capacity_tokens is not None:
        memory = f"{validation.capacity_tokens:,} tokens of KV memory"
    outputs = "cached" if validation.cached_outputs else "not cached"
    lines = [
        f"{validation.requests:,} requests; predicted with {memory}, pages of "
        f"{validation.page_size}, outputs {outputs}",
        "",
        f"{'':<11}{'prompt tokens':>16}{'cached tokens':>16}{'hit rate':>12}",
    ]
    for name, prompt, cached, rate in (
        (
            "reported",
            validation.reported_prompt_tokens,
            validation.reported_cached_tokens,
            validation.reported_hit_rate,
        ),
        (
            "predicted",
            validation.predicted_prompt_tokens,
            validation.predicted_cached_tokens,
            validation.predicted_hit_rate,
        ),
    ):
        lines.append(f"{name:<11}{prompt:>16,}{cached:>16,}{100 * rate:>10.2f} %")
    verdict = "within" if validation.agrees else "OUTSIDE"
    lines.append(
        f"difference {validation.difference_points:+.2f} points: {verdict} the tolerance of "
        f"{validation.tolerance_points:g}"
    )
    if validation.checks:
        lines += ["", *_by_request(validation)]
    lines.append("")
    for line in (f"reported is {validation.definition}", *(f"note: {n}" for n in validation.notes)):
        lines += wrap(line, _WIDTH, subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def _by_request(validation: Validation) -> list[str]:
    checks = validation.checks
    errors = [abs(check.error_tokens) for check in checks]
    exact = 100 * sum(error == 0 for error in errors) / len(errors)
    near = 100 * sum(error <= validation.page_size for error in errors) / len(errors)
    lines = [
        f"by request: {exact:.2f} % exact, {near:.2f} % within a page, mean error "
        f"{fmean(errors):,.1f} tokens"
    ]
    worst = sorted(checks, key=lambda check: (-abs(check.error_tokens), check.rid))[:_WORST]
    if worst[0].error_tokens == 0:
        return lines
    names = [" ".join(printable(check.rid[:40]).split()) for check in worst]
    width = max(8, *map(len, names))
    lines.append(f"{'furthest':<{width}}{'prompt':>10}{'reported':>10}{'predicted':>11}")
    lines += [
        f"{name:<{width}}{check.prompt_tokens:>10,}"
        f"{check.reported_tokens:>10,}{check.predicted_tokens:>11,}"
        for name, check in zip(names, worst, strict=True)
        if check.error_tokens
    ]
    return lines
