"""Well-known models as data: layers, heads and parameters from their published configurations.

Each entry is what `config.json` of the named repository says (layers, query heads, KV heads,
head size); parameters are those of the model card. ``model_named`` finds an entry by a short
name or by the repository's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from radixcache.errors import ConfigError
from scheduler.models.shape import Experts, LayerGroup, ModelShape

__all__ = ["MODELS", "model_named"]

_PLAIN: tuple[tuple[str, str, float, int, int, int, int], ...] = (
    # name, repository, 1e9 parameters, layers, query heads, KV heads, head size
    ("llama-3.1-8b", "meta-llama/Llama-3.1-8B", 8.03, 32, 32, 8, 128),
    ("llama-3.1-70b", "meta-llama/Llama-3.1-70B", 70.6, 80, 64, 8, 128),
    ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", 70.6, 80, 64, 8, 128),
    ("llama-3.1-405b", "meta-llama/Llama-3.1-405B", 405.9, 126, 128, 8, 128),
    ("llama-3.2-1b", "meta-llama/Llama-3.2-1B", 1.24, 16, 32, 8, 64),
    ("llama-3.2-3b", "meta-llama/Llama-3.2-3B", 3.21, 28, 24, 8, 128),
    ("qwen2.5-7b", "Qwen/Qwen2.5-7B", 7.62, 28, 28, 4, 128),
    ("qwen2.5-14b", "Qwen/Qwen2.5-14B", 14.8, 48, 40, 8, 128),
    ("qwen2.5-32b", "Qwen/Qwen2.5-32B", 32.8, 64, 40, 8, 128),
    ("qwen2.5-72b", "Qwen/Qwen2.5-72B", 72.7, 80, 64, 8, 128),
    ("qwen3-4b", "Qwen/Qwen3-4B", 4.02, 36, 32, 8, 128),
    ("qwen3-8b", "Qwen/Qwen3-8B", 8.19, 36, 32, 8, 128),
    ("qwen3-14b", "Qwen/Qwen3-14B", 14.8, 40, 40, 8, 128),
    ("qwen3-32b", "Qwen/Qwen3-32B", 32.8, 64, 64, 8, 128),
    ("mistral-7b", "mistralai/Mistral-7B-v0.3", 7.25, 32, 32, 8, 128),
    ("phi-4", "microsoft/phi-4", 14.7, 40, 40, 10, 128),
)

_MIXTURES: tuple[tuple[str, str, float, float, Experts, int, int, int, int], ...] = (
    # name, repository, 1e9 parameters, active, experts, layers, query heads, KV heads, head size
    (
        *("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", 30.5, 3.3),
        *(Experts(128, 8), 48, 32, 4, 128),
    ),
    (
        *("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", 235.0, 22.0),
        *(Experts(128, 8), 94, 64, 4, 128),
    ),
    (
        *("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1", 46.7, 12.9),
        *(Experts(8, 2), 32, 32, 8, 128),
    ),
)

_GPT_OSS = "; parameters and checkpoint size: its model card, arXiv:2508.10925"


def _source(repository: str) -> str:
    return f"{repository} on Hugging Face: config.json, model card"


def _alternating(
    name: str,
    source: str,
    *,
    params: float,
    full: int,
    window: int,
    window_tokens: int,
    heads: tuple[int, int, int],
    active_params: float | None = None,
    weight_bytes: float | None = None,
    experts: Experts | None = None,
) -> ModelShape:
    """Return a model of full and window layers; heads: query heads, KV heads, head size."""
    query_heads, kv_heads, head_dim = heads
    return ModelShape(
        name=name,
        source=source,
        groups=tuple(
            LayerGroup.grouped(
                layers,
                query_heads=query_heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                window_tokens=tokens,
            )
            for layers, tokens in ((full, None), (window, window_tokens))
        ),
        params=params,
        active_params=active_params,
        weight_bytes=weight_bytes,
        experts=experts,
    )


def _entries() -> Iterator[ModelShape]:
    for name, repository, params, layers, query_heads, kv_heads, head_dim in _PLAIN:
        yield ModelShape(
            name=name,
            source=_source(repository),
            groups=(
                LayerGroup.grouped(
                    layers, query_heads=query_heads, kv_heads=kv_heads, head_dim=head_dim
                ),
            ),
            params=params * 1e9,
        )
    for name, repository, params, active, experts, layers, query, kv, head_dim in _MIXTURES:
        yield ModelShape(
            name=name,
            source=_source(repository),
            groups=(LayerGroup.grouped(layers, query_heads=query, kv_heads=kv, head_dim=head_dim),),
            params=params * 1e9,
            active_params=active * 1e9,
            experts=experts,
        )


def _special() -> Iterator[ModelShape]:
    # Every other layer is local, from the first on.
    yield _alternating(
        "gemma-2-27b",
        _source("google/gemma-2-27b") + "; arXiv:2408.00118, table 1",
        params=27.2e9,
        full=23,
        window=23,
        window_tokens=4096,
        heads=(32, 16, 128),
    )
    # Five local layers, then a global one, over 62.
    yield _alternating(
        "gemma-3-27b",
        _source("google/gemma-3-27b-it"),
        params=27.4e9,
        full=10,
        window=52,
        window_tokens=1024,
        heads=(32, 16, 128),
    )
    yield _alternating(
        "gpt-oss-20b",
        _source("openai/gpt-oss-20b") + _GPT_OSS,
        params=20.9e9,
        active_params=3.6e9,
        weight_bytes=12.8 * 2**30,
        experts=Experts(32, 4),
        full=12,
        window=12,
        window_tokens=128,
        heads=(64, 8, 64),
    )
    yield _alternating(
        "gpt-oss-120b",
        _source("openai/gpt-oss-120b") + _GPT_OSS,
        params=116.8e9,
        active_params=5.1e9,
        weight_bytes=60.8 * 2**30,
        experts=Experts(128, 4),
        full=18,
        window=18,
        window_tokens=128,
        heads=(64, 8, 64),
    )
    yield ModelShape(
        name="deepseek-v3",
        source=_source("deepseek-ai/DeepSeek-V3"),
        groups=(LayerGroup.latent(61, query_heads=128, rank=512, rope_dim=64),),
        params=671e9,
        active_params=37e9,
        weight_bytes=671e9,  # published in fp8
        experts=Experts(256, 8),
    )


MODELS: Mapping[str, ModelShape] = MappingProxyType(
    {shape.name: shape for shape in (*_entries(), *_special())}
)
"""Every model by its short name."""

# Mistral 7B v0.1 is another model: all its layers have a window.
_VERSIONS = re.compile(r"(?<=^mixtral-8x7b)-v0\.1$|(?<=^mixtral-8x7b-instruct)-v0\.1$|-v0\.[23]$")
_ENDINGS = re.compile(r"-(instruct|it|chat|base)$")
_ALIASES = {"deepseek-r1": "deepseek-v3", "deepseek-v3.1": "deepseek-v3"}


def model_named(name: str) -> ModelShape:
    """Return a model by its short name or its repository's, whatever its case.

    Raises: ConfigError for an unknown name, with the nearest ones.
    """
    key = name.strip().lower().rsplit("/", 1)[-1].removeprefix("meta-")
    key = _ENDINGS.sub("", _VERSIONS.sub("", key))
    shape = MODELS.get(_ALIASES.get(key, key))
    if shape is None:
        near = get_close_matches(key, MODELS, n=3, cutoff=0.6) or sorted(MODELS)
        raise ConfigError(
            f"model {name!r} is not in the catalogue: use one of {', '.join(near)}, or give its "
            "configuration with --hf-config config.json"
        )
    return shape
