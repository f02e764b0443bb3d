"""SGLangQueue: the order SGLang ships, with its faults."""

from __future__ import annotations

from radixcache import DEFAULT_NAMESPACE, Namespace, PagePool, PrefixKey, RadixCache
from scheduler.policies import SGLangLPM
from scheduler.queues import make_queue
from scheduler.request import Request, RequestState
from scheduler.sglang_queue import SGLangQueue


def state(seq: int, tokens: list[int], namespace: Namespace = DEFAULT_NAMESPACE) -> RequestState:
    request = Request(
        rid=str(seq),
        key=PrefixKey(tokens, namespace),
        prompt_tokens=len(tokens),
        max_new_tokens=1,
    )
    return RequestState(request, arrival_seq=seq, page_size=1, submitted_s=0.0)


def queue_of(cache: RadixCache, *states: RequestState) -> SGLangQueue:
    queue = SGLangQueue(cache)
    for one in states:
        queue.add(one)
    return queue


def order(queue: SGLangQueue) -> str:
    return "".join(candidate.state.rid for candidate in queue.candidates())


def warm(cache: RadixCache, pool: PagePool, tokens: list[int]) -> None:
    cache.release(cache.insert(PrefixKey(tokens), pool.allocate(len(tokens))).handle)


def test_c64_in_batch_followers_go_last() -> None:
    """[cold group a, b warm, c, d, e], a, c and e share 100 tokens: b, a, d, c, e."""
    cache, pool = RadixCache(1), PagePool(1000)
    shared = list(range(1000, 1100))
    warm(cache, pool, list(range(1, 61)))
    queue = queue_of(
        cache,
        state(0, [*shared, 1]),
        state(1, [*range(1, 61), 7]),
        state(2, [*shared, 2]),
        state(3, [*range(5000, 5040)]),
        state(4, [*shared, 3]),
    )
    queue.begin_pass(0.0)
    assert order(queue) == "10324"


def test_sharing_needs_32_tokens_and_one_namespace() -> None:
    cache = RadixCache(1)
    start = list(range(32))
    queue = queue_of(
        cache,
        state(0, start),
        state(1, start[:31]),
        state(2, [*start, 1], Namespace.of(extra_key="other")),
        state(3, [*start[:31], 99]),
        state(4, [*start, 2]),
        state(5, [77]),
    )
    queue.begin_pass(0.0)
    assert order(queue) == "012354"


def test_above_128_waiting_the_order_is_left_as_it_is() -> None:
    cache, pool = RadixCache(1), PagePool(10_000)
    queue = queue_of(cache, *(state(seq, [seq, 500, 501]) for seq in range(128)))
    warm(cache, pool, [127, 500])
    warm(cache, pool, [126, 500])
    queue.begin_pass(0.0)
    first = [c.state.arrival_seq for c in queue.candidates()]
    assert first[:3] == [126, 127, 0]
    queue.add(state(128, [1, 2, 3]))
    warm(cache, pool, [128, 500])
    warm(cache, pool, [5, 500])
    queue.begin_pass(0.0)
    # What is left of the last order, then the arrival; the new match of 5 is not seen.
    assert [c.state.arrival_seq for c in queue.candidates()] == [*first, 128]
    queue.admit(next(iter(queue.candidates())).state, 2)
    queue.begin_pass(0.0)
    assert [c.state.arrival_seq for c in queue.candidates()][:2] == [127, 5]


def test_a_pass_refreshes_ages() -> None:
    cache, pool = RadixCache(1), PagePool(100)
    warm(cache, pool, [1, 2])
    warm(cache, pool, [3, 4])
    queue = queue_of(cache, state(0, [1, 2, 9]))
    queue.begin_pass(0.0)
    cache.evict(2)
    # Without the pass [1, 2] would have been the older one.
    assert cache.peek(PrefixKey([1, 2])).prefix_tokens == 2
    assert cache.size.protected_pages == 0


def test_it_counts_what_waits() -> None:
    cache, pool = RadixCache(1), PagePool(100)
    warm(cache, pool, [1, 2])
    queue = make_queue(SGLangLPM(), cache, hold=False, waiting_aware=False)
    one = state(0, [1, 2, 9])
    queue.add(one)
    assert (len(queue), one in queue) == (1, True)
    assert (queue.matched_tokens, queue.backlog_tokens) == (2, 1)
    queue.remove(one)
    assert (len(queue), one in queue) == (0, False)
