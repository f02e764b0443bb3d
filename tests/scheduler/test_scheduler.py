"""Scheduler: the contract of its calls, one fact a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radixcache import (
    BatchOrderError,
    ConfigError,
    DuplicateRequestError,
    InvalidInputError,
    KeyKind,
    KeyKindError,
    NullCache,
    PagePool,
    PrefixKey,
    RadixCache,
    RequestError,
    TokenError,
    UnknownRequestError,
)
from scheduler.config import SchedulerConfig
from scheduler.events import Admitted, Finished, FirstToken, Retracted
from scheduler.request import Request, RequestStatus
from scheduler.scheduler import Scheduler
from tests.models.scheduler_driver import SchedulerDriver


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def test_a_request_runs_from_submit_to_its_length() -> None:
    d = SchedulerDriver(16, page_size=2)
    ticket = d.submit("r", upto(5), max_new_tokens=3)
    assert (ticket.rid, ticket.arrival_seq, ticket.bound_tokens) == ("r", 0, 4 * 8192)
    batch = d.schedule()
    assert [type(event) for event in batch.events] == [Admitted]
    assert batch.chunks[0][:] == ("r", 0, 5, True)
    assert [type(event) for event in d.complete(batch)] == [FirstToken]
    assert ticket.state.status is RequestStatus.DECODE
    batch = d.schedule()
    assert (batch.chunks, batch.decode_rids) == ((), ("r",))
    assert (batch.positions.tolist(), batch.lengths.tolist()) == ([5], [6])
    d.complete(batch)
    (event,) = d.complete(d.schedule())
    assert event == Finished(ticket.state, "length")
    state = ticket.state
    assert (state.submitted_s, state.admitted_s, state.first_token_s, state.finished_s) == (
        0.0,
        1.0,
        2.0,
        6.0,
    )
    # 5 + 3 - 1 tokens have KV: three full pages.
    assert d.cached([*upto(5), 90, 90, 90]) == 6
    assert d.all_back


@pytest.mark.parametrize(
    ("cache_output", "visible", "cached"),
    [("all", None, 9), ("none", None, 4), ("visible", 2, 6), ("visible", 99, 9)],
)
def test_as_much_of_the_output_is_published_as_asked(
    cache_output: str, visible: int | None, cached: int
) -> None:
    d = SchedulerDriver(16)
    d.serve("r", upto(4), 6, cache_output=cache_output, visible_tokens=visible)
    assert d.cached([*upto(4), *[90] * 6]) == cached
    assert d.all_back


def test_a_request_is_refused_with_a_reason() -> None:
    d = SchedulerDriver(8, max_waiting=1)
    d.submit("a", upto(3))
    with pytest.raises(DuplicateRequestError, match="'a' is alive"):
        d.submit("a", upto(3))
    with pytest.raises(RequestError, match="max_waiting is 1"):
        d.submit("b", upto(3))
    with pytest.raises(KeyKindError):
        d.scheduler.submit(
            Request(rid="w", key=PrefixKey(upto(3), wide=True), prompt_tokens=3, max_new_tokens=1),
            0.0,
        )
    for fields in (
        {"prompt_tokens": 4},
        {"prompt_tokens": 0},
        {"max_new_tokens": -1},
        {"cache_output": "some"},
        {"max_match_tokens": True},
        {"priority": 0.5},
    ):
        given: dict[str, Any] = {
            "rid": "x",
            "key": PrefixKey(upto(3)),
            "prompt_tokens": 3,
            "max_new_tokens": 1,
        }
        with pytest.raises(InvalidInputError, match="'x'"):
            d.scheduler.submit(Request(**(given | fields)), 0.0)
    assert d.scheduler.waiting == 1


def test_page_sizes_of_config_and_cache_must_agree() -> None:
    with pytest.raises(ConfigError, match="page_size is 4"):
        Scheduler(RadixCache(2), PagePool(4), SchedulerConfig(page_size=4))
    with pytest.raises(ConfigError, match="nope"):
        Scheduler(RadixCache(2), PagePool(4), SchedulerConfig(page_size=2), policy="nope")


def test_batches_complete_in_order() -> None:
    d = SchedulerDriver(16, max_in_flight=2)
    d.submit("r", upto(3), max_new_tokens=5)
    first, second = d.schedule(), d.schedule()
    with pytest.raises(BatchOrderError, match="max_in_flight is 2"):
        d.schedule()
    with pytest.raises(BatchOrderError, match="batch 0 is due"):
        d.complete(second)
    d.complete(first)
    with pytest.raises(BatchOrderError):
        d.complete(first)
    d.complete(second)
    with pytest.raises(BatchOrderError, match="none is in flight"):
        d.complete(second)


def test_wrong_results_change_nothing() -> None:
    d = SchedulerDriver(32, chunk_tokens=4)
    d.submit("r", upto(6), max_new_tokens=5)
    batch = d.schedule()
    with pytest.raises(BatchOrderError, match="'r' got 1 tokens"):
        d.complete(batch, {"r": ([1], None)})
    with pytest.raises(BatchOrderError, match="'stranger'"):
        d.complete(batch, {"stranger": ([1], None)})
    d.complete(batch)
    d.step()
    batch = d.schedule()
    with pytest.raises(BatchOrderError, match="max_tokens_per_step"):
        d.complete(batch, {"r": ([1, 2], None)})
    for wrong in ([-1], [2**32], [0.5], ["a"]):
        with pytest.raises(TokenError):
            d.complete(batch, {"r": (wrong, None)})  # type: ignore[dict-item]
    assert d.states["r"].output_tokens == 1
    d.complete(batch)
    assert d.states["r"].output_tokens == 2


def test_late_tokens_of_an_aborted_request_are_dropped() -> None:
    d = SchedulerDriver(16)
    d.submit("r", upto(4), max_new_tokens=5)
    batch = d.schedule()
    pages = d.row(batch, "r")
    assert d.scheduler.abort("r") == Finished(d.states["r"], "abort")
    assert d.pool.in_use() == set(pages)
    assert (d.scheduler.running, d.scheduler.is_idle) == (0, False)
    assert d.complete(batch, {"r": ([5], None)}) == []
    assert d.states["r"].output_tokens == 0
    assert d.pool.free_pages == 16
    assert d.scheduler.is_idle
    with pytest.raises(UnknownRequestError):
        d.scheduler.abort("r")


def test_a_name_is_free_again_while_the_old_bearer_is_in_flight() -> None:
    d = SchedulerDriver(32)
    d.submit("r", upto(4), max_new_tokens=5)
    batch = d.schedule()
    d.scheduler.abort("r")
    d.submit("r", [9, 8], max_new_tokens=1)
    d.complete(batch, {"r": ([5], None)})
    assert d.states["r"].output_tokens == 0
    d.run()
    assert d.ended == {"r": "length"}


def test_finish_returns_a_pin_on_what_was_published() -> None:
    d = SchedulerDriver(16)
    d.submit("r", upto(4), max_new_tokens=9)
    d.step()
    d.step()
    batch = d.schedule()
    handle = d.scheduler.finish("r", keep=True)
    assert handle is not None
    assert handle.prefix_tokens == 5
    assert d.states["r"].finish_reason == "stop"
    d.complete(batch, {"r": ([7], None)})
    assert d.cache.size == (0, 5)
    d.cache.release(handle)
    assert d.all_back
    d.submit("w", upto(2))
    assert d.scheduler.finish("w") is None
    assert d.scheduler.is_idle


def test_finish_without_keep_leaves_no_pin() -> None:
    d = SchedulerDriver(16)
    d.submit("r", upto(4), max_new_tokens=9)
    d.step()
    assert d.scheduler.finish("r", keep=False) is None
    assert d.cache.size == (4, 0)


def test_a_held_follower_waits_and_then_shares() -> None:
    d = SchedulerDriver(32, chunk_tokens=8)
    d.submit("leader", upto(6))
    d.submit("follower", [*upto(6), 50])
    d.submit("other", [70, 71, 72, 73, 74, 75, 76, 77])
    assert [c.rid for c in d.step().chunks] == ["leader"]
    assert [c[:3] for c in d.step().chunks] == [("follower", 6, 7), ("other", 0, 7)]


@pytest.mark.parametrize(
    ("hold", "publish", "chunks"),
    [
        ("skip", "complete", [("leader", 6), ("other", 8)]),
        ("off", "complete", [("leader", 6), ("follower", 7), ("other", 3)]),
        ("share", "schedule", [("leader", 6), ("follower", 1), ("other", 8)]),
        ("stop", "schedule", [("leader", 6), ("follower", 1), ("other", 8)]),
    ],
)
def test_hold_modes(hold: str, publish: str, chunks: list[tuple[str, int]]) -> None:
    d = SchedulerDriver(64, chunk_tokens=16, hold=hold, publish=publish)
    d.submit("leader", upto(6))
    d.submit("follower", [*upto(6), 50])
    d.submit("other", [70, 71, 72, 73, 74, 75, 76, 77])
    assert [(c.rid, c.tokens) for c in d.step().chunks] == chunks
    d.run()
    assert d.all_back


def test_followers_are_free_when_their_leader_is_gone() -> None:
    d = SchedulerDriver(32, chunk_tokens=4)
    d.submit("leader", upto(9))
    d.submit("follower", [*upto(9), 50])
    d.step()
    assert d.schedule().rids == ("leader",)
    d.scheduler.abort("leader")
    assert d.scheduler.running == 0
    d.complete(d.scheduler._life.flights[0].batch)
    batch = d.step()
    # What the leader had published before stays.
    assert batch.chunks[0][:3] == ("follower", 4, 8)


def test_decodes_run_beside_a_full_chunk_budget() -> None:
    d = SchedulerDriver(64, chunk_tokens=4)
    d.submit("a", upto(3), max_new_tokens=9)
    d.step()
    d.submit("b", [50 + n for n in range(9)])
    batch = d.step()
    assert (batch.prefill_tokens, batch.decode_tokens) == (4, 1)
    assert batch.rids == ("b", "a")


def test_overlapped_steps_count_as_computed() -> None:
    d = SchedulerDriver(32, max_in_flight=2, chunk_tokens=4)
    d.submit("r", upto(6), max_new_tokens=3)
    batches = [d.schedule(), d.schedule()]
    assert [b.chunks[0][1:3] for b in batches] == [(0, 4), (4, 6)]
    d.complete(batches[0])
    third = d.schedule()
    assert (third.positions.tolist(), third.lengths.tolist()) == ([6], [7])
    d.complete(batches[1])
    fourth = d.schedule()
    assert (fourth.positions.tolist(), fourth.lengths.tolist()) == ([7], [8])
    d.complete(third)
    # Its last token is in flight: there is nothing more to run.
    assert d.schedule().is_empty
    d.complete(fourth)
    assert d.ended == {"r": "length"}


def test_a_step_may_bring_no_token_or_several() -> None:
    d = SchedulerDriver(32, max_tokens_per_step=3)
    d.submit("r", upto(4), max_new_tokens=6)
    d.step({"r": ([], None)})
    batch = d.schedule()
    assert (batch.positions.tolist(), batch.lengths.tolist()) == ([3], [6])
    assert [type(e) for e in d.complete(batch, {"r": ([5, 6], None)})] == [FirstToken]
    d.step({})
    batch = d.schedule()
    assert (batch.positions.tolist(), batch.lengths.tolist()) == ([5], [8])
    d.complete(batch, {"r": ([7, 8, 9], None)})
    # Six were asked for; tokens beyond are dropped.
    batch = d.schedule()
    assert (batch.positions.tolist(), batch.lengths.tolist()) == ([8], [9])
    d.complete(batch, {"r": ([1, 2, 3], None)})
    assert list(d.states["r"].outputs) == [5, 6, 7, 8, 9, 1]


def test_no_output_tokens_means_prefill_only() -> None:
    d = SchedulerDriver(8)
    d.submit("r", upto(4), max_new_tokens=0)
    d.step()
    assert d.ended == {"r": "length"}
    assert d.states["r"].output_tokens == 0
    assert d.cached(upto(4)) == 4


def test_block_keys_and_pair_keys_run_too() -> None:
    blocks = Scheduler(
        RadixCache(4, kind=KeyKind.BLOCKS), PagePool(16), SchedulerConfig(page_size=4)
    )
    pairs = Scheduler(RadixCache(2, kind=KeyKind.WIDE), PagePool(16), SchedulerConfig(page_size=2))
    for scheduler, key, n in (
        (blocks, PrefixKey.from_block_ids([7, 8], 4), 10),
        (pairs, PrefixKey.from_pairs(upto(6)), 6),
    ):
        hits = []
        for rid in "ab":
            state = scheduler.submit(
                Request(rid=rid, key=key, prompt_tokens=n, max_new_tokens=3), 0.0
            ).state
            while not scheduler.is_idle:
                batch = scheduler.schedule(0.0)
                scheduler.complete(batch, {rid: ([9], None)}, 0.0)
                scheduler.check()
            hits.append(state.hit_tokens)
        assert hits == ([0, 8] if scheduler is blocks else [0, 4])
        assert len(key) == (8 if scheduler is blocks else 5)


def test_the_request_s_key_is_never_changed() -> None:
    d = SchedulerDriver(32)
    d.serve("r", upto(4), 6)
    assert d.states["r"].request.key.tokens() == upto(4)


def test_changed_rows_tell_each_new_page_once() -> None:
    d = SchedulerDriver(32, page_size=2, chunk_tokens=4)
    d.submit("r", upto(7), max_new_tokens=4)
    told = [d.step().changes for _ in range(5)]
    assert [[change[1:] for change in changes] for changes in told] == [
        [(0, 2)],
        [(2, 4)],
        [],
        [(4, 5)],
        [],
    ]


def test_rows_are_int32_views_and_shared_between_plain_decode_steps() -> None:
    d = SchedulerDriver(64)
    for rid in "abc":
        d.submit(rid, [ord(rid), 1], max_new_tokens=9)
    d.step()
    one, two = d.step(), d.step()
    assert one.rids is two.rids
    assert one.rows is two.rows
    assert all(row.dtype == np.int32 for row in one.rows)
    assert {one.positions.dtype, one.lengths.dtype, one.changed.dtype} == {np.dtype(np.int32)}


def test_nothing_is_admitted_in_a_step_that_retracted() -> None:
    d = SchedulerDriver(8, output_reserve_ratio=0.0, policy="fcfs")
    d.submit("a", [1, 2], max_new_tokens=6)
    d.submit("b", [3, 4], max_new_tokens=6)
    for _ in range(3):
        d.step()
    d.submit("c", [5], max_new_tokens=1)
    batch = d.schedule()
    assert [type(e) for e in batch.events] == [Retracted]
    assert batch.rids == ("a",)


def test_report_has_three_scopes() -> None:
    d = SchedulerDriver(64, window_requests=2)
    d.serve("a", upto(8))
    d.scheduler.reset_window()
    d.serve("b", upto(8))
    d.serve("c", upto(8), 2)
    report = d.scheduler.report()
    assert (report.total.prompt_tokens, report.total.hit_tokens) == (24, 14)
    assert (report.since_reset.prompt_tokens, report.since_reset.hit_tokens) == (16, 14)
    assert (report.window.finished, report.window.output_tokens) == (2, 3)
    assert report.optimal_hit_rate is report.percent_of_optimal is None
    d.scheduler.abort(d.submit("d", upto(3)).rid)
    assert d.scheduler.report().total.aborted == 1
    assert d.scheduler.report().window.finished == 2


def test_report_compares_with_the_optimum() -> None:
    class Meter:
        optimal_hit_rate = 0.5
        optimal_prefill_tokens = 8

        def add(self, key: PrefixKey, prompt_tokens: int) -> None:
            assert len(key) == prompt_tokens == 4

    scheduler = Scheduler(NullCache(1), PagePool(8), SchedulerConfig(page_size=1), optimal=Meter())
    request = Request(rid="r", key=PrefixKey(upto(4)), prompt_tokens=4, max_new_tokens=1)
    scheduler.submit(request, 0.0)
    report = scheduler.report()
    assert (report.optimal_hit_rate, report.optimal_prefill_tokens) == (0.5, 8)
    assert report.percent_of_optimal == 0.0
