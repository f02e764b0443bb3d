from __future__ import annotations

from collections import Counter

import pytest

from radixcache import (
    DEFAULT_NAMESPACE,
    IntegrityError,
    KeyKind,
    Namespace,
    NullCache,
    PrefixCache,
    PrefixKey,
    RadixCache,
)
from scheduler import waiting_nodes
from scheduler.policies import LPM
from scheduler.request import Request, RequestState
from scheduler.waiting_nodes import Node
from scheduler.waiting_tree import WaitingTree


def waiting(
    tree: WaitingTree, seq: int, key: PrefixKey | list[int], page_size: int = 1
) -> RequestState:
    """Add a request for the prompt and return its state."""
    key = key if isinstance(key, PrefixKey) else PrefixKey(key)
    request = Request(rid=f"r{seq}", key=key, prompt_tokens=len(key), max_new_tokens=1)
    state = RequestState(request, arrival_seq=seq, page_size=page_size, submitted_s=0.0)
    tree.add(state)
    return state


def store(cache: PrefixCache, key: PrefixKey | list[int]) -> None:
    key = key if isinstance(key, PrefixKey) else PrefixKey(key)
    pages = range(1000, 1000 + len(key) // cache.page_size)
    cache.release(cache.insert(key, pages).handle)


def seen(tree: WaitingTree) -> list[tuple[str, int, bool]]:
    return [(c.state.rid, c.matched_tokens, c.held) for c in tree.candidates()]


def nodes_of(tree: WaitingTree) -> list[Node]:
    nodes = list(tree._trie.roots.values())
    for node in nodes:
        nodes += node.children.values()
    return nodes


def test_the_longest_cached_prefix_goes_first_and_the_shortest_prompt_on_ties() -> None:
    cache = RadixCache(1)
    store(cache, [1, 2, 3])
    tree = WaitingTree(cache, LPM())
    waiting(tree, 0, [9, 9])
    waiting(tree, 1, [1, 2, 3, 4, 5])
    waiting(tree, 2, [1, 2, 3, 4])
    waiting(tree, 3, [1, 2, 5])
    assert seen(tree) == [("r2", 3, False), ("r1", 3, False), ("r3", 2, False), ("r0", 0, False)]
    assert [c.state.rid for c in tree.best_of_groups()] == ["r2", "r3", "r0"]
    assert (tree.matched_tokens, tree.backlog_tokens) == (8, 6)


def test_requests_that_fit_no_page_wait_at_the_root() -> None:
    tree = WaitingTree(RadixCache(4), LPM())
    waiting(tree, 0, [1, 2, 3, 4], 4)
    assert seen(tree) == [("r0", 0, False)]
    assert tree.pending_optimal_tokens == 0


def test_followers_are_held_until_the_leader_has_published_what_they_need() -> None:
    cache = RadixCache(1)
    tree = WaitingTree(cache, LPM())
    leader = waiting(tree, 0, [1, 2, 3, 4])
    waiting(tree, 1, [1, 2, 3, 4, 5, 6])
    waiting(tree, 2, [1, 2, 7, 8, 8, 8, 8])
    waiting(tree, 3, [6])
    tree.admit(leader, 0)
    # The last page of the leader's prompt is beyond its own cap, and pending too.
    assert seen(tree) == [("r1", 0, True), ("r2", 0, True), ("r3", 0, False)]
    assert tree.pending_optimal_tokens == 1 + 4
    half = cache.insert(leader.key, [10, 11], 2)
    tree.published(leader, 2)
    assert seen(tree) == [("r1", 2, True), ("r2", 2, False), ("r3", 0, False)]
    cache.insert(leader.key, [10, 11, 12, 13])
    tree.published(leader, 4)
    assert seen(tree) == [("r1", 4, False), ("r2", 2, False), ("r3", 0, False)]
    assert half.handle.prefix_tokens == 2
    tree.check()


def test_followers_are_released_when_the_leader_gives_up() -> None:
    tree = WaitingTree(RadixCache(1), LPM())
    leader = waiting(tree, 0, [1, 2, 3])
    waiting(tree, 1, [1, 2, 4, 4])
    tree.admit(leader, 0)
    assert seen(tree) == [("r1", 0, True)]
    tree.given_up(leader)
    tree.given_up(leader)
    assert seen(tree) == [("r1", 0, False)]
    assert tree.pending_optimal_tokens == 3


def test_a_prefix_with_two_leaders_is_pending_until_both_give_up() -> None:
    tree = WaitingTree(RadixCache(1), LPM())
    first = waiting(tree, 0, [1, 2, 3])
    second = waiting(tree, 1, [1, 2, 4])
    waiting(tree, 2, [1, 2, 5])
    tree.admit(first, 0)
    tree.admit(second, 0)
    tree.given_up(first)
    assert seen(tree) == [("r2", 0, True)]
    tree.given_up(second)
    assert seen(tree) == [("r2", 0, False)]


def test_a_later_arrival_finds_what_is_pending() -> None:
    tree = WaitingTree(RadixCache(2), LPM())
    leader = waiting(tree, 0, [1, 2, 3, 4, 5], 2)
    tree.admit(leader, 0)
    waiting(tree, 1, [1, 2, 3, 4, 9, 9, 9], 2)
    assert seen(tree) == [("r1", 0, True)]
    assert tree.pending_optimal_tokens == 2


def test_without_hold_nobody_waits_for_anybody() -> None:
    tree = WaitingTree(RadixCache(1), LPM(), hold=False)
    leader = waiting(tree, 0, [1, 2, 3])
    waiting(tree, 1, [1, 2, 4, 4])
    tree.admit(leader, 0)
    assert seen(tree) == [("r1", 0, False)]


def test_a_cache_that_keeps_nothing_frees_the_followers() -> None:
    cache = NullCache(1)
    tree = WaitingTree(cache, LPM())
    leader = waiting(tree, 0, [1, 2, 3, 4])
    waiting(tree, 1, [1, 2, 3, 5, 5])
    tree.admit(leader, 0)
    cache.insert(leader.key, [0, 1], 2)
    tree.published(leader, 2)
    assert seen(tree) == [("r1", 0, False)]
    tree.check()


def test_namespaces_never_share() -> None:
    cache = RadixCache(1)
    store(cache, [1, 2, 3])
    tree = WaitingTree(cache, LPM())
    waiting(tree, 0, PrefixKey([1, 2, 3, 4], Namespace(extra_key="a")))
    waiting(tree, 1, [1, 2, 3, 4])
    assert seen(tree) == [("r1", 3, False), ("r0", 0, False)]
    assert tree.protected_tokens(Namespace(extra_key="a"), PrefixKey([1, 2, 9]).data) == 2
    assert tree.protected_tokens(Namespace(extra_key="b"), PrefixKey([1, 2, 9]).data) == 0


@pytest.mark.parametrize("kind", [KeyKind.WIDE, KeyKind.BLOCKS])
def test_other_kinds_of_keys_are_matched_by_whole_pages(kind: KeyKind) -> None:
    def key(*ids: int) -> PrefixKey:
        if kind is KeyKind.BLOCKS:
            return PrefixKey.from_block_ids(ids, 4)
        return PrefixKey([token for i in ids for token in (i, i, i, i + 2**40)], wide=True)

    cache = RadixCache(4, kind=kind)
    store(cache, key(1, 2))
    tree = WaitingTree(cache, LPM())
    waiting(tree, 0, key(1, 5, 6), 4)
    waiting(tree, 1, key(1, 2, 3), 4)
    waiting(tree, 2, key(7, 8), 4)
    assert seen(tree) == [("r1", 8, False), ("r0", 4, False), ("r2", 0, False)]
    store(cache, key(1, 5, 7))
    assert seen(tree)[:2] == [("r0", 8, False), ("r1", 8, False)]
    tree.check()


def test_what_waiting_requests_need_is_evicted_last_and_freely_once_they_are_gone() -> None:
    cache = RadixCache(1)
    fell: list[tuple[Namespace, bytes]] = []

    def unneeded(namespace: Namespace, key_bytes: bytes) -> None:
        fell.append((namespace, key_bytes))
        cache.rank_fell(namespace, key_bytes)

    tree = WaitingTree(cache, LPM(), on_unneeded=unneeded)
    cache.set_protection(tree.protected_tokens)
    store(cache, [1, 2, 3])
    store(cache, [4, 5, 6])
    state = waiting(tree, 0, [1, 2, 9, 9])
    other = waiting(tree, 1, [1, 2, 8, 8])
    cache.evict(4)
    assert cache.peek(PrefixKey([1, 2, 3])).prefix_tokens == 2
    tree.remove(other)
    assert not fell
    tree.remove(state)
    assert fell == [(DEFAULT_NAMESPACE, PrefixKey([1, 2]).data)]
    store(cache, [7, 7])
    cache.evict(2)
    assert cache.peek(PrefixKey([7, 7])).prefix_tokens == 2
    cache.check()


def test_storing_and_evicting_a_prefix_touches_none_of_its_100000_followers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: Counter[str] = Counter()
    cache = RadixCache(1)
    tree = WaitingTree(cache, LPM())
    for seq in range(100_000):
        waiting(tree, seq, [1, 2, 3, 4, 5 + seq, 0])
    (prefix,) = tree._trie.roots[DEFAULT_NAMESPACE].children.values()
    entries = [len(node.entries) for node in nodes_of(tree)]

    def counting_push(heap: list[object], entry: object) -> None:
        calls["push"] += 1
        heappush(heap, entry)

    def counting_settle(node: Node) -> bool:
        calls["settle"] += 1
        return settle(tree._trie, node)

    heappush, settle = waiting_nodes.heappush, type(tree._trie).settle
    monkeypatch.setattr(waiting_nodes, "heappush", counting_push)
    monkeypatch.setattr(type(tree._trie), "settle", lambda _trie, node: counting_settle(node))
    store(cache, [1, 2, 3, 4])
    assert next(tree.candidates()).matched_tokens == 4
    assert tree.matched_tokens == 400_000
    cache.evict(2)
    assert next(tree.candidates()).matched_tokens == 2
    assert tree.matched_tokens == 200_000
    assert calls["push"] <= 8
    assert calls["settle"] <= 8
    assert prefix.count == 100_000
    assert sum(len(node.entries) for node in nodes_of(tree)) <= sum(entries) + calls["push"]


def test_dead_nodes_and_stale_entries_do_not_accumulate() -> None:
    cache = RadixCache(1)
    tree = WaitingTree(cache, LPM())
    alive = [waiting(tree, seq, [1, 2, 3, seq % 7, seq % 11, 4]) for seq in range(40)]
    for seq in range(40, 3_000):
        alive.append(waiting(tree, seq, [1, 2, seq % 3, seq % 7, seq % 11, 4]))
        state = next(tree.candidates()).state
        alive.remove(state)
        tree.admit(state, cache.match(state.key, state.cap_tokens).prefix_tokens)
        if seq % 3:
            cache.release(cache.insert(state.key, range(6 * seq, 6 * seq + 6)).handle)
            tree.published(state, 6)
        tree.given_up(state)
    nodes = nodes_of(tree)
    assert len(nodes) <= 6 * len(alive)
    live = sum(node.live for node in nodes)
    assert sum(len(node.entries) for node in nodes) <= 2 * live + 8 * len(nodes)
    for state in alive:
        tree.remove(state)
    assert not tree._trie.roots
    assert not tree._trie.groups.entries
    tree.check()


def test_keys_of_requests_that_are_gone_are_not_kept_alive() -> None:
    tree = WaitingTree(RadixCache(1), LPM())
    stays = waiting(tree, 0, [1, 2, 3])
    goes = [waiting(tree, seq, [1, 2, 3, 4 + seq, 5]) for seq in range(1, 6)]
    same = waiting(tree, 9, [1, 2, 3])
    for state in (*goes, stays):
        tree.remove(state)
    kept = {id(node.data) for node in nodes_of(tree) if node.depth}
    assert kept == {id(same.key.data)}


def test_a_returned_request_is_ranked_with_its_output() -> None:
    tree = WaitingTree(RadixCache(1), LPM())
    state = waiting(tree, 0, [1, 2, 3])
    tree.admit(state, 0)
    tree.given_up(state)
    state.key = state.key[:]
    state.key.extend([7, 8])
    state.prefill_tokens = 5
    state.renew_cap()
    assert state not in tree
    tree.add(state)
    assert state in tree
    assert tree.backlog_tokens == 5
    assert tree.pending_optimal_tokens == 4


def test_a_closed_tree_hears_no_more() -> None:
    cache = RadixCache(1)
    tree = WaitingTree(cache, LPM())
    waiting(tree, 0, [1, 2, 3])
    tree.close()
    store(cache, [1, 2])
    assert seen(tree) == [("r0", 0, False)]
    with pytest.raises(IntegrityError, match="thought to match 0, not 2"):
        tree.check()


def test_check_finds_a_wrong_count() -> None:
    tree = WaitingTree(RadixCache(1), LPM())
    waiting(tree, 0, [1, 2, 3])
    tree._trie.roots[DEFAULT_NAMESPACE].count += 1
    with pytest.raises(IntegrityError, match="requests below"):
        tree.check()
