"""The longest pauses of Python's garbage collector over a cache of 200,000 nodes.

    python -m bench pauses

The collector is on. "filling" grows the cache to 200,000 nodes; "serving" then serves requests
at capacity (match, insert a leaf, release, evict a leaf). Beside the cache an engine's own
records come and go, 20 a request, dropped every 500 requests: at capacity the cache itself makes
as many objects as it drops, so it alone would never wake the collector.

"never frozen" leaves the collector alone. "frozen" calls ``gc.collect(1); gc.freeze()`` every
500 requests, as an engine can between two steps: what survived is never walked again. Evicted
nodes leave no reference cycles, so freezing keeps nothing of the cache alive. A value is the
longest pause of a round in CPU time, the calls between the steps included.
"""

from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

from bench.runner import OURS, Options, Results, cpu_seconds, parse_options
from radixcache import KeyKind, PrefixKey, RadixCache

__all__ = ["run"]

PAGE = 16
NODES = 200_000
REQUESTS = 20_000
EVERY = 500
RECORDS = 20
MOST_ROUNDS = 3


@contextmanager
def recorded_pauses() -> Iterator[list[float]]:
    """Yield a list that grows by the seconds of each collection."""
    pauses: list[float] = []
    began = 0.0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = cpu_seconds()
        else:
            pauses.append(cpu_seconds() - began)

    gc.callbacks.append(note)
    try:
        yield pauses
    finally:
        gc.callbacks.remove(note)


class Served:
    """A cache, an engine's records, and an endless stream of requests with one new leaf each."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = RadixCache(PAGE)
        self.prefixes = [self.rng.randbytes(4 * PAGE) for _ in range(1_000)]
        self.table = array("i", [0, 1])
        self.records: list[list[int]] = []

    def run(self, count: int, *, evict: bool, freeze: bool) -> None:
        """Serve requests; at capacity each new leaf drives an old one out."""
        cache, rng = self.cache, self.rng
        for number in range(count):
            data = rng.choice(self.prefixes) + rng.randbytes(4 * PAGE)
            key = PrefixKey.from_packed(data, KeyKind.TOKENS)
            handle = cache.match(key)
            stored = cache.insert(key, self.table)
            cache.release(handle)
            cache.release(stored.handle)
            self.records += [[number] for _ in range(RECORDS)]
            if evict:
                cache.evict(1)
            if not number % EVERY:
                self.records.clear()
                if freeze:
                    gc.collect(1)
                    gc.freeze()


def run(options: Options) -> Results:
    """Fill and serve in both ways, from a new cache in each round."""
    results = Results(options)
    nodes, count = options.size(NODES, 10_000), options.size(REQUESTS, 4_000)
    for way in ("never frozen", "frozen"):
        longest: dict[str, list[float]] = {"filling": [], "serving": [], "a full collection": []}
        for round_number in range(min(options.rounds, MOST_ROUNDS)):
            gc.collect()
            gc.freeze()
            served = Served(options.seed + round_number)
            for phase, requests in (("filling", nodes), ("serving", count)):
                with recorded_pauses() as pauses:
                    served.run(requests, evict=phase == "serving", freeze=way == "frozen")
                longest[phase].append(max(pauses, default=0.0))
            start = cpu_seconds()
            gc.collect()
            longest["a full collection"].append(cpu_seconds() - start)
            del served
            gc.unfreeze()
        for phase, values in longest.items():
            results.add(f"longest pause, {phase}, {way}", OURS, values, nodes=nodes)
    return results


if __name__ == "__main__":
    run(parse_options("pauses")).save()
