"""GPUs as data: peak dense bf16 compute, memory bandwidth and memory of one card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from radixcache.errors import ConfigError

__all__ = ["GPUS", "Gpu", "gpu_named"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card, by its data sheet."""

    name: str
    tflops: float
    """Dense bf16 tensor TFLOP/s; data sheets often print twice as much, for sparse matrices."""
    bandwidth_gb_s: float
    """1e9 bytes a second."""
    memory_gb: float
    """1e9 bytes."""
    source: str


GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            Gpu("a100-80gb", 312, 2039, 80, "NVIDIA A100 data sheet, 80 GB SXM"),
            Gpu("h100", 989, 3350, 80, "NVIDIA H100 data sheet, SXM5"),
            Gpu("h200", 989, 4800, 141, "NVIDIA H200 data sheet, SXM"),
            Gpu("b200", 2250, 8000, 180, "NVIDIA HGX B200 data sheet, one of eight"),
            Gpu("l40s", 362, 864, 48, "NVIDIA L40S data sheet"),
            Gpu("l4", 121, 300, 24, "NVIDIA L4 data sheet"),
            Gpu("a10", 125, 600, 24, "NVIDIA A10 data sheet"),
            Gpu("mi300x", 1307, 5300, 192, "AMD Instinct MI300X data sheet"),
        )
    }
)
"""Every card by its name."""

_ALIASES = {
    "a100": "a100-80gb",
    "h100-sxm": "h100",
    "h100-80gb": "h100",
    "h200-sxm": "h200",
}


def gpu_named(name: str) -> Gpu:
    """Return a card by its name, whatever its case. Raises: ConfigError for an unknown one."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    gpu = GPUS.get(_ALIASES.get(key, key))
    if gpu is None:
        raise ConfigError(f"GPU {name!r} is not known: use one of {', '.join(GPUS)}")
    return gpu
