"""ModelShape: what a model keeps in KV memory for a token, and what a token costs to compute.

Layers are counted by how their memory grows. Full attention keeps keys and values of every
token; a sliding window keeps those of the last tokens only; latent attention (MLA) keeps one
compressed vector and one rotary key; a linear or Mamba layer keeps a state of constant size.
Only what grows with the context makes a token's price; the rest is named, not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from radixcache.errors import ConfigError

__all__ = [
    "DTYPE_BYTES",
    "Experts",
    "LayerGroup",
    "LayerKind",
    "ModelShape",
    "dtype_bytes",
]

LayerKind = Literal["full", "latent", "window", "state"]

DTYPE_BYTES: dict[str, float] = {
    "fp32": 4,
    "float32": 4,
    "bf16": 2,
    "bfloat16": 2,
    "fp16": 2,
    "float16": 2,
    "half": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "fp4": 0.5,
    "int4": 0.5,
}
"""Bytes of one value. Scales that a quantised cache keeps beside it are not counted."""


def dtype_bytes(name: str) -> float:
    """Return the bytes of one value of a type, as vLLM, SGLang or PyTorch name it.

    Raises: ConfigError for an unknown name.
    """
    known = DTYPE_BYTES.get(name.lower().removeprefix("torch."))
    if known is None:
        raise ConfigError(f"dtype is {name!r}: use one of {', '.join(DTYPE_BYTES)}")
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """Layers of one kind and size."""

    kind: LayerKind
    layers: int
    values_per_token: int = 0
    """Numbers kept for a token in one layer; 0 for a state of constant size."""
    pair_flops: int = 0
    """FLOPs of one layer for one query and one key."""
    window_tokens: int | None = None

    @classmethod
    def grouped(
        cls,
        layers: int,
        *,
        query_heads: int,
        kv_heads: int,
        head_dim: int,
        window_tokens: int | None = None,
    ) -> LayerGroup:
        """Return layers of grouped-query attention: 2 * kv_heads * head_dim values a token."""
        return cls(
            kind="full" if window_tokens is None else "window",
            layers=layers,
            values_per_token=2 * kv_heads * head_dim,
            pair_flops=4 * query_heads * head_dim,
            window_tokens=window_tokens,
        )

    @classmethod
    def latent(cls, layers: int, *, query_heads: int, rank: int, rope_dim: int) -> LayerGroup:
        """Return layers of multi-head latent attention: rank + rope_dim values a token.

        Ref: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2; the FLOPs are of the absorbed form.
        """
        return cls(
            kind="latent",
            layers=layers,
            values_per_token=rank + rope_dim,
            pair_flops=2 * query_heads * (2 * rank + rope_dim),
        )


@dataclass(frozen=True, slots=True)
class Experts:
    """Experts of each mixture layer, and how many of them one token uses."""

    count: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """One model; frozen, so that it can be part of a run's settings."""

    name: str
    source: str
    """Where the numbers come from."""
    groups: tuple[LayerGroup, ...]
    dtype: str = "bf16"
    """Of keys and values where no other is asked for."""
    params: float | None = None
    """Weights; None: not known from the configuration."""
    active_params: float | None = None
    """Weights one token passes; None: all of them."""
    weight_bytes: float | None = None
    """Bytes of all weights; None: 2 a weight."""
    experts: Experts | None = None
    notes: tuple[str, ...] = ()
    """What the configuration has that is not modelled, beside what the groups say."""

    @property
    def layers(self) -> int:
        """All layers, whatever they keep."""
        return sum(group.layers for group in self.groups)

    def kv_bytes_per_token(self, dtype: str | None = None) -> float:
        """Return the bytes a token adds to the KV memory of its request.

        Grouped attention: 2 * layers * kv_heads * head_dim * bytes; latent: layers *
        (kv_lora_rank + qk_rope_head_dim) * bytes. Windows and states add nothing.
        """
        growing = sum(g.layers * g.values_per_token for g in self.groups if _grows(g))
        return growing * dtype_bytes(dtype or self.dtype)

    def window_bytes_per_request(self, dtype: str | None = None) -> float:
        """Return the bytes that the window layers of one long request keep at most."""
        width = dtype_bytes(dtype or self.dtype)
        return width * sum(
            g.layers * g.values_per_token * (g.window_tokens or 0)
            for g in self.groups
            if g.kind == "window"
        )

    def pair_flops(self) -> int:
        """Return the FLOPs of one query and one key over all layers that see every key."""
        return sum(group.layers * group.pair_flops for group in self.groups if _grows(group))

    def not_modelled(self, dtype: str | None = None) -> list[str]:
        """Return what this model has beside plain full attention, a sentence each."""
        lines = []
        for group in self.groups:
            if group.kind == "window":
                mib = self.window_bytes_per_request(dtype) / 2**20
                lines.append(
                    f"{group.layers} of {self.layers} layers keep a window of "
                    f"{group.window_tokens} tokens (at most {mib:.1f} MiB a request): not counted, "
                    "and a prefix is taken to be reusable whole"
                )
            elif group.kind == "state":
                lines.append(
                    f"{group.layers} of {self.layers} layers keep a state of constant size: not "
                    "counted, and engines reuse a prefix only where that state was saved"
                )
            elif group.kind == "latent":
                lines.append(
                    f"{group.layers} layers of latent attention (MLA): one copy on each GPU of a "
                    "tensor-parallel group, and the layout of an engine's fp8 cache may differ"
                )
        return [*lines, *self.notes]


def _grows(group: LayerGroup) -> bool:
    return group.kind in {"full", "latent"}
