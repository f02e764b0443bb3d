"""Engine presets: how an engine fills its steps and guards its memory, by name.

A preset is the habits of an engine, not the engine: the same cost model, cache and order run
under each. None knows the true length of an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from radixcache.errors import ConfigError
from scheduler.config import AdaptiveRatio, SchedulerConfig

__all__ = ["PRESETS", "EnginePreset", "preset_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePreset:
    """Settings of a scheduler under one name; what is not named keeps its default."""

    name: str
    title: str
    """The habits in one line, for a report."""
    order: str
    """The order to take where none is asked for: what the engine offers for prefix reuse."""
    settings: Mapping[str, Any]
    """Fields of `SchedulerConfig` that differ from the defaults."""

    def config(self, page_size: int, **asked: Any) -> SchedulerConfig:
        """Return the preset's configuration; fields in ``asked`` that are not None win."""
        own = {name: value for name, value in asked.items() if value is not None}
        return SchedulerConfig(page_size=page_size, **{**self.settings, **own})


OURS = EnginePreset(
    name="ours",
    title="mixed steps, prompt and max_new_tokens reserved at admission, followers held",
    order="lpm",
    settings=MappingProxyType({}),
)

# Ref: vLLM v1 ``core/sched/scheduler.py``: running requests first, then the queue, in one
# token budget; blocks as needed; ``running[-1]`` preempted and recomputed, its blocks stay
# hashed in the free list; nothing admitted in a step that preempted; the first waiting request
# that does not fit blocks; blocks can be shared from the step that computes them on.
# Unlike there, the prompt of an admitted request is reserved, not only checked to fit
# (``scheduler_reserve_full_isl``), and output is published at the end, not block by block.
VLLM = EnginePreset(
    name="vllm",
    title="mixed steps in one token budget, pages as needed, the last admitted preempted and "
    "recomputed, shared from scheduling on",
    order="fcfs",
    settings=MappingProxyType(
        {
            "steps": "mixed",
            "decodes_in_budget": True,
            "output_reserve_ratio": 0.0,
            "retract": "last-admitted",
            "publish_retracted": True,
            "publish": "schedule",
            "hold": "off",
            "lookahead": 0,
        }
    ),
)

# Ref: SGLang 0.5.23 ``managers/scheduler.py`` (get_next_batch_to_run, update_running_batch),
# ``schedule_policy.py`` (PrefillAdder), ``schedule_batch.py`` (retract_decode): a prefill batch
# goes before any decode, its last prompt cut at the chunk; the first that does not fit ends the
# pass; a retracted request leaves nothing new in the tree. Unlike there, chunks are not cut to
# pages, admission is tried in every step (no ``batch_is_full`` flag), an unfinished prompt keeps
# its pages promised, and a retraction stops as soon as the step fits.
SGLANG = EnginePreset(
    name="sglang",
    title="prefill before decodes, admission by new_token_ratio on max_new_tokens clipped at "
    "4096, the shortest output retracted, shared from completion on",
    order="sglang-lpm",
    settings=MappingProxyType(
        {
            "steps": "prefill-first",
            "output_reserve_ratio": AdaptiveRatio(),
            "retract": "fewest-output",
            "publish_retracted": False,
            "publish": "complete",
            "hold": "off",
            "lookahead": 0,
        }
    ),
)

PRESETS: Mapping[str, EnginePreset] = MappingProxyType(
    {preset.name: preset for preset in (OURS, VLLM, SGLANG)}
)


def preset_named(name: str) -> EnginePreset:
    """Return a preset by its name. Raises: ConfigError where there is none."""
    preset = PRESETS.get(name)
    if preset is None:
        raise ConfigError(f"preset is {name!r}: use one of {', '.join(PRESETS)}")
    return preset
