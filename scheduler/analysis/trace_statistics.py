"""Trace statistics: lengths, sharing, and how good a hit rate can be, in one pass."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain

from radixcache import KeyKind, Namespace
from scheduler.analysis.prefix_trie import PrefixTrie
from scheduler.analysis.sharing import SharedPrefix, shared_prefixes
from scheduler.optimal import DEFAULT_EXACT_LIMIT_BYTES, OptimalMeter, computed_key
from scheduler.report.metrics import percentile
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = [
    "Burstiness",
    "Lengths",
    "TraceStatistics",
    "Turns",
    "trace_statistics",
]


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long prompts or outputs are, in tokens."""

    total: int
    mean: float
    p50: float
    p99: float
    max: int

    @classmethod
    def of(cls, lengths: array[int]) -> Lengths | None:
        """Return the lengths' summary, or None for no lengths."""
        if not lengths:
            return None
        ordered = sorted(lengths)
        return cls(
            total=sum(ordered),
            mean=sum(ordered) / len(ordered),
            p50=percentile(ordered, 0.50) or 0.0,
            p99=percentile(ordered, 0.99) or 0.0,
            max=ordered[-1],
        )


@dataclass(frozen=True, slots=True)
class Turns:
    """How many requests the sessions of a trace have, those without a session left out."""

    mean: float
    p50: float
    max: int


@dataclass(frozen=True, slots=True)
class Burstiness:
    """How unevenly requests arrive."""

    gap_variation: float | None
    """Coefficient of variation of the times between arrivals: 1 is a Poisson process."""
    peak_per_minute: int
    """Requests of the busiest minute, minutes counted from the first arrival."""
    mean_per_minute: float

    @property
    def peak_to_mean(self) -> float:
        """Busiest minute / mean minute."""
        return self.peak_per_minute / self.mean_per_minute


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """What is in a trace, and the hit rates it allows at one page size."""

    requests: int
    page_size: int
    cached_outputs: bool
    """Whether recorded output ids count as cached."""
    span_s: float
    """Last minus first arrival."""
    prompt: Lengths | None
    output: Lengths | None
    """Of the requests whose output length is recorded."""
    outputs_recorded: int
    namespaces: int
    sessions: int
    turns: Turns | None
    """None where no request names a session."""
    burstiness: Burstiness | None
    """None without a request."""
    full_pages: int
    """Full pages of all prompts, repeated ones too."""
    distinct_pages: int
    ceiling_hit_rate: float | None
    """Unbounded cache, arrival order, last-token rule; None when not ``exact``."""
    optimal_hit_rate: float | None
    """DFS optimum; see `scheduler.optimal`."""
    prompt_only_ceiling_hit_rate: float | None
    prompt_only_optimal_hit_rate: float | None
    """The same two where no output is cached."""
    exact: bool
    """False: pages were counted by HyperLogLog, the optimum is within 1.3 points."""
    skipped: Mapping[str, int]
    """Rows that gave no request, by reason."""
    shared_prefixes: tuple[SharedPrefix, ...] = ()
    """Those that most repeated work lies in, where they were looked for."""
    missed_requests: int = 0
    """How much their counts may be too small."""

    @property
    def shared_pages_share(self) -> float | None:
        """Share of the full pages that some other prompt page equals: 1 - distinct / full."""
        return 1.0 - self.distinct_pages / self.full_pages if self.full_pages else None

    def as_dict(self) -> dict[str, object]:
        """Return the fields, and what follows from them, for JSON."""
        burstiness = self.burstiness
        ratio = None if burstiness is None else burstiness.peak_to_mean
        return asdict(self) | {
            "shared_pages_share": self.shared_pages_share,
            "peak_to_mean_requests_per_minute": ratio,
        }


class _Arrivals:
    """Gaps and minutes of arrivals, in one pass. Ref: B. P. Welford, Technometrics 4 (1962)."""

    def __init__(self) -> None:
        self.first_s, self.last_s = math.inf, -math.inf
        self._before_s: float | None = None
        self._gaps = 0
        self._mean_s = self._square_s2 = 0.0
        self._minutes: Counter[int] = Counter()

    def add(self, arrival_s: float) -> None:
        """Take the next arrival."""
        self.first_s, self.last_s = min(self.first_s, arrival_s), max(self.last_s, arrival_s)
        self._minutes[int((arrival_s - self.first_s) // 60)] += 1
        if self._before_s is not None:
            gap_s = arrival_s - self._before_s
            self._gaps += 1
            change_s = gap_s - self._mean_s
            self._mean_s += change_s / self._gaps
            self._square_s2 += change_s * (gap_s - self._mean_s)
        self._before_s = arrival_s

    @property
    def span_s(self) -> float:
        return self.last_s - self.first_s if self._before_s is not None else 0.0

    def burstiness(self) -> Burstiness | None:
        if self._before_s is None:
            return None
        variation = None
        if self._mean_s > 0:
            variation = math.sqrt(self._square_s2 / self._gaps) / self._mean_s
        return Burstiness(
            gap_variation=variation,
            peak_per_minute=max(self._minutes.values()),
            mean_per_minute=(self._gaps + 1) / (self.span_s // 60 + 1),
        )


class _Tally:
    """What is counted one request at a time."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self.prompts, self.outputs = array("q"), array("q")
        self.namespaces: set[Namespace] = set()
        self.sessions: Counter[str] = Counter()
        self.arrivals = _Arrivals()
        self.full_pages = 0

    def add(self, request: Request) -> None:
        self.prompts.append(request.prompt_tokens)
        if request.recorded_output_tokens is not None:
            self.outputs.append(request.recorded_output_tokens)
        self.namespaces.add(request.key.namespace)
        if request.session_id is not None:
            self.sessions[request.session_id] += 1
        self.arrivals.add(request.arrival_s)
        self.full_pages += min(request.prompt_tokens, len(request.key)) // self._page_size


class _Hits:
    """The bounds with or without outputs."""

    def __init__(self, page_size: int, cached_outputs: bool, exact_limit_bytes: int) -> None:
        self.meter = OptimalMeter(page_size, exact_limit_bytes=exact_limit_bytes)
        self._cached_outputs = cached_outputs
        self._seen_tokens = 0

    def add(self, request: Request) -> None:
        self._seen_tokens += self.meter.add(
            request.key,
            request.prompt_tokens,
            computed_key(request) if self._cached_outputs else None,
            max_match_tokens=request.max_match_tokens,
        )

    def ceiling(self) -> float | None:
        """Return the hit rate of an unbounded cache; None where it is not exact."""
        known = self.meter.exact and self.meter.prompt_tokens
        return self._seen_tokens / self.meter.prompt_tokens if known else None


def _first_looked_at(
    requests: Iterator[Request], cached_outputs: bool
) -> tuple[Iterator[Request], bool]:
    """Return the requests, and whether outputs can be cached: those of block ids have none."""
    first = next(requests, None)
    if first is None:
        return iter(()), False
    return chain((first,), requests), cached_outputs and first.key.kind is not KeyKind.BLOCKS


def trace_statistics(
    requests: Iterable[Request],
    page_size: int,
    *,
    cached_outputs: bool = False,
    skipped: Mapping[str, int] | None = None,
    exact_limit_bytes: int = DEFAULT_EXACT_LIMIT_BYTES,
    sharing: PrefixTrie | None = None,
    quote: Callable[[bytes, KeyKind], str] = lambda data, kind: "",
) -> TraceStatistics:
    """Read the requests once, in arrival order, and say what they allow.

    A request for several samples counts as many. ``skipped`` is read when the requests are
    exhausted, so a reader's own counter will do. With ``sharing``, an empty trie, the shared
    prefixes are found too; ``quote`` writes them.

    Cost: two `OptimalMeter.add` a request, and one `PrefixTrie.add`. Memory: that of the trie,
    ``exact_limit_bytes`` for the meters together, beyond which they estimate, 16 bytes a
    request, a count a session and a minute.
    """
    tally = _Tally(page_size)
    samples, both = _first_looked_at(each_sample(requests), cached_outputs)
    limit_bytes = exact_limit_bytes // (2 if both else 1)
    with_outputs = _Hits(page_size, cached_outputs, limit_bytes)
    prompts_only = _Hits(page_size, False, limit_bytes) if both else None
    for request in samples:
        tally.add(request)
        with_outputs.add(request)
        if prompts_only is not None:
            prompts_only.add(request)
        if sharing is not None:
            sharing.add(request.key)
    bound = with_outputs.meter.bound()
    alone = prompts_only or with_outputs
    prefixes: tuple[SharedPrefix, ...] = ()
    if sharing is not None:
        prefixes = shared_prefixes(sharing, bound.prompt_tokens, quote)
    return TraceStatistics(
        requests=len(tally.prompts),
        page_size=page_size,
        cached_outputs=cached_outputs,
        span_s=tally.arrivals.span_s,
        prompt=Lengths.of(tally.prompts),
        output=Lengths.of(tally.outputs),
        outputs_recorded=len(tally.outputs),
        namespaces=len(tally.namespaces),
        sessions=len(tally.sessions),
        turns=_turns(tally.sessions),
        burstiness=tally.arrivals.burstiness(),
        full_pages=tally.full_pages,
        distinct_pages=bound.distinct_pages,
        ceiling_hit_rate=with_outputs.ceiling(),
        optimal_hit_rate=bound.hit_rate,
        prompt_only_ceiling_hit_rate=alone.ceiling(),
        prompt_only_optimal_hit_rate=alone.meter.optimal_hit_rate,
        exact=bound.exact and alone.meter.exact,
        skipped=dict(sorted((skipped or {}).items())),
        shared_prefixes=prefixes,
        missed_requests=0 if sharing is None else sharing.missed_requests,
    )


def _turns(sessions: Counter[str]) -> Turns | None:
    """Return how many requests a session has."""
    if not sessions:
        return None
    counts = sorted(sessions.values())
    return Turns(mean=sum(counts) / len(counts), p50=percentile(counts, 0.5) or 0.0, max=counts[-1])
