"""One run of a command: its settings from the command line, its summary, its assumptions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from radixcache.errors import ConfigError
from scheduler.cli.loaded import (
    DEFAULT_CAPACITY_TOKENS,
    Requests,
    said_of_outputs,
    setting_of,
)
from scheduler.cli.model_memory import said_of_memory, shape_from
from scheduler.cli.options import option_of
from scheduler.cli.progress import Bar
from scheduler.config import AdaptiveRatio, SchedulerConfig
from scheduler.models import gpu_named
from scheduler.queues import make_guard
from scheduler.registry import check_eviction, make_schedule_policy
from scheduler.report.recorder import Recorder
from scheduler.report.summary import EXTRAPOLATED, Summary, summarize
from scheduler.sim.closed_loop import ClosedLoop
from scheduler.sim.cost_model import CostModel, StepCost
from scheduler.sim.presets import EnginePreset, preset_named
from scheduler.sim.roofline import RooflineModel
from scheduler.sim.run import RunSettings, run_policy
from scheduler.sim.source import RequestSource
from scheduler.sim.watched_cost import WatchedCost

__all__ = [
    "capacity_of",
    "cost_model_of",
    "order_of",
    "presets_of",
    "run_names",
    "run_one",
    "settings_of",
]


def cost_model_of(arguments: argparse.Namespace) -> StepCost:
    """Return the cost model of the command line.

    Raises: ConfigError where two models are given, or a file or a name is none.
    """
    if arguments.gpu is not None:
        return _roofline(arguments)
    for name in ("gpus", "compute_efficiency", "bandwidth_efficiency"):
        if getattr(arguments, name) is not None:
            raise ConfigError(f"{option_of(name)} goes with --gpu: give both")
    if arguments.cost_model is not None:
        if arguments.prefill_rate is not None:
            raise ConfigError("--prefill-rate and --cost-model exclude each other: give one")
        return CostModel.from_json(arguments.cost_model)
    if arguments.prefill_rate is not None:
        return CostModel.from_rate(arguments.prefill_rate)
    return CostModel()


def _roofline(arguments: argparse.Namespace) -> RooflineModel:
    """Return the roofline of a model on a GPU. Raises: ConfigError."""
    for name in ("cost_model", "prefill_rate"):
        if getattr(arguments, name) is not None:
            raise ConfigError(f"--gpu and {option_of(name)} exclude each other: give one")
    shape = shape_from(arguments)
    if shape is None:
        raise ConfigError("--gpu needs the model: give --model NAME or --hf-config FILE")
    asked = {
        name: getattr(arguments, name)
        for name in ("gpus", "compute_efficiency", "bandwidth_efficiency")
        if getattr(arguments, name) is not None
    }
    return RooflineModel(
        shape=shape, gpu=gpu_named(arguments.gpu), kv_dtype=arguments.kv_dtype, **asked
    )


def capacity_of(arguments: argparse.Namespace) -> int:
    """Return the KV memory in tokens."""
    if arguments.capacity_tokens is not None:
        return int(arguments.capacity_tokens)
    setting = setting_of(arguments)
    return DEFAULT_CAPACITY_TOKENS if setting is None else setting.capacity_tokens


def settings_of(
    arguments: argparse.Namespace, loaded: Requests, cost: StepCost, run: str
) -> RunSettings:
    """Return the settings of a run. Raises: ConfigError."""
    check_eviction(arguments.eviction, "none")
    preset, _ = _split(arguments, run)
    return RunSettings(
        capacity_tokens=capacity_of(arguments),
        kind=loaded.kind,
        eviction=arguments.eviction,
        cost=cost,
        scheduler=_engine(arguments, loaded, preset),
    )


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
        lookahead=arguments.lookahead,
        guard_base_tokens=arguments.guard_base_tokens,
        guard_kappa=arguments.guard_kappa,
        waiting_aware=arguments.waiting_aware,
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


def order_of(arguments: argparse.Namespace, run: str) -> str:
    """Return the order of a run's name."""
    return _split(arguments, run)[1]


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
    guard = make_guard(order, config)
    aware = order.default_waiting_aware if config.waiting_aware is None else config.waiting_aware
    known = "true output lengths" if arguments.oracle_lengths else "max_new_tokens"
    return {
        **loaded.assumptions,
        **said_of_memory(arguments),
        "capacity_tokens": settings.capacity_tokens,
        "page_size": config.page_size,
        "chunk_tokens": config.chunk_tokens,
        "max_running": config.max_running,
        "max_in_flight": config.max_in_flight,
        "publish": config.publish,
        "hold": config.hold or order.default_hold,
        "lookahead": lookahead,
        "guard": guard.describe(),
        "waiting_aware": "yes" if aware else "no",
        "eviction": arguments.eviction,
        **_preemption(config),
        **said_of_outputs(arguments),
        **_samples(loaded),
        "output_reserve": _reserve(config, known),
        "preset": preset.name if "," in arguments.preset else f"{preset.name} ({preset.title})",
        "engine": settings.cost.describe(),
    }


def _samples(loaded: Requests) -> dict[str, str]:
    """Say how many answers are asked for, where they are more than the prompts."""
    bounds = loaded.bounds
    if bounds.requests == bounds.prompts:
        return {}
    return {"samples": f"{bounds.requests} answers to {bounds.prompts} prompts, as requests"}


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


def run_one(
    arguments: argparse.Namespace, loaded: Requests, cost: StepCost, run: str, bar: Bar
) -> Summary:
    """Run one order to its end and sum it up."""
    preset, policy = _split(arguments, run)
    settings = settings_of(arguments, loaded, cost, run)
    recorder = Recorder()
    source = loaded.source()
    watched = WatchedCost(settings.cost) if settings.cost.fitted else None
    own = settings if watched is None else replace(settings, cost=watched)
    run_policy(source, policy, own, recorder, on_progress=bar)
    return summarize(
        recorder,
        label=run,
        page_size=loaded.page_size,
        optimal_hit_rate=loaded.bounds.optimal.hit_rate,
        optimal_exact=loaded.bounds.optimal.exact,
        ceiling_hit_rate=loaded.bounds.ceiling_hit_rate,
        calibrated=settings.cost.calibrated,
        seed=arguments.seed,
        assumptions=_assumptions(arguments, loaded, settings, preset, policy)
        | _left_out(source)
        | _extrapolated(watched),
        details=arguments.command == "compare" and arguments.html is not None,
        unsent_requests=source.dropped_requests if isinstance(source, ClosedLoop) else 0,
    )


def _left_out(source: RequestSource) -> dict[str, str | int | float | bool | None]:
    """Say how many turns of a closed loop were never sent, if any."""
    dropped = source.dropped_requests if isinstance(source, ClosedLoop) else 0
    return {"turns_never_sent": dropped} if dropped else {}


def _extrapolated(cost: WatchedCost | None) -> dict[str, str | int | float | bool | None]:
    """Say how much of a run lies outside the range that a cost model was fitted to, if any."""
    outside = None if cost is None else cost.extrapolated()
    return {} if outside is None else {EXTRAPOLATED: outside}
