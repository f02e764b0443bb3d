"""Evicting: one leaf, and a page in bulk, from 1,000 to 1,000,000 leaves, for every policy.

    python -m bench evict --peers-dir PEERS

Leaves of 2 pages of 16 tokens hang below the root, unpinned, a third of them matched again in
random order. "evict a leaf" is one call for one leaf; "evict a page" is one call for at most
1,000 leaves, a page of it; "heap pops a page" counts what such a call takes off the heap. "pop
an entry" is heapq alone on entries like the cache's: how much cache misses cost at each size.
The peers evict one leaf a call at 10,000 and 100,000 leaves.
"""

from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop
from typing import Any

import numpy as np

from bench.instruments import calls_of
from bench.peer_registry import find_peers
from bench.runner import OURS, Options, Results, alternate, cpu_seconds, parse_options
from bench.subjects import Ours, Subject
from radixcache import EVICTION_POLICIES, KeyKind, PrefixKey, RadixCache

__all__ = ["filled_cache", "run"]

PAGE = 16
LEAF_PAGES = 2
LEAF_TOKENS = PAGE * LEAF_PAGES
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PEER_SIZES = (10_000, 100_000)
_POPS = ("heappop", "heapreplace", "heappushpop", "popleft")


def filled_cache(policy: str, leaves: int, seed: int) -> RadixCache:
    """Return a cache of unpinned leaves, a third of them touched since."""
    rng = random.Random(seed)
    cache = RadixCache(PAGE, policy=policy)
    keys = []
    for number in range(leaves):
        key = PrefixKey.from_packed(rng.randbytes(4 * LEAF_TOKENS), KeyKind.TOKENS)
        table = array("i", range(LEAF_PAGES * number, LEAF_PAGES * (number + 1)))
        cache.release(cache.insert(key, table, priority=rng.randrange(4)).handle)
        keys.append(key)
    for key in rng.sample(keys, leaves // 3):
        cache.release(cache.match(key))
    return cache


def policy_turn(cache: RadixCache, leaves: int) -> dict[str, float]:
    """Evict leaf by leaf, then many at once."""
    calls = min(20, leaves // 100)
    start = cpu_seconds()
    for _ in range(calls):
        cache.evict(LEAF_PAGES)
    one = (cpu_seconds() - start) / calls
    pages = _bulk_pages(leaves)
    start = cpu_seconds()
    cache.evict(pages)
    return {"evict a leaf": one, "evict a page": (cpu_seconds() - start) / pages}


def pops_per_page(cache: RadixCache, leaves: int) -> float:
    """Return how many entries one call takes off the heap for each page it evicts."""
    pages = LEAF_PAGES * min(1_000, leaves // 5)
    counts = calls_of(partial(cache.evict, pages))
    return sum(counts[name] for name in _POPS) / pages


def bare_heap_turn(leaves: int, seed: int) -> dict[str, float]:
    """Pop entries like the cache's off a heap of nothing else: what no cache can avoid."""
    rng = random.Random(seed)
    heap = [
        (0, tick, number, [number]) for number, tick in enumerate(rng.sample(range(leaves), leaves))
    ]
    heapify(heap)
    gc.collect()
    pops = _bulk_pages(leaves) // LEAF_PAGES
    start = cpu_seconds()
    for _ in range(pops):
        heappop(heap)
    return {"pop an entry": (cpu_seconds() - start) / pops}


def peer_turn(subject: Subject) -> dict[str, float]:
    """Evict one leaf a call."""
    calls = 8
    start = cpu_seconds()
    for _ in range(calls):
        subject.evict(LEAF_TOKENS)
    return {"evict a leaf, beside peers": (cpu_seconds() - start) / calls}


def run(options: Options) -> Results:
    """Measure every policy at every size, then the peers."""
    results = Results(options)
    for leaves in SIZES[: options.size(len(SIZES), 2)]:
        for policy in EVICTION_POLICIES:
            if leaves > 100_000 and policy != "lru" and not options.everything:
                continue
            cache = filled_cache(policy, leaves, options.seed)
            facts: dict[str, Any] = {"policy": policy, "leaves": leaves}
            found = alternate(options.rounds, {OURS: partial(policy_turn, cache, leaves)})
            label = f"of {leaves:,}, {policy}"
            results.add_group(found, label, **facts)
            pops = pops_per_page(cache, leaves)
            results.add(f"heap pops a page {label}", OURS, [pops], "integer", **facts)
            del cache, found
            gc.collect()
        bare = {"heapq alone": partial(bare_heap_turn, leaves, options.seed)}
        results.add_group(alternate(options.rounds, bare), f"of {leaves:,}", leaves=leaves)
    peers = find_peers(options.peers_dir, results.skip, only=("SGLang",))
    subjects: list[type[Subject]] = [Ours, *peers]
    for leaves in PEER_SIZES[: options.size(2, 1)] if peers else ():
        turns: dict[str, Callable[[], dict[str, float]]] = {}
        for kind in subjects:
            turns[kind.name] = partial(peer_turn, _filled_subject(kind, leaves, options.seed))
        found = alternate(options.rounds, turns)
        results.add_group(found, f"of {leaves:,}", leaves=leaves)
    return results


def _bulk_pages(leaves: int) -> int:
    return LEAF_PAGES * min(1_000, leaves // 50)


def _filled_subject(kind: type[Subject], leaves: int, seed: int) -> Subject:
    subject = kind(PAGE, None)
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1_000, 2**31, size=(leaves, LEAF_TOKENS), dtype=np.int64)
    for row in tokens:
        subject.insert(subject.key(row), None, None)
    return subject


if __name__ == "__main__":
    run(parse_options("evict")).save()
