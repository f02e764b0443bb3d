"""SGLang's own queue pass, for ``schedule.py``: original files, heavy imports stubbed."""

from __future__ import annotations

import gc
import importlib
import time
from array import array
from types import SimpleNamespace
from typing import Any

__all__ = ["pass_seconds"]


def _tokens(data: bytes) -> array[int]:
    return array("q", memoryview(data).cast("I").tolist())


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


def pass_seconds(prompts: list[bytes], page_size: int, shared: int, rounds: int) -> list[float]:
    """Return CPU seconds of ``calc_priority`` over the prompts, their shared prefixes cached.

    The cache is SGLang's default (the Rust core). Above 128 waiting requests SGLang does not
    match at all; that limit is lifted here.
    """
    adapter = importlib.import_module("harness").SglangUnifiedRust(page_size)
    numpy = importlib.import_module("numpy")
    for data in {data[: 4 * shared] for data in prompts}:
        key = adapter.key(numpy.frombuffer(data, dtype=numpy.uint32))
        adapter.insert(key, None, None)
    module = importlib.import_module("sglang.srt.managers.schedule_policy")
    module.WAITING_QUEUE_PREFIX_MATCH_MAX = len(prompts)
    policy = module.SchedulePolicy("lpm", adapter.c, False, False, False)
    queue = [_Request(f"r{number}", data) for number, data in enumerate(prompts)]
    values = []
    for _ in range(rounds + 1):
        gc.collect()
        start = time.process_time()
        policy.calc_priority(queue)
        values.append(time.process_time() - start)
        assert queue[0].num_matched_prefix_tokens == shared
    return values[1:]
