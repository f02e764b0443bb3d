from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from radixcache.errors import ConfigError
from scheduler.registry import make_schedule_policy
from scheduler.report.recorder import Recorder
from scheduler.sim.presets import PRESETS, preset_named
from scheduler.sim.run import RunSettings, run_policy
from scheduler.trace.single_prompts import few_shot

REQUESTS = list(few_shot(1, requests=60, systems=2, example_sets=2, rate_per_s=30))


def run(preset: str, policy: str, capacity_tokens: int) -> Recorder:
    config = PRESETS[preset].config(64, max_running=16)
    recorder = Recorder()
    settings = RunSettings(capacity_tokens=capacity_tokens, scheduler=config)
    run_policy(REQUESTS, policy, settings, recorder)
    return recorder


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_serves_every_request_of_a_tight_pool(preset: str) -> None:
    recorder = run(preset, PRESETS[preset].order, 12_000)
    assert dict(recorder.ended) == {"stop": len(REQUESTS)}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_repeats(preset: str) -> None:
    one, two = (run(preset, "fcfs", 12_000) for _ in range(2))
    assert one.finished_s == two.finished_s
    assert one.step_duration_s == two.step_duration_s


def test_who_reserves_no_output_retracts() -> None:
    retractions = {name: sum(run(name, "lpm", 12_000).retractions) for name in PRESETS}
    assert retractions["ours"] == 0
    assert retractions["vllm"] > 0


def test_sglang_lets_no_decode_run_beside_a_prefill() -> None:
    shares = {}
    for name in PRESETS:
        config = PRESETS[name].config(64, max_running=16)
        mixed = []

        class Steps(Recorder):
            def on_step(self, record, mixed=mixed):  # type: ignore[no-untyped-def]
                super().on_step(record)
                mixed.append(bool(record.prefill_tokens and record.decode_tokens))

        run_policy(REQUESTS, "lpm", RunSettings(capacity_tokens=64_000, scheduler=config), Steps())
        shares[name] = sum(mixed)
    assert shares["sglang"] == 0
    assert shares["ours"] > 0
    assert shares["vllm"] > 0


def test_presets_are_frozen_and_known_by_name() -> None:
    with pytest.raises(ConfigError, match="ours, vllm, sglang"):
        preset_named("tgi")
    with pytest.raises(FrozenInstanceError):
        PRESETS["ours"].name = "mine"  # type: ignore[misc]
    with pytest.raises(TypeError):
        PRESETS["ours"].settings["steps"] = "mixed"  # type: ignore[index]
    for preset in PRESETS.values():
        make_schedule_policy(preset.order)


def test_what_is_asked_for_wins_over_the_preset() -> None:
    config = PRESETS["vllm"].config(16, publish="complete", hold=None, lookahead=3)
    assert (config.publish, config.hold, config.lookahead) == ("complete", "off", 3)
