"""An eviction policy of one's own: a hit makes a leaf look younger.

LRU forgets a popular prefix as soon as enough one-off prompts have passed; LFU never forgets one
that was popular long ago. ``HitAged`` ranks a leaf by its last touch plus a bonus for each hit.

The stream asks for 12 popular prefixes among prompts that never come again; halfway through,
other 12 become popular. It prints the share of prompt tokens found in a cache of 160 pages, for
the first and the second half and for both, under LRU, LFU and this policy.

    python examples/custom_eviction_policy.py
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from radixcache import EvictionPolicy, Node, PagePool, PrefixKey, RadixCache

PAGE_SIZE = 4
CAPACITY_PAGES = 160


class HitAged(EvictionPolicy):
    """Least recently used first, each of the first hits counting as ``bonus_ticks`` of youth."""

    name = "hit-aged"
    # Ticks and hits only grow, so no rank falls while a leaf waits for its eviction.
    rank_can_fall = False

    def __init__(self, bonus_ticks: int = 120, most_hits: int = 4) -> None:
        self._bonus_ticks = bonus_ticks
        self._most_hits = most_hits

    def rank(self, node: Node) -> int:
        return node.tick + self._bonus_ticks * min(node.hits, self._most_hits)


def prompts(requests: int = 4000, seed: int = 3) -> Iterator[PrefixKey]:
    """Yield prompts: a third popular for a time, the rest asked once."""
    rng = random.Random(seed)
    popular = [[rng.randrange(50_000) for _ in range(40)] for _ in range(24)]
    for index in range(requests):
        now_popular = popular[:12] if index < requests // 2 else popular[12:]
        start = rng.choice(now_popular) if rng.random() < 1 / 3 else []
        length = 52 - len(start)
        yield PrefixKey([*start, *(rng.randrange(50_000) for _ in range(length))])


def hit_rates(cache: RadixCache, keys: Sequence[PrefixKey]) -> list[float]:
    """Run prompts through a cache, one at a time; return the hit rate of halves and whole."""
    pool = PagePool(CAPACITY_PAGES)
    hits = []
    for key in keys:
        found = cache.match(key)
        hits.append(found.prefix_tokens)
        need = len(key) // PAGE_SIZE - len(found.pages)
        if need > pool.free_pages:
            pool.free(cache.evict(need - pool.free_pages))
        done = cache.insert(key, [*found.pages, *pool.allocate(need)])
        pool.free(done.duplicate_pages)
        cache.release(found)
        cache.release(done.handle)
    half = len(keys) // 2
    lengths = [len(key) for key in keys]
    parts = (slice(half), slice(half, None), slice(None))
    return [sum(hits[part]) / sum(lengths[part]) for part in parts]


def main() -> None:
    keys = list(prompts())
    print("policy      first half  second half    both")
    for policy in ("lru", "lfu", HitAged()):
        cache = RadixCache(PAGE_SIZE, policy=policy)
        first, second, both = hit_rates(cache, keys)
        print(f"{cache.policy.name:10}  {first:10.1%}  {second:11.1%}  {both:6.1%}")


if __name__ == "__main__":
    main()
