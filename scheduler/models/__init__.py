"""Models and GPUs as data: KV bytes a token, parameters, peak compute and bandwidth."""

from scheduler.models.catalogue import MODELS, model_named
from scheduler.models.gpus import GPUS, Gpu, gpu_named
from scheduler.models.hf_config import read_hf_config, shape_of_config
from scheduler.models.memory import capacity_tokens, memory_bytes
from scheduler.models.shape import DTYPE_BYTES, Experts, LayerGroup, ModelShape, dtype_bytes

__all__ = [
    "DTYPE_BYTES",
    "GPUS",
    "MODELS",
    "Experts",
    "Gpu",
    "LayerGroup",
    "ModelShape",
    "capacity_tokens",
    "dtype_bytes",
    "gpu_named",
    "memory_bytes",
    "model_named",
    "read_hf_config",
    "shape_of_config",
]
