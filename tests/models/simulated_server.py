"""The simulated engine as a server that writes logs, for tests of what reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.report.recorder import Recorder
from scheduler.request import Request
from scheduler.sim.arrivals import poisson
from scheduler.sim.cost_model import CostModel, StepLoad
from scheduler.sim.presets import preset_named
from scheduler.sim.run import RunSettings, run_policy
from scheduler.sim.watched_cost import WatchedCost
from scheduler.trace import make_workload
from tests.models.server_logs import finish_line

__all__ = ["LoggedCost", "finish_log"]


class LoggedCost(WatchedCost):
    """A cost model that writes each step down as vLLM would."""

    def __init__(self, cost: CostModel, capacity_tokens: int) -> None:
        super().__init__(cost)
        self._capacity_tokens = capacity_tokens
        self.lines = [f"INFO [kv_cache_utils.py:1] GPU KV cache size: {capacity_tokens:,} tokens"]

    def step_seconds(self, load: StepLoad) -> float:
        """Return the seconds of the step, and keep its line."""
        seconds = super().step_seconds(load)
        prompts = min(1, load.prefill_tokens)
        decodes = load.running - prompts
        usage = 100 * load.context_tokens / self._capacity_tokens
        self.lines.append(
            f"INFO [loggers.py:200] Engine 000: Iteration({self.steps}): {prompts} context "
            f"requests, {load.prefill_tokens} context tokens, {decodes} generation requests, "
            f"{decodes} generation tokens, iteration elapsed time: {1000 * seconds:.2f} ms, "
            f"GPU KV cache usage: {usage:.1f}%"
        )
        return seconds


def finish_log(
    workload: str,
    *,
    size: int,
    rate: float,
    capacity_tokens: int,
    cost: CostModel | WatchedCost | None = None,
    page_size: int = 1,
) -> list[str]:
    """Run a workload as SGLang would; return the log that its requests leave."""
    requests: list[Request] = poisson(
        list(make_workload(workload, seed=0, size=size)), rate, np.random.default_rng(0)
    )
    settings = RunSettings(
        capacity_tokens=capacity_tokens,
        scheduler=preset_named("sglang").config(page_size),
        cost=cost or CostModel(),
    )
    recorder = Recorder()
    run_policy([replace(r, samples=1) for r in requests], "fcfs", settings, recorder)
    lines = [
        f"[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', page_size={page_size})",
        f"[2026-01-01 00:00:00 TP0] max_total_num_tokens={capacity_tokens}, context_len=131072",
    ]
    for place, request in enumerate(requests):
        came, first, ended = (
            float(times[place])
            for times in (recorder.submitted_s, recorder.first_token_s, recorder.finished_s)
        )
        lines.append(
            finish_line(
                f"r{place}",
                list(request.key.tokens()),
                cached=int(recorder.hit_tokens[place]),
                out_ids=request.recorded_output_ids or (7,),
                received=1_767_225_600 + came,
                ttft=first - came,
                e2e=ended - came,
            )
        )
    return lines
