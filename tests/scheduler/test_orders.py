from __future__ import annotations

import random

import pytest

from radixcache import ConfigError, Namespace, PrefixKey, RadixCache
from scheduler.order_queues import DLPMQueue, HRRNQueue, make_tree
from scheduler.orders import (
    DLPM,
    HRRN,
    KLPM,
    LOF,
    AgedTiesLPM,
    CoveredFirstLPM,
    DFSWeight,
    LPMAging,
    Prioritized,
    RandomOrder,
    ThroughputLPM,
)
from scheduler.policies import LPM, SchedulePolicy
from scheduler.request import Request, RequestState
from scheduler.waiting_tree import WaitingTree
from tests.models.scheduler_driver import SchedulerDriver


def queue_of(policy: SchedulePolicy, *cached: list[int], hold: bool = False) -> WaitingTree:
    cache = RadixCache(1)
    first = 0
    for tokens in cached:
        cache.release(cache.insert(PrefixKey(tokens), range(first, first + len(tokens))).handle)
        first += len(tokens)
    return make_tree(policy, cache, hold=hold)


def wait(queue: WaitingTree, seq: int, tokens: list[int], **fields: object) -> RequestState:
    namespace = fields.pop("namespace", Namespace())
    request = Request(
        rid=f"r{seq}",
        key=PrefixKey(tokens, namespace),
        prompt_tokens=len(tokens),
        max_new_tokens=fields.pop("max_new_tokens", 1),
        **fields,
    )
    state = RequestState(request, arrival_seq=seq, page_size=1, submitted_s=0.0)
    queue.add(state)
    return state


def order(queue: WaitingTree) -> list[int]:
    return [candidate.state.arrival_seq for candidate in queue.candidates()]


def test_throughput_lpm_breaks_ties_by_arrival() -> None:
    queue = queue_of(ThroughputLPM(), [1, 2])
    wait(queue, 0, [9])
    wait(queue, 1, [1, 2, 3, 4, 5])
    wait(queue, 2, [1, 2, 3])
    assert order(queue) == [1, 2, 0]


def test_covered_first_puts_whole_prompts_before_longer_prefixes() -> None:
    queue = queue_of(CoveredFirstLPM(), [1, 2, 3], [5, 6])
    wait(queue, 0, [1, 2, 3, 4, 4])
    wait(queue, 1, [5, 6, 7])
    wait(queue, 2, [1, 2, 3, 4])
    wait(queue, 3, [9, 9])
    assert order(queue) == [2, 1, 0, 3]


def test_lof_puts_the_longest_output_first() -> None:
    queue = queue_of(LOF(), [1])
    for seq, limit in enumerate((5, 9, 5, 7)):
        wait(queue, seq, [1, 2], max_new_tokens=limit)
    assert order(queue) == [1, 3, 0, 2]


def test_a_random_order_depends_on_the_seed_and_on_nothing_else() -> None:
    def drawn(seed: int) -> list[int]:
        queue = queue_of(RandomOrder(seed))
        for seq in range(50):
            wait(queue, seq, [seq, 1])
        return order(queue)

    assert drawn(1) == drawn(1) != drawn(2)
    assert sorted(drawn(1)) == list(range(50)) != drawn(1)


@pytest.mark.parametrize("inner", [None, LPM()])
def test_priority_goes_before_the_other_order(inner: SchedulePolicy | None) -> None:
    queue = queue_of(Prioritized(inner), [1, 2, 3])
    wait(queue, 0, [9, 9], priority=0)
    wait(queue, 1, [1, 2, 3, 4], priority=0)
    wait(queue, 2, [8], priority=5)
    wait(queue, 3, [1, 2, 3, 4], priority=-1)
    assert order(queue) == ([2, 0, 1, 3] if inner is None else [2, 1, 0, 3])


def test_ageing_makes_up_for_a_shorter_prefix() -> None:
    queue = queue_of(LPMAging(tokens_per_pass=2), [1, 2, 3])
    wait(queue, 0, [9, 9])
    queue.begin_pass(0.0)
    wait(queue, 1, [1, 2, 3, 4])
    assert order(queue) == [1, 0]
    queue.begin_pass(0.0)
    wait(queue, 2, [1, 2, 3, 4])
    assert order(queue) == [1, 0, 2]


def test_every_kth_pick_is_the_oldest() -> None:
    queue = queue_of(KLPM(k=3), [1, 2, 3])
    states = [wait(queue, seq, [9, seq]) for seq in range(3)]
    states += [wait(queue, seq, [1, 2, 3, seq]) for seq in range(3, 8)]
    picked = []
    while len(queue):
        assert sorted(order(queue)) == sorted(s.arrival_seq for s in states)
        best = next(queue.candidates())
        queue.admit(best.state, best.matched_tokens)
        states.remove(best.state)
        picked.append(best.state.arrival_seq)
    assert picked == [3, 4, 0, 5, 6, 1, 7, 2]
    assert order(queue) == []
    with pytest.raises(ConfigError, match="k is 0"):
        queue_of(KLPM(k=0))


def test_hrrn_weighs_the_wait_against_the_work() -> None:
    queue = queue_of(HRRN(), [1, 2, 3])
    wait(queue, 0, [9] * 10)
    other = wait(queue, 1, [8] * 6)
    assert order(queue) == [0, 1]
    queue.admit(other, 0)
    queue.prefilled(6)
    wait(queue, 2, [1, 2, 3, 4])
    wait(queue, 3, [7] * 5)
    # The first has waited for 6 tokens, the others for none.
    assert order(queue) == [0, 2, 3]
    before = queue.changes
    queue.prefilled(2)
    assert queue.changes != before  # whoever found nobody to pick looks again
    # 8/10, 2/1, 2/5
    assert order(queue) == [2, 0, 3]
    queue.check()


def test_hrrn_counts_chunks_as_they_are_planned() -> None:
    d = SchedulerDriver(400, policy="hrrn", chunk_tokens=7, max_running=3)
    rng = random.Random(3)
    processed, at_arrival = 0, {}
    for n in range(60):
        rid = f"r{n}"
        tokens = [rng.choice((1, 1, 2)) for _ in range(rng.randrange(1, 30))]
        at_arrival[rid] = processed
        d.submit(rid, tokens, max_new_tokens=rng.randrange(1, 4))
        ranks = []
        for candidate in d.scheduler.queue.candidates():
            state = candidate.state
            uncached = state.prefill_tokens - candidate.matched_tokens
            ranks.append((-(processed - at_arrival[state.rid]) / uncached, state.arrival_seq))
        assert ranks == sorted(ranks)
        processed += d.step().prefill_tokens
    assert processed > 300


def test_ties_that_age_let_a_long_prompt_go_once_it_has_waited_four_times_its_excess() -> None:
    queue = queue_of(AgedTiesLPM(), [1, 2, 3])
    wait(queue, 0, [1, 2, 3, *range(50, 60)])  # 10 uncached
    wait(queue, 1, [1, 2, 3, *range(60, 64)])
    wait(queue, 2, [9])
    assert order(queue) == [1, 0, 2]  # of one time: as lpm
    queue.prefilled(23)
    wait(queue, 3, [1, 2, 3, *range(70, 74)])  # 6 uncached less, 23 tokens later
    assert order(queue) == [1, 3, 0, 2]
    queue.prefilled(2)
    wait(queue, 4, [1, 2, 3, *range(80, 84)])  # 25 tokens later
    assert order(queue) == [1, 3, 0, 4, 2]
    wait(queue, 5, [1, 2, 3, 4, 5])  # nothing to compute but 2, and 25 tokens later
    assert order(queue) == [1, 5, 3, 0, 4, 2]
    queue.check()


def test_dfs_weight_drains_the_heavier_subtree_first_and_matchless_requests_last() -> None:
    queue = queue_of(DFSWeight(), [1, 2, 3], [1, 2, 4], [5, 6])
    wait(queue, 0, [7, 7])
    wait(queue, 1, [5, 6, 1])
    wait(queue, 2, [1, 2, 9])
    wait(queue, 3, [1, 2, 4, 1])
    wait(queue, 4, [1, 2, 3, 1])
    wait(queue, 5, [1, 2, 3, 2])
    wait(queue, 6, [7], namespace=Namespace(extra_key="a"))
    assert order(queue) == [4, 5, 3, 2, 1, 0, 6]


def test_dlpm_serves_clients_by_turns() -> None:
    queue = queue_of(DLPM(quantum=4, decode_weight=2))
    assert isinstance(queue, DLPMQueue)
    for seq in range(4):
        wait(queue, seq, [1, 2, 3, 4], client_id="a")
    wait(queue, 4, [9] * 6, client_id="b")
    assert order(queue) == [0, 1, 2, 3, 4]
    first = next(queue.candidates()).state
    queue.admit(first, 0)
    assert (queue.deficit_of("a"), queue.deficit_of("b")) == (0, 4)
    assert order(queue) == [4]
    first.outputs.extend([1, 2, 3])
    queue.admit(next(queue.candidates()).state, 0)
    assert (queue.deficit_of("a"), queue.deficit_of("b")) == (-6, -2)
    assert order(queue) == [1, 2, 3]
    assert (queue.deficit_of("a"), queue.deficit_of("b")) == (2, 2)
    first.outputs.append(4)
    queue.given_up(first)
    assert queue.deficit_of("a") == 0
    with pytest.raises(ConfigError, match="quantum"):
        queue_of(DLPM(quantum=0))


@pytest.mark.parametrize(
    "policy",
    [LPMAging(), AgedTiesLPM(), KLPM(3), HRRN(), DFSWeight(), DLPM(quantum=3), CoveredFirstLPM()],
)
def test_no_order_loses_a_request(policy: SchedulePolicy) -> None:
    rng = random.Random(5)
    queue = queue_of(policy, [1, 1, 1], [1, 2], hold=True)
    waiting: list[RequestState] = []
    running: list[RequestState] = []
    for seq in range(300):
        queue.begin_pass(float(seq))
        tokens = [rng.choice((1, 1, 2)) for _ in range(rng.randrange(1, 8))]
        waiting.append(wait(queue, seq, tokens, client_id=rng.choice("ab")))
        if len(waiting) > 8:
            best = next(queue.candidates())
            queue.admit(best.state, best.matched_tokens)
            waiting.remove(best.state)
            running.append(best.state)
        if len(running) > 3:
            queue.given_up(running.pop(0))
        seen = order(queue)
        assert len(set(seen)) == len(seen)
        if not isinstance(queue, DLPMQueue):
            assert set(seen) == {state.arrival_seq for state in waiting}
        if isinstance(queue, HRRNQueue):
            assert len(queue._at_arrival) == len(waiting)
        queue.check()
