"""The longest pauses of Python's garbage collector over a cache of 200,000 nodes.

    python -m bench pauses

Requests are served at capacity (match, insert a leaf, release, evict a leaf) with the collector
on. "never frozen" leaves it alone; "frozen once" calls ``gc.freeze()`` when the cache is full;
"frozen again and again" calls ``gc.collect(1); gc.freeze()`` every 2,000 requests, as an engine
can between two steps. Evicted nodes leave no reference cycles, so nothing of the cache is kept
alive by freezing it. A value is the longest pause of a round, wall clock.
"""

from __future__ import annotations

import gc
import random
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

from bench.runner import OURS, Options, Results, parse_options
from radixcache import KeyKind, PrefixKey, RadixCache

__all__ = ["run"]

PAGE = 16
NODES = 200_000
REQUESTS = 20_000
EVERY = 2_000
WAYS = ("never frozen", "frozen once", "frozen again and again")


@contextmanager
def recorded_pauses() -> Iterator[list[float]]:
    """Yield a list that grows by the seconds of each collection."""
    pauses: list[float] = []
    began = 0.0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            pauses.append(time.perf_counter() - began)

    gc.callbacks.append(note)
    try:
        yield pauses
    finally:
        gc.callbacks.remove(note)


class Served:
    """A full cache and an endless stream of requests with one new leaf each."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = RadixCache(PAGE)
        self.prefixes = [self.rng.randbytes(4 * PAGE) for _ in range(1_000)]
        self.table = array("i", [0, 1])
        for _ in range(nodes):
            self._serve()

    def _serve(self) -> None:
        data = self.rng.choice(self.prefixes) + self.rng.randbytes(4 * PAGE)
        key = PrefixKey.from_packed(data, KeyKind.TOKENS)
        handle = self.cache.match(key)
        stored = self.cache.insert(key, self.table)
        self.cache.release(handle)
        self.cache.release(stored.handle)

    def run(self, count: int, *, freeze_every: int | None) -> None:
        """Serve requests; each new leaf drives an old one out."""
        for number in range(count):
            self._serve()
            self.cache.evict(1)
            if freeze_every is not None and not number % freeze_every:
                gc.collect(1)
                gc.freeze()


def run(options: Options) -> Results:
    """Serve the same number of requests in each way."""
    results = Results(options)
    nodes, count = options.size(NODES, 10_000), options.size(REQUESTS, 4_000)
    for way in WAYS:
        gc.unfreeze()
        served = Served(nodes, options.seed)
        gc.collect()
        if way != WAYS[0]:
            gc.freeze()
        longest = []
        for _ in range(options.rounds):
            with recorded_pauses() as pauses:
                served.run(count, freeze_every=EVERY if way == WAYS[2] else None)
            longest.append(max(pauses, default=0.0))
        results.add(f"longest pause, {way}", OURS, longest, nodes=nodes, requests=count)
        if way == WAYS[0]:
            start = time.perf_counter()
            gc.collect()
            full = time.perf_counter() - start
            results.add("a full collection", OURS, [full], nodes=nodes)
        del served
        gc.unfreeze()
    return results


if __name__ == "__main__":
    run(parse_options("pauses")).save()
