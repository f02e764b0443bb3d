"""The loss waterfall: for every prompt token, whether it was hit and, if not, why.

::

    n = hit + last_token + alignment + in_flight + evicted + compulsory

With m the longest prefix, in tokens, that the prompt shares with what is cached, p the page
size and cap the usable prefix: ``hit`` is the whole pages of m up to cap; ``last_token`` the
whole pages of m beyond (one token must be computed to give logits, or the request's own cap);
``alignment`` what m has of a page that is not whole. Beyond m, ``in_flight`` are pages that
another request is computing, ``evicted`` are pages that were computed before, ``compulsory``
is the rest: tokens that nobody sent before, and the tail that fills no page. The sum is exact
for every request.

Here requests are looked up in arrival order; nothing is in flight then (`admission_losses`
takes a scheduled replay apart). A page that found no
room because its own request filled the cache counts as evicted when it is wanted again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from radixcache import EvictionPolicy, PrefixKey
from radixcache.errors import KeyKindError
from scheduler.analysis.optimal_replay import OptimalReplay
from scheduler.analysis.prefix_hashes import prefix_hashes
from scheduler.analysis.stack_distances import StackDistances
from scheduler.analysis.token_mirror import TokenMirror
from scheduler.analysis.touches import TouchRule
from scheduler.lookup_cache import LookupCache, usable_tokens
from scheduler.optimal import DEFAULT_EXACT_LIMIT_BYTES, OptimalBound, OptimalMeter, computed_key
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["LossWaterfall", "TokenLosses", "loss_waterfall", "page_digests", "waterfall_of"]


class TokenLosses(NamedTuple):
    """Where the tokens of one prompt went; they add up to its length."""

    hit: int
    last_token: int
    alignment: int
    in_flight: int
    evicted: int
    compulsory: int

    @classmethod
    def of(
        cls,
        *,
        prompt_tokens: int,
        page_size: int,
        usable: int,
        common: int,
        seen: int,
        pending: int = 0,
    ) -> TokenLosses:
        """Take a prompt apart.

        ``usable`` is the longest prefix it may hit; ``common`` what it shares with the cache,
        in tokens; ``seen`` and ``pending`` the whole pages, in tokens, that were computed
        before, or are computed or computing now, each counted from the start of the prompt.
        """
        whole = common // page_size * page_size
        hit = min(whole, usable)
        in_flight = max(0, pending - common)
        reached = max(common, pending)
        evicted = max(0, seen - reached)
        reached = max(reached, seen)
        return cls(hit, whole - hit, common - whole, in_flight, evicted, prompt_tokens - reached)


@dataclass(frozen=True, slots=True)
class LossWaterfall:
    """Where the prompt tokens of a trace went, in tokens."""

    requests: int
    order: str | None
    """The order they were admitted in; None: looked up as they arrived, without a queue."""
    page_size: int
    capacity_pages: int | None
    """None: unbounded."""
    policy: str
    cached_outputs: bool
    """Whether recorded outputs were cached, as each request's ``cache_output`` says."""
    prompt_tokens: int
    hit_tokens: int
    last_token_tokens: int
    alignment_tokens: int
    in_flight_tokens: int
    evicted_tokens: int
    compulsory_tokens: int
    eviction_policy_tokens: int | None
    """Of the evicted: what the optimal eviction hits beyond this policy, in the same order."""
    order_tokens: int | None
    """The rest of the evicted: what even that loses, since requests come in this order."""
    optimal_eviction_hit_tokens: int | None
    """None, as the two before, where there was a queue: the order depends on the eviction."""
    dfs_optimal_hit_tokens: int
    """What the best order of all requests reaches, those never admitted too."""
    dfs_optimal_hit_rate: float | None
    """The same over their prompt tokens: `scheduler.optimal`."""
    exact_optimum: bool
    """False: the DFS optimum is an estimate, within 1.3 points."""

    def share(self, tokens: int | None) -> float | None:
        """Return a part of the prompt tokens; None without any."""
        return tokens / self.prompt_tokens if self.prompt_tokens and tokens is not None else None

    @property
    def hit_rate(self) -> float | None:
        """Hit / prompt tokens."""
        return self.share(self.hit_tokens)

    def as_dict(self) -> dict[str, object]:
        """Return the fields, and the hit rates, for JSON."""
        return asdict(self) | {
            "hit_rate": self.hit_rate,
            "optimal_eviction_hit_rate": self.share(self.optimal_eviction_hit_tokens),
        }


def loss_waterfall(
    requests: Iterable[Request],
    page_size: int,
    *,
    capacity_pages: int | None = None,
    policy: str | EvictionPolicy = "lru",
    cached_outputs: bool = True,
    on_request: Callable[[Request, TokenLosses], None] | None = None,
    exact_limit_bytes: int = DEFAULT_EXACT_LIMIT_BYTES,
) -> LossWaterfall:
    """Look the requests up in the order given and say where their tokens went.

    A request for several samples counts as many. ``on_request`` is told each one's own losses.
    ``cached_outputs`` keeps recorded outputs for the requests after it. The eviction-policy
    loss takes `OptimalReplay`, the optimal eviction of the same order; it is skipped
    where nothing was evicted.

    Cost: a lookup replay, a hash a page, `StackDistances.add` a request and one
    `OptimalReplay.hits`. Memory: the cache, 70 bytes a distinct page, and what these and
    `OptimalMeter` take.
    Raises: ConfigError for a capacity below one page; KeyKindError for mixed kinds of keys.
    """
    meter = OptimalMeter(page_size, exact_limit_bytes=exact_limit_bytes)
    replay = _Replay(page_size, capacity_pages, policy, cached_outputs)
    totals = [0] * len(TokenLosses._fields)
    distances = StackDistances(TouchRule(page_size, cached_outputs=cached_outputs))
    for request in each_sample(requests):
        whole = computed_key(request) if cached_outputs else None
        losses = replay.serve(request, whole)
        totals = [total + part for total, part in zip(totals, losses, strict=True)]
        meter.add(
            request.key, request.prompt_tokens, whole, max_match_tokens=request.max_match_tokens
        )
        distances.add(request)
        if on_request is not None:
            on_request(request, losses)
    sums = TokenLosses(*totals)
    optimal_hit = sums.hit
    if sums.evicted and capacity_pages is not None:
        optimal_hit = OptimalReplay(distances).hits(capacity_pages).hit_tokens
    return waterfall_of(
        sums,
        meter.bound(),
        order=None,
        optimal_hit=optimal_hit,
        requests=len(distances.touched_pages),
        page_size=page_size,
        capacity_pages=capacity_pages,
        policy=policy if isinstance(policy, str) else policy.name,
        cached_outputs=cached_outputs,
    )


def waterfall_of(
    sums: TokenLosses,
    bound: OptimalBound,
    *,
    order: str | None,
    optimal_hit: int | None,
    requests: int,
    page_size: int,
    capacity_pages: int | None,
    policy: str,
    cached_outputs: bool,
) -> LossWaterfall:
    """Put the sums of all requests and the bounds together, and split what was evicted.

    ``optimal_hit`` is what the optimal eviction hits in the same order; None leaves it whole.
    """
    avoidable = None
    if optimal_hit is not None:
        avoidable = min(max(0, optimal_hit - sums.hit), sums.evicted)
    return LossWaterfall(
        requests=requests,
        order=order,
        page_size=page_size,
        capacity_pages=capacity_pages,
        policy=policy,
        cached_outputs=cached_outputs,
        prompt_tokens=sum(sums),
        hit_tokens=sums.hit,
        last_token_tokens=sums.last_token,
        alignment_tokens=sums.alignment,
        in_flight_tokens=sums.in_flight,
        evicted_tokens=sums.evicted,
        compulsory_tokens=sums.compulsory,
        eviction_policy_tokens=avoidable,
        order_tokens=None if avoidable is None else sums.evicted - avoidable,
        optimal_eviction_hit_tokens=optimal_hit,
        dfs_optimal_hit_tokens=bound.prompt_tokens - bound.prefill_tokens,
        dfs_optimal_hit_rate=bound.hit_rate,
        exact_optimum=bound.exact,
    )


class _Replay:
    """One lookup pass that takes every prompt apart."""

    def __init__(
        self,
        page_size: int,
        capacity_pages: int | None,
        policy: str | EvictionPolicy,
        cached_outputs: bool,
    ) -> None:
        self._page_size = page_size
        self._make = (capacity_pages, policy)
        self._cached_outputs = cached_outputs
        self._cache: LookupCache | None = None
        self._mirror: TokenMirror | None = None
        self._layout: int | None = None
        self._seen: set[int] = set()

    def serve(self, request: Request, whole: PrefixKey | None) -> TokenLosses:
        """Serve a request; return its losses."""
        page, key = self._page_size, request.key
        cache, mirror = self._parts(key)
        digests = page_digests(key if whole is None else whole, page)
        full = min(request.prompt_tokens, len(key)) // page
        seen = 0
        while seen < full and digests[seen] in self._seen:
            seen += 1
        self._seen.update(digests)
        losses = TokenLosses.of(
            prompt_tokens=request.prompt_tokens,
            page_size=page,
            usable=usable_tokens(request, page, last_token=True),
            common=min(mirror.common_tokens(key), request.prompt_tokens),
            seen=seen * page,
        )
        hit = cache.serve(request, whole)
        assert hit == losses.hit
        assert sum(losses) == request.prompt_tokens
        return losses

    def _parts(self, key: PrefixKey) -> tuple[LookupCache, TokenMirror]:
        """Return the cache and its mirror, made for the first key's kind."""
        if self._cache is None or self._mirror is None:
            capacity_pages, policy = self._make
            self._layout = key.layout
            self._mirror = TokenMirror(key.kind, self._page_size)
            self._cache = LookupCache(
                self._page_size,
                capacity_pages=capacity_pages,
                policy=policy,
                last_token=True,
                observer=self._mirror,
            )
        elif key.layout != self._layout:
            raise KeyKindError(f"a {key.kind.value} key among keys of another kind")
        return self._cache, self._mirror


def page_digests(key: PrefixKey, page_size: int) -> array[int]:
    """Return a number below 2**63 for each full page of a key: equal for equal prefixes.

    Two of a million different prefixes are taken for one with odds of 1e-7. Cost: see
    `prefix_hashes`.
    """
    page_bytes = key.kind.page_bytes(page_size)
    pages = len(key.data) // page_bytes
    hashes = prefix_hashes(key.data, page_bytes, pages, key.namespace, seed=0)
    digests = array("q")
    digests.frombytes((hashes >> np.uint64(1)).astype(np.int64).tobytes())
    return digests
