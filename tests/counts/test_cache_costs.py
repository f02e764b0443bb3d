"""What adversarial shapes cost, counted: lines run, bytes compared, heap sizes; no seconds."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from functools import partial
from math import log2

import pytest

from bench.instruments import calls_of, counting_key, lines_of
from radixcache import DEFAULT_NAMESPACE, KeyKind, PrefixKey, RadixCache

PAGE = 16
# Lines that a call may run outside its walk, and for each node on it. Measured 34 and 15.
FIXED_LINES, NODE_LINES = 40, 17
MANY = 100_000
POPS = ("heappop", "heapreplace", "heappushpop", "popleft")


def packed(*parts: bytes) -> PrefixKey:
    return PrefixKey.from_packed(b"".join(parts), KeyKind.TOKENS)


def put(cache: RadixCache, key: PrefixKey) -> None:
    pages = array("i", range(len(key) // cache.page_size))
    cache.release(cache.insert(key, pages).handle)


def touch(cache: RadixCache, key: PrefixKey) -> None:
    cache.release(cache.match(key))


def siblings(count: int) -> tuple[RadixCache, list[PrefixKey]]:
    """A root with many leaves of one page."""
    rng = random.Random(count)
    cache = RadixCache(PAGE)
    keys = [packed(rng.randbytes(4 * PAGE)) for _ in range(count)]
    for key in keys:
        put(cache, key)
    return cache, keys


def chain(depth: int) -> tuple[RadixCache, PrefixKey]:
    """A path of one-page nodes. Inserting each prefix costs the square of the depth."""
    cache = RadixCache(1)
    whole = PrefixKey(range(depth))
    put(cache, whole[:1])
    node = cache.match_prefix(whole[:1]).last_node
    for token in range(1, depth):
        edge = whole.data[4 * token : 4 * token + 4]
        node = cache._tree.attach(node, edge, array("i", [token]), 1)
    cache._evictable = depth
    cache._heap.offer(node)
    cache._heap.leaves = 1
    return cache, whole


def pops(work: Callable[[], object]) -> int:
    counts = calls_of(work)
    return sum(counts[name] for name in POPS)


def test_100000_touches_of_one_leaf_leave_nothing_behind() -> None:
    cache, keys = siblings(100)
    before = len(cache._heap)
    for _ in range(MANY):
        touch(cache, keys[7])
    assert len(cache._heap) <= before + 1
    # The touched leaf is ranked again once, not once a touch.
    assert pops(partial(cache.evict, 99)) <= 99 + 1
    assert cache.peek(keys[7]).prefix_tokens == PAGE
    cache.check()


def test_a_touch_takes_the_same_steps_whatever_was_touched_before() -> None:
    cache, keys = siblings(100)
    first = lines_of(partial(touch, cache, keys[7]))
    for _ in range(1_000):
        touch(cache, keys[7])
    assert lines_of(partial(touch, cache, keys[7])) == first


def test_a_chain_of_100000_nodes_costs_a_constant_a_node() -> None:
    cache, whole = chain(MANY)
    key, data = counting_key(whole)
    assert lines_of(partial(cache.peek, key)) <= FIXED_LINES + NODE_LINES * MANY
    assert data.compared_bytes <= 4 * MANY
    assert data.comparisons <= MANY
    handle = cache.match(key)
    assert lines_of(partial(cache.release, handle)) <= FIXED_LINES + NODE_LINES * MANY
    assert len(cache._heap) <= 2 + 64


def test_a_chain_is_evicted_node_by_node_with_one_pop_each() -> None:
    cache, _ = chain(MANY)
    assert pops(partial(cache.evict, MANY // 100)) <= MANY // 100 + 1
    few, more = (lines_of(partial(cache.evict, count)) for count in (100, 200))
    assert more <= 2 * few
    assert len(cache._heap) <= 2 + 64


def test_a_walk_below_100000_siblings_runs_what_it_runs_below_ten() -> None:
    lines = []
    for count in (10, MANY):
        cache, keys = siblings(count)
        missing = PrefixKey(range(PAGE))
        calls: list[Callable[[], object]] = [
            partial(cache.peek, keys[3]),
            partial(touch, cache, keys[3]),
            partial(cache.match, missing),
            partial(put, cache, missing),
        ]
        lines.append([lines_of(call) for call in calls])
        assert len(cache._heap) <= 2 * (count + 1) + 64
    few, many = lines
    assert many == few


@pytest.mark.parametrize("policy", ["lru", "mru", "lfu"])
def test_pops_of_an_evicted_page_do_not_grow_with_the_leaves(policy: str) -> None:
    ratios = []
    for count in (1_000, 30_000):
        rng = random.Random(count)
        cache = RadixCache(PAGE, policy=policy)
        keys = [packed(rng.randbytes(4 * PAGE)) for _ in range(count)]
        for key in keys:
            put(cache, key)
        for key in rng.sample(keys, count // 2):
            touch(cache, key)
        ratios.append(pops(partial(cache.evict, count // 10)) / (count // 10))
    assert ratios[1] <= 1.1 * ratios[0]


def test_a_prompt_of_a_million_tokens_is_compared_once() -> None:
    tokens = 1_000_000
    whole = packed(random.Random(1).randbytes(4 * tokens))
    cache = RadixCache(PAGE)
    put(cache, whole)
    key, data = counting_key(whole)
    assert lines_of(partial(cache.peek, key)) <= FIXED_LINES + NODE_LINES
    assert (data.comparisons, data.compared_bytes) == (1, 4 * tokens)
    touch(cache, key)
    assert data.comparisons == 2


@pytest.mark.parametrize("shared_tokens", [PAGE, 500_000, 999_984])
def test_where_a_million_tokens_differ_is_found_by_bisection(shared_tokens: int) -> None:
    tokens = 1_000_000
    rng = random.Random(2)
    whole = packed(rng.randbytes(4 * tokens))
    cache = RadixCache(PAGE)
    put(cache, whole)
    other, data = counting_key(
        packed(whole.data[: 4 * shared_tokens], rng.randbytes(4 * (tokens - shared_tokens)))
    )
    assert cache.peek(other).prefix_tokens == shared_tokens
    assert data.comparisons <= log2(tokens / PAGE) + 4
    # The whole edge twice at most, then halves of what is left.
    assert data.compared_bytes <= 3 * 4 * tokens


def test_a_split_costs_the_same_with_100000_descendants() -> None:
    lines = []
    for count in (10, MANY):
        rng = random.Random(count)
        cache = RadixCache(1)
        trunk = rng.randbytes(4 * 64)
        for _ in range(count):
            put(cache, packed(trunk, rng.randbytes(8)))
        (node,) = cache._tree.roots[DEFAULT_NAMESPACE].children.values()
        assert len(node.children) > count * 0.99
        lines.append(lines_of(partial(cache.match, packed(trunk[: 4 * 32]))))
    assert lines[0] == lines[1]
