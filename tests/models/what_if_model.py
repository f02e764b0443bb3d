"""A what-if row by row on tuples of tokens: slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from radixcache import Namespace, PrefixKey
from scheduler.request import Request
from tests.models.lookup_model import LookupModel
from tests.models.optimal_model import Ask

__all__ = ["Call", "Played", "as_requests", "play", "salted"]

FAR = 1000
"""Tokens of different salts differ by a multiple of it: as good as a namespace."""


@dataclass(frozen=True)
class Call:
    """A prompt with its answer, and whose it is."""

    ask: Ask
    session: str | None = None
    tenant: str | None = None
    salt: str | None = None


@dataclass(frozen=True)
class Played:
    """What came of it."""

    hits: list[int]
    computed: list[int]
    evicted_pages: int


def as_requests(calls: Sequence[Call]) -> list[Request]:
    return [
        Request(
            rid=str(number),
            key=PrefixKey(call.ask.prompt, Namespace.of(cache_salt=call.salt)),
            prompt_tokens=len(call.ask.prompt),
            max_new_tokens=8,
            session_id=call.session,
            client_id=call.tenant,
            recorded_output_ids=call.ask.output or None,
        )
        for number, call in enumerate(calls)
    ]


def salted(calls: Sequence[Call], by: str | None) -> list[Call]:
    """Return calls whose tokens say whose they are; by None by the salt that they have."""
    numbers: dict[object, int] = {}
    out = []
    for index, call in enumerate(calls):
        owner: object = {
            None: call.salt,
            "none": None,
            "tenant": call.tenant,
            "session": call.session if call.session is not None else index,
        }[by]
        far = FAR * numbers.setdefault(owner, len(numbers))
        prompt = tuple(token + far for token in call.ask.prompt)
        output = tuple(token + far for token in call.ask.output)
        out.append(replace(call, ask=replace(call.ask, prompt=prompt, output=output)))
    return out


def play(
    calls: Sequence[Call],
    page: int,
    capacity_pages: int,
    *,
    replicas: int = 1,
    route: str = "round-robin",
    pins: Sequence[tuple[int, ...]] = (),
) -> Played:
    """Look up, one call after the other, outputs cached, the last token computed."""
    caches = [LookupModel(page, capacity_pages, pins) for _ in range(replicas)]
    routed, computed = [0] * replicas, [0] * replicas
    homes: dict[str, int] = {}
    hits = []
    for number, call in enumerate(calls):
        idlest = routed.index(min(routed))
        matched = [cache.prefix_tokens(call.ask, last_token=True) for cache in caches]
        longest = [at for at in range(replicas) if matched[at] == max(matched)]
        nearest = min(longest, key=lambda at: (routed[at], at))
        n = len(call.ask.prompt)
        if route == "round-robin":
            place = number % replicas
        elif route == "session":
            place = idlest if call.session is None else homes.setdefault(call.session, idlest)
        elif route == "cache-aware" and not max(matched) > 0.3 * n:
            place = idlest
        else:
            place = nearest
        hit = caches[place].serve(call.ask, last_token=True, outputs=True)
        routed[place] += n
        computed[place] += n - hit
        hits.append(hit)
    return Played(hits, computed, sum(cache.evicted_pages for cache in caches))
