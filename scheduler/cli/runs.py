"""Run policies on a trace, each in its turn or on all cores, and sum each run up."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import replace
from typing import Any

from radixcache import EVICTION_POLICIES
from radixcache.errors import ConfigError
from scheduler.cli.progress import Bar
from scheduler.cli.workload import Requests, load_requests
from scheduler.config import AdaptiveRatio, SchedulerConfig
from scheduler.policies import make_schedule_policy
from scheduler.report.recorder import Recorder
from scheduler.report.summary import Summary, summarize
from scheduler.sim.closed_loop import ClosedLoop
from scheduler.sim.cost_model import CostModel
from scheduler.sim.presets import EnginePreset, preset_named
from scheduler.sim.run import RunSettings, check_fits, run_policy
from scheduler.sim.source import RequestSource

__all__ = ["cost_model_of", "presets_of", "run_all", "run_names", "settings_of"]

_POLL_S = 0.2
_DEFAULT_CAPACITY_TOKENS = 1_048_576
_FEW_SHOT_CAPACITY_TOKENS = 131_072


def cost_model_of(arguments: argparse.Namespace) -> CostModel:
    """Return the cost model of the command line.

    Raises: ConfigError where a rate and a file are given, or the file is no model.
    """
    if arguments.cost_model is not None:
        if arguments.prefill_rate is not None:
            raise ConfigError("--prefill-rate and --cost-model exclude each other: give one")
        return CostModel.from_json(arguments.cost_model)
    if arguments.prefill_rate is not None:
        return CostModel.from_rate(arguments.prefill_rate)
    return CostModel()


def settings_of(arguments: argparse.Namespace, loaded: Requests, cost: CostModel) -> RunSettings:
    """Return the checked settings of every run of this command."""
    known = [*sorted(EVICTION_POLICIES), "none"]
    if arguments.eviction not in known:
        raise ConfigError(f"eviction is {arguments.eviction!r}: use one of {', '.join(known)}")
    capacity = arguments.capacity_tokens
    if capacity is None:
        few_shot = arguments.trace is None and arguments.workload == "few-shot"
        capacity = _FEW_SHOT_CAPACITY_TOKENS if few_shot else _DEFAULT_CAPACITY_TOKENS
    settings = RunSettings(
        capacity_tokens=capacity,
        kind=loaded.kind,
        eviction=arguments.eviction,
        cost=cost,
        scheduler=_engine(arguments, loaded, preset_named("ours")),
    )
    engines = [_engine(arguments, loaded, preset) for preset in presets_of(arguments.preset)]
    check_fits(loaded.each(), [replace(settings, scheduler=engine) for engine in engines])
    return replace(settings, scheduler=engines[0])


def _engine(
    arguments: argparse.Namespace, loaded: Requests, preset: EnginePreset
) -> SchedulerConfig:
    """Return the preset's configuration, with what the command line says instead."""
    return preset.config(
        loaded.page_size,
        chunk_tokens=arguments.chunk_tokens,
        max_running=arguments.max_running,
        max_in_flight=arguments.max_in_flight,
        publish=arguments.publish,
        hold=arguments.hold,
        output_reserve_ratio=arguments.output_reserve_ratio,
        preempt_priority_gap=arguments.preempt_priority_gap,
    )


def presets_of(text: str) -> list[EnginePreset]:
    """Return the presets of a comma-separated list, each named once. Raises: ConfigError."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"preset {name!r} is named twice: name it once")
    return [preset_named(name) for name in names]


def run_names(arguments: argparse.Namespace, policies: Sequence[str] | None) -> list[str]:
    """Return the runs: the orders under one preset, or ``preset:order`` for several.

    Without orders, each of several presets takes its own.
    """
    presets = presets_of(arguments.preset)
    if len(presets) == 1:
        assert policies is not None
        return list(policies)
    return [f"{preset.name}:{name}" for preset in presets for name in policies or [preset.order]]


def _split(arguments: argparse.Namespace, run: str) -> tuple[EnginePreset, str]:
    """Return the preset and the order of a run's name."""
    preset, colon, policy = run.partition(":")
    if colon:
        return preset_named(preset), policy
    return presets_of(arguments.preset)[0], run


def _assumptions(
    arguments: argparse.Namespace,
    loaded: Requests,
    settings: RunSettings,
    preset: EnginePreset,
    policy: str,
) -> dict[str, str | int | float | bool | None]:
    config = settings.scheduler
    order = make_schedule_policy(policy)
    lookahead = order.default_lookahead if config.lookahead is None else config.lookahead
    known = "true output lengths" if arguments.oracle_lengths else "max_new_tokens"
    return {
        **loaded.assumptions,
        "capacity_tokens": settings.capacity_tokens,
        "page_size": config.page_size,
        "chunk_tokens": config.chunk_tokens,
        "max_running": config.max_running,
        "max_in_flight": config.max_in_flight,
        "publish": config.publish,
        "hold": config.hold or order.default_hold,
        "lookahead": lookahead,
        "eviction": settings.eviction,
        **_preemption(config),
        "output_reserve": _reserve(config, known),
        "preset": preset.name if "," in arguments.preset else f"{preset.name} ({preset.title})",
        "engine": settings.cost.describe(),
    }


def _preemption(config: SchedulerConfig) -> dict[str, int]:
    """Say from which difference of priorities on a request preempts another, if any does."""
    gap = config.preempt_priority_gap
    return {} if gap is None else {"preempt_priority_gap": gap}


def _reserve(config: SchedulerConfig, known: str) -> str:
    ratio = config.output_reserve_ratio
    if isinstance(ratio, AdaptiveRatio):
        return (
            f"new_token_ratio from {ratio.initial:g} to {ratio.least:g} of {known}, "
            f"clipped at {ratio.clip_tokens}"
        )
    return f"{ratio:g} of {known}"


def _run_one(
    arguments: argparse.Namespace,
    loaded: Requests,
    settings: RunSettings,
    run: str,
    bar: Bar,
) -> Summary:
    preset, policy = _split(arguments, run)
    settings = replace(settings, scheduler=_engine(arguments, loaded, preset))
    recorder = Recorder()
    source = loaded.source()
    run_policy(source, policy, settings, recorder, on_progress=bar)
    return summarize(
        recorder,
        label=run,
        page_size=loaded.page_size,
        optimal_hit_rate=loaded.bounds.optimal.hit_rate,
        optimal_exact=loaded.bounds.optimal.exact,
        ceiling_hit_rate=loaded.bounds.ceiling_hit_rate,
        calibrated=settings.cost.calibrated,
        seed=arguments.seed,
        assumptions=_assumptions(arguments, loaded, settings, preset, policy) | _left_out(source),
    )


def _left_out(source: RequestSource) -> dict[str, str | int | float | bool | None]:
    """Say how many turns of a closed loop were never sent, if any."""
    dropped = source.dropped_requests if isinstance(source, ClosedLoop) else 0
    return {"turns_never_sent": dropped} if dropped else {}


# What a worker process was started with: the command line and the shared progress counters.
_worker: dict[str, Any] = {}


def _start_worker(arguments: argparse.Namespace, done: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it at once, without a traceback
    _worker.update(arguments=arguments, done=done)


def _work(position: int, policy: str) -> Summary:
    """Run one policy in a worker; each worker makes the requests once, from the same seed."""
    arguments, done = _worker["arguments"], _worker["done"]
    if "loaded" not in _worker:
        cost = cost_model_of(arguments)
        loaded = load_requests(arguments, cost)
        _worker.update(loaded=loaded, settings=settings_of(arguments, loaded, cost))

    def bar(ended: int) -> None:
        done[position] = ended

    return _run_one(arguments, _worker["loaded"], _worker["settings"], policy, bar)


def run_all(
    arguments: argparse.Namespace,
    policies: Sequence[str],
    loaded: Requests,
    settings: RunSettings,
    bar: Bar,
    jobs: int | None,
) -> list[Summary]:
    """Run every policy; the summaries come in the order of the policies.

    With more than one job each worker process loads the same requests again, so that nothing
    large crosses between processes.
    """
    workers = min(jobs or os.cpu_count() or 1, len(policies))
    if workers == 1:
        total = len(loaded)

        def bar_from(first: int) -> Bar:
            return lambda ended: bar(first * total + ended)

        return [
            _run_one(arguments, loaded, settings, policy, bar_from(i))
            for i, policy in enumerate(policies)
        ]
    context = multiprocessing.get_context("spawn")
    done = context.Array("q", len(policies), lock=False)
    executor = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(arguments, done)
    )
    try:
        futures = [executor.submit(_work, i, policy) for i, policy in enumerate(policies)]
        pending: set[Future[Summary]] = set(futures)
        while pending:
            finished, pending = wait(pending, timeout=_POLL_S)
            for future in finished:
                future.result()  # a fault of one run ends all of them
            bar(sum(done))
        executor.shutdown()
        return [future.result() for future in futures]
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
