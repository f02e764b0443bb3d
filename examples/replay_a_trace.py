"""Replay a trace from Python: the steps behind ``radixcache compare``.

The first 200 requests of a trace are read, their arrivals scaled to a load, and each order runs
on a fresh cache under the same settings. Given no file, it writes one from the few-shot workload
first, as ``radixcache generate`` does, and reads that.

It prints what was read, the best hit rate any order can reach, and the comparison. The seconds
are the simulator's: the same trace gives the same table.

    python examples/replay_a_trace.py [TRACE]
"""

from __future__ import annotations

import sys
import tempfile
from itertools import islice
from pathlib import Path

from scheduler import SchedulerConfig
from scheduler.optimal import OptimalMeter, computed_key
from scheduler.report.recorder import Recorder
from scheduler.report.summary import summarize
from scheduler.report.table import render_table
from scheduler.sim.arrivals import load_time_scale, scaled
from scheduler.sim.cost_model import CostModel
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace import few_shot, open_trace, write_trace

MOST_REQUESTS = 200
LOAD = 0.45
COLUMNS = ("cold_hit_rate_share", "optimal_reached_share", "ttft_mean_s", "ttft_p99_s")


def replay(path: Path, policies: tuple[str, ...] = ("fcfs", "spf", "lpm")) -> None:
    trace = open_trace(path)
    requests = list(islice(trace, MOST_REQUESTS))
    print(*trace.summary.lines(), sep="\n")

    # Token keys go with any page size; block-hash traces bring their own.
    page_size = trace.page_size or 64
    meter = OptimalMeter(page_size)
    for request in requests:
        meter.add(request.key, request.prompt_tokens, computed_key(request))
    optimal = meter.bound()
    assert optimal.hit_rate is not None
    print(f"DFS-optimal hit rate: {optimal.hit_rate:.2%} of {optimal.prompt_tokens} tokens")

    # At load 1 a DFS-optimal cache would keep the engine busy with prefill alone.
    cost = CostModel()
    work_tokens = optimal.prefill_tokens
    scale = load_time_scale(requests, LOAD, work_tokens, cost.prefill_tokens_per_s)
    arriving = scaled(requests, scale)
    settings = RunSettings(
        capacity_tokens=131_072,
        kind=trace.kind,
        cost=cost,
        scheduler=SchedulerConfig(page_size=page_size),
    )
    summaries = []
    for policy in policies:
        recorder = Recorder()
        run_policy(arriving, policy, settings, recorder)
        summaries.append(
            summarize(
                recorder,
                label=policy,
                page_size=page_size,
                optimal_hit_rate=optimal.hit_rate,
            )
        )
    print(render_table(summaries, columns=COLUMNS), end="")


def main(arguments: list[str]) -> None:
    if arguments:
        replay(Path(arguments[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "few-shot.jsonl.gz"
        write_trace(few_shot(seed=0, requests=MOST_REQUESTS), path)
        replay(path)


if __name__ == "__main__":
    main(sys.argv[1:])
