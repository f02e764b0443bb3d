"""The cache alone, then the cache under a scheduler: the shortest way to both.

It prints what a second prompt found in the cache, then one line a step of a scheduler that
serves two prompts with a common prefix, and the share of prompt tokens it did not compute.

    python examples/quickstart.py
"""

from __future__ import annotations

from radixcache import PagePool, PrefixKey, RadixCache
from scheduler import Request, Scheduler, SchedulerConfig


def use_the_cache() -> None:
    cache, pool = RadixCache(page_size=4), PagePool(capacity_pages=64)
    prompt = PrefixKey(range(100, 112))  # packed once: 12 tokens, 3 pages
    done = cache.insert(prompt, pool.allocate(3))  # the cache owns the pages now; done pins them
    cache.release(done.handle)  # unpinned: they may be evicted

    again = PrefixKey([*range(100, 110), 7, 8])  # shares 10 tokens, 2 whole pages
    hit = cache.match(again)  # pinned until released
    print(hit.prefix_tokens, list(hit.pages), cache.size)
    cache.release(hit)
    pool.free(cache.evict(3))  # evict returns page ids; you free them


def use_the_scheduler() -> None:
    cache, pool = RadixCache(page_size=4), PagePool(capacity_pages=64)
    scheduler = Scheduler(cache, pool, SchedulerConfig(page_size=4), policy="lpm")
    shared = list(range(100, 120))
    for rid, question in (("first", [1, 2, 3]), ("second", [4, 5])):
        key = PrefixKey(shared + question)
        request = Request(rid=rid, key=key, prompt_tokens=len(key), max_new_tokens=2)
        scheduler.submit(request, now=0.0)

    step = 0
    while not scheduler.is_idle:
        batch = scheduler.schedule(now=float(step))
        chunks = [f"{c.rid}[{c.start_tokens}:{c.stop_tokens}]" for c in batch.chunks]
        print(f"step {step}: prefill {chunks}, decode {list(batch.decode_rids)}")
        # Your model runs here; this one says 7 to everything.
        results = {rid: ([7], None) for rid in batch.rids}
        scheduler.complete(batch, results, now=float(step + 1))
        step += 1
    total = scheduler.report().total
    print(f"hit {total.hit_tokens} of {total.prompt_tokens} prompt tokens: {total.hit_rate:.0%}")


if __name__ == "__main__":
    use_the_cache()
    use_the_scheduler()
