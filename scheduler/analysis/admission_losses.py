"""Losses at admission: the waterfall of a scheduled replay, where prefixes can be in flight.

An admission matches its prompt at one moment. What is cached then, what other requests are
computing then and what was cached before then take the prompt apart, as `losses` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import add

from radixcache import EvictionPolicy, KeyKind, Namespace, PrefixHandle, PrefixKey, RadixCache
from scheduler.analysis.losses import LossWaterfall, TokenLosses, page_digests, waterfall_of
from scheduler.analysis.token_mirror import TokenMirror
from scheduler.batch import StepRecord
from scheduler.optimal import OptimalBound
from scheduler.request import Request, RequestState, RequestStatus

__all__ = ["AdmissionLosses", "WatchedCache"]


class WatchedCache(RadixCache):
    """A cache that says which key is about to be matched."""

    __slots__ = ("before_match",)

    def __init__(
        self, page_size: int, *, kind: KeyKind, policy: str | type[EvictionPolicy] | EvictionPolicy
    ) -> None:
        super().__init__(page_size, kind=kind, policy=policy)
        self.before_match: Callable[[PrefixKey], None] = lambda key: None

    def match(self, key: PrefixKey, limit_tokens: int | None = None) -> PrefixHandle:
        """Match as any cache does."""
        self.before_match(key)
        return super().match(key, limit_tokens)


class AdmissionLosses:
    """Listens to one run on a watched cache, and takes every prompt apart when it is admitted.

    A prompt counts once, at its first admission; one that never was admitted does not count.
    What a request computes again after a retraction is not in flight for others.

    Cost: a hash a page at the match of a waiting request, and O(running). Memory: the cache
    once more, 70 bytes a page that was ever cached, and the name of each request.
    """

    def __init__(self, cache: WatchedCache) -> None:
        self._page_size = cache.page_size
        self._policy = cache.policy.name
        self._kind = cache.kind
        self._mirror = TokenMirror(cache.kind, cache.page_size)
        self._states: dict[int, list[RequestState]] = {}
        """Those that have not ended, by their key: samples of one request share it."""
        self._last: dict[int, TokenLosses] = {}
        """What each request would lose if its last match was its admission."""
        self._matched: dict[int, tuple[RequestState, Sequence[int]]] = {}
        """Those that may have been admitted since their last match, and their pages."""
        self._computing: dict[int, tuple[RequestState, Sequence[int]]] = {}
        self._pending: Counter[int] = Counter()
        self._seen: set[int] = set()
        self._totals = TokenLosses(0, 0, 0, 0, 0, 0)
        self.admitted = 0
        self.admitted_rids: set[str] = set()
        self.never_admitted = 0
        """Requests that were refused, or gave up while they waited."""
        cache.before_match = self._before_match
        cache.add_observer(self._mirror)
        cache.add_observer(self)

    # ------------------------------------------------------------------ the run

    def on_submit(self, state: RequestState) -> None:
        """Learn whose key a match may be of."""
        self._states.setdefault(id(state.key), []).append(state)

    def on_reject(self, request: Request, reason: str) -> None:
        """Count a request that never came in."""
        del request, reason
        self.never_admitted += 1

    def on_step(self, record: StepRecord) -> None:
        """Nothing is kept of a step."""

    def on_finish(self, state: RequestState) -> None:
        """Add up what the request lost at its first admission."""
        alive = self._states[id(state.request.key)]
        alive.remove(state)
        if not alive:
            del self._states[id(state.request.key)]
        losses = self._last.pop(state.arrival_seq, None)
        if state.hit_tokens is None:
            self.never_admitted += 1
            return
        assert losses is not None, "an admission matches"
        assert losses.hit == state.hit_tokens
        self.admitted += 1
        self.admitted_rids.add(state.request.rid)
        self._totals = TokenLosses(*map(add, self._totals, losses))

    def waterfall(
        self,
        order: str,
        bound: OptimalBound,
        capacity_pages: int,
        *,
        cached_outputs: bool = True,
    ) -> LossWaterfall:
        """Return the sums; ``bound`` is the optimum of those admitted, the rest is only told.

        What was evicted is not split: an optimal eviction would have changed the order.
        """
        return waterfall_of(
            self._totals,
            bound,
            order=order,
            optimal_hit=None,
            requests=self.admitted,
            page_size=self._page_size,
            capacity_pages=capacity_pages,
            policy=self._policy,
            cached_outputs=cached_outputs,
        )

    # ------------------------------------------------------------------ the cache

    def on_stored(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Remember that pages were cached once."""
        page = self._page_size
        stop = stop_tokens // page * self._kind.page_bytes(page)
        key = PrefixKey.from_packed(
            key_bytes[:stop], self._kind, namespace, page if self._kind is KeyKind.BLOCKS else None
        )
        self._seen.update(page_digests(key, page)[start_tokens // page :])

    def on_removed(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """What was evicted was seen."""

    def on_cleared(self, namespace: Namespace | None) -> None:
        """What was cleared was seen."""

    def _before_match(self, key: PrefixKey) -> None:
        """Take a waiting prompt apart; the last time is when it is admitted."""
        states = [state for state in self._states.get(id(key), ()) if state.hit_tokens is None]
        if not states:
            return
        self._note_computing()
        page, prompt_tokens = self._page_size, states[0].prompt_tokens
        digests = page_digests(key, page)[: prompt_tokens // page]
        losses = TokenLosses.of(
            prompt_tokens=prompt_tokens,
            page_size=page,
            usable=states[0].cap_tokens,
            common=min(self._mirror.common_tokens(key), prompt_tokens),
            seen=_leading(digests, self._seen) * page,
            pending=_leading(digests, self._pending) * page,
        )
        for state in states:
            self._last[state.arrival_seq] = losses
            self._matched[state.arrival_seq] = state, digests

    def _note_computing(self) -> None:
        """Bring up to date which pages are being computed."""
        for place, (state, digests) in list(self._computing.items()):
            if not _computes(state):
                del self._computing[place]
                self._pending.subtract(digests)
                for digest in digests:
                    if not self._pending[digest]:
                        del self._pending[digest]
        for place, (state, digests) in list(self._matched.items()):
            if state.hit_tokens is not None:
                del self._matched[place]
                if _computes(state):
                    self._computing[place] = state, digests
                    self._pending.update(digests)


def _computes(state: RequestState) -> bool:
    """Tell whether a request has been admitted and waits for its first token."""
    return state.first_token_s is None and state.status in {
        RequestStatus.PREFILL,
        RequestStatus.DECODE,
    }


def _leading(digests: Sequence[int], known: set[int] | Counter[int]) -> int:
    """Return how many pages from the start on are known."""
    count = 0
    while count < len(digests) and digests[count] in known:
        count += 1
    return count
