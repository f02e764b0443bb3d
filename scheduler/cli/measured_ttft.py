"""Times to first token that a log measured, beside those a calibrated simulation predicts.

A log allows it where its ``Finish:`` lines have token ids, the time of receipt and the latency of
the first token. The whole log is replayed under SGLang's habits, and the requests of its last
third, by arrival, are compared: the cache is as warm as the server's then.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from radixcache.errors import RadixCacheError
from scheduler.analysis.calibration import PercentileError, percentile_errors
from scheduler.analysis.step_log import StepLog
from scheduler.report.recorder import Recorder
from scheduler.request import Request
from scheduler.sim.cost_model import CostModel
from scheduler.sim.presets import SGLANG
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace.formats import ReadOptions
from scheduler.trace.sglang_log import FinishedRequest, finished_requests
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary

__all__ = ["ttft_errors"]

_LEAST_REQUESTS = 12
_DEFAULT_CHUNK_TOKENS = 8192
_ORDERS = {"lpm": "sglang-lpm", "fcfs": "fcfs"}


def ttft_errors(
    source: Source, log: StepLog, cost: CostModel
) -> tuple[tuple[PercentileError, ...], str | None]:
    """Return p50, p90 and p99 measured and predicted, or why there is nothing to compare."""
    if log.engine != "sglang":
        return (), "vLLM's iteration lines name no requests: step times stand for them"
    rows = [
        row
        for row in finished_requests(source, ReadOptions(), TraceSummary())
        if row.first_token_s is not None
    ]
    if len(rows) < _LEAST_REQUESTS:
        return (), (
            f"{len(rows)} requests with token ids and first_token_latency, {_LEAST_REQUESTS} are "
            "needed (--log-requests --log-requests-level 3): step times stand for them"
        )
    if log.facts.capacity_tokens is None:
        return (), "no line says how much KV memory the server has: step times stand for them"
    try:
        predicted = _simulated(rows, log, cost)
    except RadixCacheError as error:
        return (), f"the log cannot be replayed ({error}): step times stand for them"
    if len(predicted) < len(rows):
        return (), "the replay refused some of its requests: step times stand for them"
    late = range(len(rows) - len(rows) // 3, len(rows))
    known = [i for i in late if not np.isnan(predicted[i])]
    measured = np.array([rows[i].first_token_s for i in known], dtype=np.float64)
    return percentile_errors(measured, predicted[known]), None


def _simulated(
    rows: list[FinishedRequest], log: StepLog, cost: CostModel
) -> npt.NDArray[np.float64]:
    """Replay the log; return the seconds to the first token of each request."""
    facts = log.facts
    assert facts.capacity_tokens is not None
    config = SGLANG.config(
        facts.page_size or 1, chunk_tokens=facts.chunk_tokens or _DEFAULT_CHUNK_TOKENS
    )
    settings = RunSettings(capacity_tokens=facts.capacity_tokens, scheduler=config, cost=cost)
    recorder = Recorder()
    requests: list[Request] = [row.request for row in rows]
    order = _ORDERS.get(facts.policy or "fcfs", "fcfs")
    run_policy(requests, order, settings, recorder)
    first = np.array(recorder.first_token_s, dtype=np.float64)
    waited: npt.NDArray[np.float64] = first - np.array(recorder.submitted_s, dtype=np.float64)
    return waited
