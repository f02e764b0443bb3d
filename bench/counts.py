"""How much Python a fixed workload runs: calls and opcodes, for the test that holds them.

    python -m bench.counts            compare with bench/counts.json
    python -m bench.counts --write    commit a new count

Opcodes of the two packages and all calls they make, C functions too. Counts depend on the
Python version, not on the machine; the file names the version it is for.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.instruments import calls_of, opcodes_of
from bench.runner import ROOT
from radixcache import KeyKind, PagePool, PrefixKey, RadixCache
from scheduler import OvertakeGuard, Request, RequestState, Scheduler, SchedulerConfig

__all__ = ["COUNTS_FILE", "WORKLOADS", "count_all", "python_name"]

COUNTS_FILE = ROOT / "bench" / "counts.json"
PAGE = 16


def python_name() -> str:
    """Return the implementation and minor version, on which the counts depend."""
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def chat_keys(seed: int) -> list[tuple[PrefixKey, PrefixKey]]:
    """Return (prompt, prompt + output) of 40 interleaved chats of 5 turns."""
    rng = random.Random(seed)
    history = [rng.randbytes(4 * 200)] * 40
    turns = []
    for chat in rng.sample([number for number in range(40) for _ in range(5)], 200):
        prompt = history[chat] + rng.randbytes(4 * rng.randrange(50, 150))
        history[chat] = full = prompt + rng.randbytes(4 * rng.randrange(50, 150))
        turns.append(tuple(PrefixKey.from_packed(data, KeyKind.TOKENS) for data in (prompt, full)))
    return turns  # type: ignore[return-value]


def serve_chats(keys: list[tuple[PrefixKey, PrefixKey]], policy: str) -> None:
    """Match, insert, release and evict: the cache alone."""
    cache = RadixCache(PAGE, policy=policy)
    slots = array("i", range(4_000))
    for prompt, full in keys:
        handle = cache.match(prompt)
        cache.peek(full)
        stored = cache.insert(full, slots[: len(full) // PAGE])
        cache.release(handle)
        cache.release(stored.handle)
        over = cache.size.total_pages - 600
        if over > 0:
            cache.evict(over)


def schedule_chats(keys: list[tuple[PrefixKey, PrefixKey]]) -> None:
    """Run the prompts through the scheduler, queue and guard to their end."""
    config = SchedulerConfig(page_size=PAGE, max_running=16, chunk_tokens=1024)
    guard = OvertakeGuard[RequestState](base_tokens=4096, kappa=0.5)
    scheduler = Scheduler(RadixCache(PAGE), PagePool(1_500), config, policy="lpm", guard=guard)
    for number, (key, _) in enumerate(keys):
        request = Request(rid=str(number), key=key, prompt_tokens=len(key), max_new_tokens=20)
        scheduler.submit(request, 0.0)
    now = 0.0
    while not scheduler.is_idle:
        now += 0.01
        batch = scheduler.schedule(now)
        unfinished = {chunk.rid for chunk in batch.chunks if not chunk.last}
        brought = {rid: ([7], None) for rid in batch.rids if rid not in unfinished}
        scheduler.complete(batch, brought, now)


def pack_keys(tokens: list[int]) -> None:
    """Make keys from what an engine has."""
    for _ in range(50):
        key = PrefixKey(tokens)
        PrefixKey(array("q", tokens))
        PrefixKey.from_block_ids(tokens[:100], 512)
        key.extend(tokens[:16])


def _workloads() -> dict[str, Callable[[], object]]:
    keys = chat_keys(1)
    return {
        "cache, lru": partial(serve_chats, keys, "lru"),
        "cache, mru": partial(serve_chats, keys, "mru"),
        "scheduler, lpm": partial(schedule_chats, keys),
        "packing": partial(pack_keys, list(range(1_000))),
    }


WORKLOADS = _workloads()
"""What is counted, by name."""


def count_all() -> dict[str, dict[str, int]]:
    """Return calls and opcodes of each workload."""
    found = {}
    for name, work in WORKLOADS.items():
        work()
        found[name] = {"calls": sum(calls_of(work).values()), "opcodes": opcodes_of(work)}
    return found


def main() -> None:
    """Print the counts beside the committed ones, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    counts: dict[str, Any] = {"python": python_name(), "counts": count_all()}
    if parser.parse_args().write:
        COUNTS_FILE.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    committed = json.loads(COUNTS_FILE.read_text(encoding="utf-8"))
    if committed["python"] != counts["python"]:
        print(f"the committed counts are of {committed['python']}, this is {counts['python']}")
    for name, kinds in counts["counts"].items():
        for kind, value in kinds.items():
            before = committed["counts"].get(name, {}).get(kind)
            change = f"{value / before - 1:+.1%}" if before else "new"
            print(f"{name:20s} {kind:8s} {value:10,d}  {change}")


if __name__ == "__main__":
    main()
