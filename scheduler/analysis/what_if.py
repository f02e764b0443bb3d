"""What-if: the hit rate as it is, with each change of a list, and with all of them together.

Every row is a lookup replay in arrival order with the last-token rule and recorded outputs
cached, each cache with the same capacity in tokens. All rows are replayed side by side while
the requests are read once (twice where prefixes are pinned).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from radixcache import KeyKind, PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.changes import Change, Variation, variations_of
from scheduler.analysis.edits import Edit, check_kind
from scheduler.analysis.pins import PinFinder
from scheduler.analysis.replicas import Fleet
from scheduler.lookup_cache import HitCounts, LookupCache, distinct_pages, whole_pages
from scheduler.optimal import DEFAULT_EXACT_LIMIT_BYTES, OptimalMeter, computed_key
from scheduler.registry import check_eviction
from scheduler.report.metrics import ratio
from scheduler.request import Request
from scheduler.samples import fan_out

__all__ = ["WhatIf", "WhatIfRow", "what_if"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """What one variation reaches, and what it could reach at most."""

    label: str
    parts: tuple[str, ...]
    """The changes of a row that combines several."""
    page_size: int
    capacity_pages: int
    """Of each replica."""
    replicas: int
    route: str | None
    pooled: int
    """Replicas whose memory this one cache has."""
    pinned_pages: int
    """Pages kept for pinned prefixes, in each replica."""
    requests: int
    edited_requests: int
    """Requests that have what its edits are about, of the edit with most of them."""
    prompt_tokens: int
    hit_tokens: int
    second_half_prompt_tokens: int
    second_half_hit_tokens: int
    evicted_pages: int
    uncached_pages: int
    """Pages that found no room because their own request's path filled the cache."""
    replica_computed_tokens: tuple[int, ...]
    """Prompt tokens that each replica had to compute."""
    ceiling_hit_rate: float | None
    """One unbounded cache, same requests and page size; None where it is not ``exact``."""
    optimal_hit_rate: float | None
    """DFS optimum of the same requests and page size; see `scheduler.optimal`."""
    exact: bool
    """False: pages were counted by HyperLogLog, the optimum is within 1.3 points."""

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.prompt_tokens - self.hit_tokens

    @property
    def cold_hit_rate(self) -> float | None:
        """Hit tokens / prompt tokens from an empty cache; None without a prompt token."""
        return ratio(self.hit_tokens, self.prompt_tokens)

    @property
    def second_half_hit_rate(self) -> float | None:
        """Hit rate of the last 50 % of the requests, over caches warmed by the others."""
        return ratio(self.second_half_hit_tokens, self.second_half_prompt_tokens)

    @property
    def imbalance(self) -> float | None:
        """Computed tokens of the busiest replica / their mean; None for one cache."""
        if self.replicas == 1 or not self.computed_tokens:
            return None
        return max(self.replica_computed_tokens) * self.replicas / self.computed_tokens


@dataclass(frozen=True, slots=True)
class WhatIf:
    """All rows; the first is the traffic as it is."""

    capacity_tokens: int
    """Of one cache, and of each replica."""
    eviction: str
    rows: tuple[WhatIfRow, ...]

    def points(self, row: WhatIfRow) -> float | None:
        """Return the change of the cold hit rate against the first row, in points."""
        base, rate = self.rows[0].cold_hit_rate, row.cold_hit_rate
        return None if base is None or rate is None else 100 * (rate - base)

    def pooled_row(self, row: WhatIfRow) -> WhatIfRow | None:
        """Return the bound of a row with replicas: one cache with the memory of all of them."""
        if row.route is None:
            return None
        return next(
            found
            for found in self.rows
            if found.pooled == row.replicas and bool(found.parts) == bool(row.parts)
        )


class _Lane:
    """One row while it is replayed."""

    __slots__ = ("capacity_pages", "fleet", "hits", "pins", "variation")

    def __init__(
        self, variation: Variation, pins: Sequence[PrefixKey], capacity_tokens: int, eviction: str
    ) -> None:
        self.variation = variation
        self.pins = pins
        self.hits = HitCounts()
        self.capacity_pages = _capacity_pages(variation, capacity_tokens)
        caches = [
            LookupCache(
                variation.page_size,
                capacity_pages=self.capacity_pages,
                policy=eviction,
                last_token=True,
                pins=pins,
            )
            for _ in range(variation.replicas)
        ]
        self.fleet = Fleet(caches, variation.route)

    def serve(self, request: Request, whole: PrefixKey | None) -> None:
        self.hits.add(request.prompt_tokens, self.fleet.serve(request, whole))


def _capacity_pages(variation: Variation, capacity_tokens: int) -> int:
    """Return the pages of each cache of a row. Raises: ConfigError for less than one page."""
    return whole_pages(capacity_tokens * variation.pooled, variation.page_size)


class _Stream:
    """The requests of the rows that share edits and page size, and their bounds."""

    def __init__(self, edits: tuple[Edit, ...], page_size: int, exact_limit_bytes: int) -> None:
        self.edits = edits
        self.page_size = page_size
        self.lanes: list[_Lane] = []
        self.finders: list[tuple[Variation, PinFinder]] = []
        self.concerned = [0] * len(edits)
        self.requests = 0
        self.seen_tokens = 0
        self.meter = OptimalMeter(page_size, exact_limit_bytes=exact_limit_bytes)
        self._groups: dict[bytes, int] = {}

    def edited(self, request: Request) -> Request:
        """Return the request as the rows of this stream see it.

        Raises: ConfigError for block ids that cannot be changed so.
        """
        for place, edit in enumerate(self.edits):
            check_kind(edit, request.key.kind)
            after = edit.edited(request)
            self.concerned[place] += edit.concerns(request, after)
            request = after
        return self._regrouped(request)

    def serve(self, request: Request) -> None:
        """Replay one request, every sample of it, in all rows."""
        self.requests += 1
        for sample in fan_out(self.edited(request)):
            whole = computed_key(sample)
            self.seen_tokens += self.meter.add(
                sample.key,
                sample.prompt_tokens,
                whole,
                max_match_tokens=sample.max_match_tokens,
            )
            for lane in self.lanes:
                lane.serve(sample, whole)

    def check(self) -> None:
        """Raise ConfigError for an edit, or a route, that no request had anything for."""
        if not self.requests:
            return
        for edit, count in zip(self.edits, self.concerned, strict=True):
            if not count:
                raise ConfigError(edit.missing)
        for lane in self.lanes:
            if lane.variation.route == "session" and not lane.fleet.sessions:
                raise ConfigError(
                    "route session: no request of this trace names its session (session_id): use "
                    "prefix or round-robin"
                )

    def _regrouped(self, request: Request) -> Request:
        """Return a request of block ids with ids of larger pages, if its blocks are smaller.

        A page is several whole blocks, and equal exactly where all of them are.
        """
        key = request.key
        if key.kind is not KeyKind.BLOCKS or key.page_size == self.page_size:
            return request
        if self.page_size % key.page_size:
            raise ConfigError(
                f"page size {self.page_size}: this trace has ids of {key.page_size}-token blocks, "
                f"which cannot be cut: give a multiple of {key.page_size}"
            )
        width = self.page_size // key.page_size * 8
        groups = self._groups
        ids = [
            groups.setdefault(key.data[at : at + width], len(groups))
            for at in range(0, len(key.data) // width * width, width)
        ]
        return replace(request, key=PrefixKey.from_block_ids(ids, self.page_size, key.namespace))


def what_if(
    requests: Iterable[Request],
    changes: Sequence[Change],
    *,
    page_size: int,
    capacity_tokens: int,
    eviction: str = "lru",
    together: bool = True,
    exact_limit_bytes: int = 4 * DEFAULT_EXACT_LIMIT_BYTES,
) -> WhatIf:
    """Replay the requests, given in order of arrival, as they are and with each change.

    ``together`` adds a row with all changes. ``requests`` are iterated twice where a change pins
    prefixes. Each replica has
    ``capacity_tokens``; the bound of N replicas is one cache of N times as many.

    Cost: a lookup, and an `OptimalMeter.add`, for each row and request. Memory: the caches, 16
    bytes a request and row, and the meters: one for all rows of equal requests and page size,
    together at most ``exact_limit_bytes``; beyond that the optimum is an estimate.
    Raises: ConfigError for a change that no request has anything for, a capacity below one
    page, pins that do not fit, block ids that cannot be changed as asked.
    """
    check_eviction(eviction)
    rows = variations_of(page_size, changes, together=together)
    for row in rows:
        _capacity_pages(row, capacity_tokens)
    streams: dict[tuple[tuple[Edit, ...], int], _Stream] = {}
    kinds = len({(row.edits, row.page_size) for row in rows})
    for row in rows:
        limit = min(DEFAULT_EXACT_LIMIT_BYTES, exact_limit_bytes // kinds)
        stream = streams.setdefault(
            (row.edits, row.page_size), _Stream(row.edits, row.page_size, limit)
        )
        if row.pins is not None:
            stream.finders.append((row, PinFinder(row.pins)))
    pins = _found_pins(requests, list(streams.values()))
    lanes = {}
    for row in rows:
        lane = _Lane(row, pins.get(row.label, ()), capacity_tokens, eviction)
        streams[row.edits, row.page_size].lanes.append(lane)
        lanes[row.label] = lane
    for request in requests:
        for stream in streams.values():
            stream.serve(request)
    for stream in streams.values():
        stream.check()
    return WhatIf(
        capacity_tokens,
        eviction,
        tuple(_row(lanes[row.label], streams[row.edits, row.page_size]) for row in rows),
    )


def _found_pins(
    requests: Iterable[Request], streams: Sequence[_Stream]
) -> dict[str, list[PrefixKey]]:
    """Return the pinned prefixes of each row that has any, by its label."""
    searched = [stream for stream in streams if stream.finders]
    if not searched:
        return {}
    for request in requests:
        for stream in searched:
            after = stream.edited(request)
            for _, finder in stream.finders:
                finder.add(after, request.prompt_tokens)
    for stream in searched:
        stream.concerned = [0] * len(stream.edits)
    return {
        row.label: finder.keys(stream.page_size)
        for stream in searched
        for row, finder in stream.finders
    }


def _row(lane: _Lane, stream: _Stream) -> WhatIfRow:
    """Sum one row up."""
    variation, hits, fleet = lane.variation, lane.hits, lane.fleet
    bound = stream.meter.bound()
    known = bound.exact and bound.prompt_tokens
    return WhatIfRow(
        label=variation.label,
        parts=variation.parts,
        page_size=variation.page_size,
        capacity_pages=lane.capacity_pages,
        replicas=variation.replicas,
        route=variation.route,
        pooled=variation.pooled,
        pinned_pages=distinct_pages(lane.pins, variation.page_size),
        requests=len(hits),
        edited_requests=max(stream.concerned, default=0),
        prompt_tokens=hits.prompt_tokens(),
        hit_tokens=hits.hit_tokens(),
        second_half_prompt_tokens=hits.prompt_tokens(second_half=True),
        second_half_hit_tokens=hits.hit_tokens(second_half=True),
        evicted_pages=fleet.evicted_pages,
        uncached_pages=fleet.uncached_pages,
        replica_computed_tokens=tuple(fleet.computed_tokens),
        ceiling_hit_rate=stream.seen_tokens / bound.prompt_tokens if known else None,
        optimal_hit_rate=bound.hit_rate,
        exact=bound.exact,
    )
