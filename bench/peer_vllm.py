"""vLLM 0.33.0: its KVCacheManager, which hashes blocks and evicts inside ``insert``."""

from __future__ import annotations

import enum
import importlib
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from bench.peer_loader import install, need, site_packages
from bench.subjects import Subject

__all__ = ["Vllm", "load_vllm"]

VERSION = "0.33.0"
_REAL = (
    "vllm.distributed.kv_events",
    "vllm.utils.hashing",
    "vllm.utils.math_utils",
    "vllm.v1.core.block_pool",
    "vllm.v1.core.kv_cache_coordinator",
    "vllm.v1.core.kv_cache_manager",
    "vllm.v1.core.kv_cache_metrics",
    "vllm.v1.core.kv_cache_planning",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.single_type_kv_cache_manager",
    "vllm.v1.hisparse.block_pool",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_layout",
    "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.kv_hints",
    "vllm.v1.metrics.cache_hit_source",
    "vllm.v1.metrics.stats",
    "vllm.v1.request",
)


class _Logger(logging.Logger):
    def warning_once(self, *args: Any) -> None:
        pass

    info_once = debug_once = warning_once


def _logger(module: Any) -> None:
    module.init_logger = lambda name: _Logger(name, logging.CRITICAL)


def _length(ids: Any, embeds: Any) -> int:
    return len(embeds if ids is None else ids)


def _utilities(module: Any) -> None:
    module.length_from_prompt_token_ids_or_embeds = _length


def _torch_utilities(module: Any) -> None:
    torch = importlib.import_module("torch")
    module.get_dtype_size = lambda dtype: torch.tensor([], dtype=dtype).element_size()
    module.PIN_MEMORY = False


def _environment(module: Any) -> None:
    module.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES = True
    module.VLLM_PREFIX_CACHE_RETENTION_INTERVAL = None


class _FinishReason(enum.IntEnum):
    STOP = 1
    LENGTH = 2
    ABORT = 3
    ERROR = 4
    REPETITION = 5
    PREEMPTED = 6
    OTHER = 7


def _engine(module: Any) -> None:
    module.FinishReason = _FinishReason


def _structured(module: Any) -> None:
    module.StructuredOutputRequest = SimpleNamespace(from_sampling_params=lambda params: None)


class _View:
    """Read-only view of a list that grows; as thin as Python allows."""

    __slots__ = ("_items",)

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Any:
        return iter(self._items)


def _v1_utilities(module: Any) -> None:
    module.ConstantList = _View


def load_vllm(peers_dir: Path) -> None:
    """Make vLLM's block manager importable from ``<peers_dir>/vllm``.

    Raises:
        PeerMissingError: it, or torch, is not there.

    """
    site_packages(peers_dir)
    need("torch").set_num_threads(1)
    patches = {
        "vllm.logger": _logger,
        "vllm.utils": _utilities,
        "vllm.utils.torch_utils": _torch_utilities,
        "vllm.v1.utils": _v1_utilities,
        "vllm.v1.structured_output.request": _structured,
        "vllm.envs": _environment,
        "vllm.v1.engine": _engine,
    }
    install(peers_dir / "vllm", "vllm", _REAL, patches)
    need("vllm.v1.core.kv_cache_manager")


class Vllm(Subject):
    """``KVCacheManager`` with xxhash, its fastest hash; ``begin`` hashes the prompt."""

    name = "vLLM xxhash"
    hash_name: ClassVar[str] = "xxhash"
    has_lock = False
    self_evicting = True
    pool_tokens: ClassVar[int] = 0
    """Size of the pool where no capacity is given; set it to what the workload needs."""

    def __init__(self, page_size: int, capacity_tokens: int | None = None) -> None:
        utilities = importlib.import_module("vllm.v1.core.kv_cache_utils")
        manager = importlib.import_module("vllm.v1.core.kv_cache_manager")
        shapes = importlib.import_module("vllm.v1.kv_cache_interface")
        hashing = importlib.import_module("vllm.utils.hashing")
        self._request_type = importlib.import_module("vllm.v1.request").Request
        hash_function = hashing.get_hash_fn_by_name(self.hash_name)
        utilities.init_none_hash(hash_function)
        self._hasher = utilities.get_request_block_hasher(page_size, hash_function)
        self._sampling = SimpleNamespace(
            max_tokens=1, extra_args=None, skip_reading_prefix_cache=None
        )
        float32 = importlib.import_module("torch").float32
        spec = shapes.FullAttentionSpec(
            block_size=page_size, num_kv_heads=1, head_size=1, dtype=float32
        )
        config = shapes.KVCacheConfig(
            num_blocks=(capacity_tokens or self.pool_tokens) // page_size + 2,
            kv_cache_tensors=[],
            kv_cache_groups=[shapes.KVCacheGroupSpec(["layer"], spec)],
        )
        self.cache = manager.KVCacheManager(
            config,
            max_model_len=400_000,
            scheduler_block_size=page_size,
            hash_block_size=page_size,
            enable_caching=True,
            log_stats=False,
        )
        self._number = 0
        self._live: Any = None

    def key(self, tokens: Any) -> Any:
        return tokens.tolist()

    def fullkey(self, prompt_key: Any, tokens: Any, prompt_tokens: int) -> Any:
        return tokens[prompt_tokens:].tolist()

    def begin(self, key: Any) -> Any:
        self._number += 1
        self._live = self._request_type(
            str(self._number), key, self._sampling, None, arrival_time=0.0,
            block_hasher=self._hasher,
        )  # fmt: skip
        return self._live

    def match(self, request: Any) -> Any:
        return self.cache.get_computed_blocks(request)

    def matched(self, handle: Any) -> int:
        return int(handle[1])

    def encode(self, full: Any, handle: Any, request: Any) -> Any:
        if full:
            request.append_output_token_ids(full)
        return full

    def insert(self, full: Any, handle: Any, request: Any) -> Any:
        new = self.cache.allocate_slots(
            request, request.num_tokens - handle[1], handle[1], handle[0]
        )
        assert new is not None
        return request

    def unlock(self, token: Any) -> None:
        self.cache.free(self._live)
