"""Every number of a replay, each defined once: name, unit, formula, meaning, computation.

The table, the JSON, the CSV and the glossary are made from ``METRICS``. ``Run`` is what a
metric may look at. A metric that has nothing to be computed from is None: "-" in a table,
null in JSON, empty in CSV, never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from scheduler.report.cached_share import (
    CACHED_FROM_SHARE,
    TtftByCachedShare,
    ttft_by_cached_share,
)
from scheduler.report.recorder import Recorder
from scheduler.report.stability import LoadJudgement, Verdict, drain_rate, judge_load

__all__ = ["METRICS", "Metric", "Run", "Unit", "metric", "percentile"]

Unit = Literal["requests", "tokens", "tokens/s", "requests/s", "s", "share", "count"]
Value = float | int | None


@dataclass(frozen=True)
class Run:
    """One finished run and the bounds it is measured against."""

    recorder: Recorder
    page_size: int
    optimal_hit_rate: float | None = None
    """DFS optimum of the same requests (`scheduler.optimal`)."""
    ceiling_hit_rate: float | None = None
    """Hit rate of an unbounded cache in arrival order."""
    unsent_requests: int = 0
    """Requests that the bounds count and the run never sent."""

    @cached_property
    def never_admitted(self) -> int:
        """Requests that the bounds count and no hit rate does."""
        refused = sum(self.recorder.rejected.values())
        waited = sum(map(math.isnan, self.recorder.hit_tokens))
        return self.unsent_requests + refused + waited

    @cached_property
    def load(self) -> LoadJudgement:
        """Whether the queue grew without end."""
        return judge_load(self.recorder)

    @cached_property
    def ttft_s(self) -> list[float]:
        """Sorted first token - arrival, of requests that got one."""
        return _sorted_differences(self.recorder.first_token_s, self.recorder.submitted_s)

    @cached_property
    def ttft_by_cached_share_s(self) -> TtftByCachedShare:
        """The same, apart for requests mostly cached and mostly computed."""
        return ttft_by_cached_share(self.recorder)

    @cached_property
    def e2e_s(self) -> list[float]:
        """Sorted end - arrival, of requests that got a token and ended."""
        rows = zip(
            self.recorder.finished_s,
            self.recorder.submitted_s,
            self.recorder.first_token_s,
            strict=True,
        )
        return sorted(
            end - arrival
            for end, arrival, token in rows
            if not (math.isnan(end) or math.isnan(token))
        )

    @cached_property
    def tpot_s(self) -> list[float]:
        """Sorted (end - first token) / (outputs - 1), of requests with two or more outputs."""
        rows = zip(
            self.recorder.finished_s,
            self.recorder.first_token_s,
            self.recorder.output_tokens,
            strict=True,
        )
        return sorted(
            (end - token) / (outputs - 1)
            for end, token, outputs in rows
            if outputs > 1 and not (math.isnan(end) or math.isnan(token))
        )

    def hit_rate(self, first_row: int = 0) -> float | None:
        """Return cached / prompt tokens of admitted requests from this row on."""
        hit = prompt = 0
        recorder = self.recorder
        for row in range(first_row, len(recorder.submitted_s)):
            cached = recorder.hit_tokens[row]
            if not math.isnan(cached):
                hit += int(cached)
                prompt += recorder.prompt_tokens[row]
        return ratio(hit, prompt)

    @property
    def makespan_s(self) -> float:
        """First arrival to the end of the last step."""
        span = self.recorder.span_s
        return 0.0 if span is None else span[1] - span[0]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a replay."""

    name: str
    """Unique; the unit is its last word."""
    header: str
    unit: Unit
    formula: str
    doc: str
    compute: Callable[[Run], Value]
    decimals: int = 0
    stretches: bool = False
    """Grows with the trace when the queue grows without end: hidden when OVERLOADED."""
    simulated: bool = False
    """Comes from the cost model: in uncalibrated seconds it only orders policies."""


def percentile(ordered: Sequence[float], q: float) -> float | None:
    """Return the q-quantile of sorted values, linear between the two nearest ranks.

    The value at position q * (n - 1), counted from 0, as numpy.percentile has it by default;
    None for no values.
    """
    if not ordered:
        return None
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def ratio(part: float, whole: float) -> float | None:
    """Return part / whole, or None for nothing."""
    return part / whole if whole else None


def metric(name: str) -> Metric:
    """Return the metric of this name. Raises: KeyError."""
    return _BY_NAME[name]


def _sorted_differences(later: Iterable[float], earlier: Iterable[float]) -> list[float]:
    pairs = zip(later, earlier, strict=True)
    return sorted(b - a for b, a in pairs if not math.isnan(b))


def _mean(values: Sequence[float]) -> float | None:
    return ratio(math.fsum(values), len(values))


def _largest(values: Iterable[float]) -> float | None:
    return max((v for v in values if math.isfinite(v)), default=None)


def _offered(run: Run) -> Value:
    window = run.recorder.arrival_window_s
    if window is None:
        return None
    return ratio(len(run.recorder.submitted_s) - 1, window[1] - window[0])


def _utilisation(run: Run) -> Value:
    window = run.recorder.arrival_window_s
    if window is None or window[1] <= window[0]:
        return None
    steps = zip(run.recorder.step_start_s, run.recorder.step_duration_s, strict=True)
    busy = math.fsum(
        max(0.0, min(start + length, window[1]) - max(start, window[0])) for start, length in steps
    )
    return min(1.0, busy / (window[1] - window[0]))


def _queue_mean(run: Run) -> Value:
    steps = zip(run.recorder.step_waiting, run.recorder.step_duration_s, strict=True)
    return ratio(math.fsum(w * s for w, s in steps), run.makespan_s)


def _optimal_reached(run: Run) -> Value:
    cold = run.hit_rate()
    return None if cold is None or run.never_admitted else ratio(cold, run.optimal_hit_rate or 0.0)


def _drain(run: Run) -> Value:
    return drain_rate(run.recorder) if run.load.verdict is Verdict.OVERLOADED else None


def _overtake_share(run: Run) -> Value:
    recorder = run.recorder
    pairs = zip(recorder.overtaken_tokens, recorder.bound_tokens, strict=True)
    return _largest(over / bound for over, bound in pairs if math.isfinite(bound) and bound > 0)


def _overtake(run: Run) -> Value:
    most = _largest(run.recorder.overtaken_tokens)
    return None if most is None else int(most)


def _bound(run: Run) -> Value:
    most = _largest(run.recorder.bound_tokens)
    return None if most is None else int(most)


def _latency(what: str, title: str, formula: str, stretches: bool) -> Iterable[Metric]:
    """Make the mean, percentiles and maximum of one kind of seconds."""
    of: Callable[[Run], list[float]] = {
        "ttft": lambda run: run.ttft_s,
        "tpot": lambda run: run.tpot_s,
        "e2e": lambda run: run.e2e_s,
    }[what]
    shapes: list[tuple[str, str, Callable[[list[float]], float | None]]] = [
        ("mean", "mean", _mean),
        ("p50", "median", lambda v: percentile(v, 0.50)),
        ("p90", "90th percentile", lambda v: percentile(v, 0.90)),
        ("p99", "99th percentile", lambda v: percentile(v, 0.99)),
        ("max", "largest", lambda v: v[-1] if v else None),
    ]
    decimals = 4 if what == "tpot" else 2
    for short, long, shape in shapes:
        yield Metric(
            f"{what}_{short}_s", f"{what.upper()} {short}", "s", f"{long} of ({formula})",
            f"{title}: {long} over the requests that have one.",
            lambda run, of=of, shape=shape: shape(of(run)),  # type: ignore[misc]
            decimals, stretches, simulated=True,
        )  # fmt: skip


def _waits(group: Literal["cached", "computed"], sign: str) -> Iterable[Metric]:
    """Make the size and the times to first token of one group of requests."""

    def ttft_s(run: Run) -> list[float]:
        waits = run.ttft_by_cached_share_s
        return waits.mostly_cached if group == "cached" else waits.mostly_computed

    which = f"hit {sign} {CACHED_FROM_SHARE:g} n"
    yield Metric(
        f"mostly_{group}_requests", f"mostly {group}", "requests", f"requests with {which}",
        f"Requests that were mostly {group}, by their hit at the first admission, and got a "
        "token.", lambda run: len(ttft_s(run)),
    )  # fmt: skip
    shapes: list[tuple[str, str, Callable[[list[float]], float | None]]] = [
        ("mean", "mean", _mean),
        ("p99", "99th percentile", lambda v: percentile(v, 0.99)),
    ]
    for short, long, shape in shapes:
        yield Metric(
            f"mostly_{group}_ttft_{short}_s", f"{group} {short}", "s",
            f"{long} of (first token - arrival), {which}",
            f"Time to first token of mostly {group} requests: {long}.",
            lambda run, shape=shape: shape(ttft_s(run)),  # type: ignore[misc]
            2, stretches=True, simulated=True,
        )  # fmt: skip


METRICS: tuple[Metric, ...] = (
    Metric(
        "submitted_requests", "requests", "requests", "accepted submits",
        "Requests the scheduler took.", lambda run: len(run.recorder.submitted_s),
    ),
    Metric(
        "ended_requests", "ended", "requests", "finished or aborted requests",
        "Requests that ended, for whatever reason.", lambda run: run.recorder.ended.total(),
    ),
    Metric(
        "rejected_requests", "rejected", "requests", "refused submits",
        "Requests refused because they could never be admitted.",
        lambda run: run.recorder.rejected.total(),
    ),
    Metric(
        "prompt_tokens", "prompt tokens", "tokens", "sum of n",
        "Prompt tokens of all accepted requests.", lambda run: sum(run.recorder.prompt_tokens),
    ),
    Metric(
        "cold_hit_rate_share", "hit cold", "share", "sum of hit / sum of n, all requests",
        "Cached prompt tokens over prompt tokens, counted at the first admission, from an empty "
        "cache.", lambda run: run.hit_rate(), 2,
    ),
    Metric(
        "warm_hit_rate_share", "hit warm", "share", "sum of hit / sum of n, second half",
        "The same over the last 50 % of the requests in order of arrival.",
        lambda run: run.hit_rate(len(run.recorder.submitted_s) // 2), 2,
    ),
    Metric(
        "ceiling_hit_rate_share", "ceiling", "share", "hit rate without eviction",
        "Hit rate of an unbounded cache that serves in arrival order.",
        lambda run: run.ceiling_hit_rate, 2,
    ),
    Metric(
        "optimal_hit_rate_share", "optimum", "share", "1 - C* / sum of n",
        "DFS-optimal hit rate: no order, eviction or capacity does better.",
        lambda run: run.optimal_hit_rate, 2,
    ),
    Metric(
        "optimal_reached_share", "of opt.", "share", "cold hit rate / DFS-optimal hit rate",
        "How much of the optimum was reached. None where requests were never admitted: the "
        "optimum is of all requests, the hit rate of the others.", _optimal_reached, 1,
    ),
    Metric(
        "offered_requests_per_s", "offered", "requests/s", "(requests - 1) / arrival window",
        "Arrivals per second from the first arrival to the last.", _offered, 2,
    ),
    Metric(
        "utilisation_share", "utilisation", "share", "step time / arrival window",
        "Share of the time from the first to the last arrival in which a step ran.",
        _utilisation, 1, simulated=True,
    ),
    Metric(
        "makespan_s", "makespan", "s", "end of the last step - first arrival",
        "How long the run took.", lambda run: run.makespan_s or None, 1, simulated=True,
    ),
    Metric(
        "queue_mean_requests", "queue mean", "requests", "sum of waiting * step time / makespan",
        "Requests waiting, averaged over time.", _queue_mean, 1, stretches=True, simulated=True,
    ),
    Metric(
        "queue_max_requests", "queue max", "requests", "max of waiting",
        "Most requests waiting at a step.",
        lambda run: max(run.recorder.step_waiting, default=None), stretches=True, simulated=True,
    ),
    Metric(
        "running_mean_requests", "batch mean", "requests", "sum of running * step time / step time",
        "Requests in a step, averaged over the time steps ran.",
        lambda run: ratio(run.recorder.running_request_s, run.recorder.busy_s), 1, simulated=True,
    ),
    *_latency("ttft", "Time to first token", "first token - arrival", stretches=True),
    *_waits("computed", "<"),
    *_waits("cached", ">="),
    *_latency(
        "tpot", "Time per output token", "(end - first token) / (outputs - 1)", stretches=False
    ),
    *_latency("e2e", "End to end", "end - arrival", stretches=True),
    Metric(
        "output_tokens_per_s", "output", "tokens/s", "output tokens / makespan",
        "Output tokens per second over the whole run.",
        lambda run: ratio(sum(run.recorder.output_tokens), run.makespan_s), 1, simulated=True,
    ),
    Metric(
        "drain_requests_per_s", "drain", "requests/s",
        "requests finished in steps with waiting > 0 / time of those steps",
        "What an overloaded engine gets done: the rate it could sustain. None when the load was "
        "stable, where a queue is short and says nothing of the rate.", _drain, 2, simulated=True,
    ),
    Metric(
        "overtaken_max_tokens", "overtaken max", "tokens", "max of overtaken(r)",
        "Most prefill tokens of later arrivals that were admitted before one request.", _overtake,
    ),
    Metric(
        "overtaken_bound_share", "of bound", "share", "max of overtaken(r) / B_r",
        "The largest overtake against the bound it was promised; at most 1.", _overtake_share, 1,
    ),
    Metric(
        "bound_max_tokens", "bound max", "tokens", "max of B_r",
        "Most tokens of later arrivals that any request was told may go before it.",
        _bound, stretches=True,
    ),
    Metric(
        "bound_max_s", "bound time", "s", "max of B_r / prefill rate",
        "The same in seconds of prefill at the cost model's rate (attention apart): what later "
        "arrivals may put before a request, not how long it waits.",
        lambda run: _largest(run.recorder.bound_s), 2, stretches=True, simulated=True,
    ),
    Metric(
        "prefill_tokens", "prefilled", "tokens", "sum of prefill tokens of all steps",
        "Prompt tokens computed, recomputation included.",
        lambda run: sum(run.recorder.step_prefill_tokens),
    ),
    Metric(
        "evicted_tokens", "evicted", "tokens", "evicted pages * page size",
        "Cached tokens thrown out to make room.",
        lambda run: run.recorder.evicted_pages * run.page_size,
    ),
    Metric(
        "recomputed_tokens", "recomputed", "tokens", "sum of recomputed tokens",
        "Tokens computed again after a retraction; not part of the hit rates.",
        lambda run: sum(run.recorder.recomputed_tokens),
    ),
    Metric(
        "retractions_count", "retractions", "count", "sum of retractions",
        "How often a running request gave its pages back.",
        lambda run: sum(run.recorder.retractions),
    ),
)  # fmt: skip

_BY_NAME = {m.name: m for m in METRICS}
