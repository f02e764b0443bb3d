"""SGLang 0.5.23: its Python radix tree, its default cache with the Rust core, its queue pass."""

from __future__ import annotations

import gc
import importlib
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from bench.peer_loader import install, need, site_packages
from bench.subjects import Subject

__all__ = ["SglangPython", "SglangRust", "load_sglang", "pass_seconds"]

VERSION = "0.5.23"
_REAL = (
    "sglang",
    "sglang.srt",
    "sglang.srt.environ",
    "sglang.srt.managers",
    "sglang.srt.managers.schedule_policy",
    "sglang.srt.mem_cache",
    "sglang.srt.mem_cache.base_prefix_cache",
    "sglang.srt.mem_cache.cache_init_params",
    "sglang.srt.mem_cache.common",
    "sglang.srt.mem_cache.events",
    "sglang.srt.mem_cache.evict_policy",
    "sglang.srt.mem_cache.hicache_storage",
    "sglang.srt.mem_cache.radix_cache",
    "sglang.srt.mem_cache.rust_tree_core.*",
    "sglang.srt.mem_cache.unified_cache.*",
    "sglang.srt.mem_cache.unified_radix_cache",
    "sglang.srt.mem_cache.utils",
    "sglang.srt.rust_extensions.*",
    "sglang.srt.session.streaming_session",
    "sglang.srt.utils.rank_consensus_checker",
)
_MOST_TOKENS = 300_000


def _context(module: Any) -> None:
    memory = SimpleNamespace(radix_eviction_policy="lru", enable_hierarchical_cache=False)
    split = SimpleNamespace(
        disaggregation_mode="null", disaggregation_decode_retraction_backup=None
    )
    module.get_memory = lambda: memory
    module.get_disagg = lambda: split
    module.get_observability = lambda: SimpleNamespace(extra_metric_labels=None)


def _check_int64(value: Any, name: str) -> None:
    # As in sglang.srt.utils.common: it runs on the measured path.
    if not isinstance(value, array) or value.typecode != "q":
        raise TypeError(f'{name} must be array("q")')


def _utilities(module: Any) -> None:
    module.assert_int64_array = _check_int64
    module.get_bool_env_var = lambda name, default="false": False
    module.is_gfx95_supported = module.is_hip = module.is_npu = lambda: False
    module.ceil_align = lambda value, size: -(-value // size) * size
    module.get_device_module = lambda: importlib.import_module("torch").cpu


def _interleave(module: Any) -> None:
    module.page_interleave_shard_size = lambda allocator: 1


def load_sglang(peers_dir: Path) -> None:
    """Make ``sglang`` importable from ``<peers_dir>/sglang``.

    Raises:
        PeerMissingError: it, or torch, is not there.

    """
    site_packages(peers_dir)
    need("torch").set_num_threads(1)
    patches = {
        "sglang.srt.runtime_context": _context,
        "sglang.srt.utils": _utilities,
        "sglang.srt.utils.common": _utilities,
        "sglang.srt.mem_cache.allocator.page_interleave": _interleave,
    }
    install(peers_dir / "sglang", "sglang", _REAL, patches, empty_roots=("triton",))
    need("sglang.srt.mem_cache.radix_cache")
    need("sglang.srt.mem_cache.unified_radix_cache")


class _Slots:
    """Stands in for the allocator: counts what is freed."""

    device = "cpu"
    page_size = 1

    def __init__(self) -> None:
        self.freed = 0

    def free(self, indices: Any) -> None:
        self.freed += len(indices)

    def free_segment(self, indices: Any, start_pos: int = 0) -> None:
        self.freed += len(indices)

    def free_segments(self, segments: Any) -> None:
        for indices, _ in segments:
            self.freed += len(indices)

    def available_size(self) -> int:
        return 0

    def get_kvcache(self) -> None:
        return None


class SglangPython(Subject):
    """``sglang.srt.mem_cache.radix_cache.RadixCache``, plain Python."""

    name = "SGLang Python"
    backend: ClassVar[str | None] = None
    _slots: ClassVar[Any] = None

    def __init__(self, page_size: int, capacity_tokens: int | None = None) -> None:
        base = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        params = importlib.import_module("sglang.srt.mem_cache.cache_init_params")
        tree = importlib.import_module("sglang.srt.mem_cache.radix_cache")
        self._key = tree.RadixKey
        self._match, self._insert = base.MatchPrefixParams, base.InsertParams
        self._evict = base.EvictParams
        self.cache = self._make(
            params.CacheInitParams,
            disable=False,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=_Slots(),
            page_size=page_size,
        )
        if SglangPython._slots is None:
            torch = importlib.import_module("torch")
            SglangPython._slots = torch.arange(0, _MOST_TOKENS, dtype=torch.int64)

    def _make(self, params: Any, **given: Any) -> Any:
        tree = importlib.import_module("sglang.srt.mem_cache.radix_cache")
        return tree.RadixCache(params(**given))

    def key(self, tokens: Any) -> Any:
        packed = array("q")
        packed.frombytes(tokens.astype("int64").tobytes())
        return packed, self._slots[: len(packed)]

    def match(self, request: Any) -> Any:
        return self.cache.match_prefix(self._match(key=self._key(request[0])))

    def matched(self, handle: Any) -> int:
        return int(handle.device_prefix_len)

    def lock(self, handle: Any) -> Any:
        return self.cache.lock(handle.last_device_node)

    def insert(self, full: Any, handle: Any, request: Any) -> Any:
        return self.cache.insert(self._insert(key=self._key(full[0]), value=full[1]))

    def unlock(self, token: Any) -> None:
        self.cache.unlock(token)

    def evict(self, tokens: int) -> Any:
        return self.cache.evict(self._evict(num_tokens=tokens))

    def size(self) -> int:
        return int(self.cache.evictable_size() + self.cache.protected_size())


class SglangRust(SglangPython):
    """``UnifiedRadixCache`` with the bundled Rust tree: SGLang's default."""

    name = "SGLang Rust"

    def _make(self, params: Any, **given: Any) -> Any:
        unified = importlib.import_module("sglang.srt.mem_cache.unified_radix_cache")
        kinds = importlib.import_module("sglang.srt.mem_cache.unified_cache.component_type")
        full = (kinds.ComponentType.FULL,)
        cache = unified.UnifiedRadixCache(
            params(**given, tree_components=full, tree_core_backend="rust")
        )
        assert type(cache.tree_core).__name__ == "RustUnifiedTreeCore"
        return cache


class _Request:
    """What ``calc_priority`` reads and writes of a request."""

    def __init__(self, rid: str, data: bytes) -> None:
        self.rid = rid
        self.origin_input_ids = _tokens(data)
        self.output_ids = array("q")
        self.extra_key = None
        self.cache_salt = None
        self.kv = SimpleNamespace(cache_protected_len=0)

    def __getattr__(self, name: str) -> Any:
        return None

    def _compute_max_prefix_len(self, input_len: int) -> int:
        return input_len - 1


def _tokens(data: bytes) -> array[int]:
    return array("q", memoryview(data).cast("I").tolist())


def pass_seconds(
    prompts: Sequence[bytes], page_size: int, shared_tokens: int, rounds: int
) -> list[float]:
    """Return CPU seconds of ``calc_priority`` over the prompts, their shared prefixes cached.

    The cache is SGLang's default. Above 128 waiting requests SGLang does not match at all;
    that limit is lifted here.
    """
    subject = SglangRust(page_size)
    for data in {data[: 4 * shared_tokens] for data in prompts}:
        tokens = _tokens(data)
        subject.insert((tokens, SglangPython._slots[: len(tokens)]), None, None)
    module: Any = importlib.import_module("sglang.srt.managers.schedule_policy")
    module.WAITING_QUEUE_PREFIX_MATCH_MAX = len(prompts)
    policy = module.SchedulePolicy("lpm", subject.cache, False, False, False)
    queue: list[Any] = [_Request(f"r{number}", data) for number, data in enumerate(prompts)]
    values = []
    for _ in range(rounds + 1):
        gc.collect()
        start = time.thread_time()
        policy.calc_priority(queue)
        values.append(time.thread_time() - start)
        assert queue[0].num_matched_prefix_tokens == shared_tokens
    return values[1:]
