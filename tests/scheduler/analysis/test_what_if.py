"""What-if rows against a model on tuples, and the identities between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.changes import Change, PageSize, Pin, Replicas
from scheduler.analysis.edits import DropOutputs, Salt, SaltBy
from scheduler.analysis.pins import PinnedPrefix, Pins
from scheduler.analysis.replicas import ROUTES, Route
from scheduler.analysis.what_if import WhatIf, WhatIfRow, what_if
from scheduler.lookup import lookup_replay
from scheduler.request import Request
from tests.models.optimal_model import Ask, slow_optimum
from tests.models.what_if_model import Call, Played, as_requests, play, salted

TOKENS = st.lists(st.integers(0, 1), max_size=6).map(tuple)
NAMES = st.sampled_from([None, "a", "b"])
CALLS = st.lists(
    st.builds(
        Call,
        st.builds(Ask, TOKENS, TOKENS),
        st.sampled_from(["a", "b", "c"]) | st.none(),
        NAMES,
        NAMES,
    ),
    min_size=1,
    max_size=12,
)
CAPACITY = st.integers(3, 24)


def asked(
    calls: Sequence[Call], changes: Sequence[Change], page: int = 1, capacity: int = 10
) -> WhatIf:
    return what_if(as_requests(calls), changes, page_size=page, capacity_tokens=capacity)


def row_of(answer: WhatIf, label: str) -> WhatIfRow:
    return next(row for row in answer.rows if row.label == label)


def agree(row: WhatIfRow, model: Played) -> None:
    hits = model.hits
    assert row.hit_tokens == sum(hits)
    assert row.second_half_hit_tokens == sum(hits[len(hits) // 2 :])
    assert row.evicted_pages == model.evicted_pages
    assert list(row.replica_computed_tokens) == model.computed
    assert row.computed_tokens == sum(model.computed)


@given(CALLS, st.integers(1, 3), st.integers(1, 3), CAPACITY)
def test_page_sizes_equal_the_model(
    calls: list[Call], page: int, other: int, capacity: int
) -> None:
    answer = asked(calls, [PageSize(other)], page, capacity)
    plain = salted(calls, None)
    for row, size in zip(answer.rows, (page, other), strict=True):
        assert (row.page_size, row.capacity_pages) == (size, capacity // size)
        agree(row, play(plain, size, capacity // size))
        asks = [call.ask for call in plain]
        prefill = slow_optimum(asks, size, outputs=True)
        if row.prompt_tokens:
            assert row.optimal_hit_rate == pytest.approx(1 - prefill / row.prompt_tokens)
            unbounded = play(plain, size, 10_000)
            assert row.ceiling_hit_rate == pytest.approx(sum(unbounded.hits) / row.prompt_tokens)


@given(CALLS, st.sampled_from(get_args(SaltBy)), st.integers(1, 2), CAPACITY)
def test_salts_equal_the_model(calls: list[Call], by: SaltBy, page: int, capacity: int) -> None:
    calls = [*calls, Call(Ask((0,)), "a", "a")]
    answer = asked(calls, [Salt(by)], page, capacity)
    agree(answer.rows[0], play(salted(calls, None), page, capacity // page))
    agree(answer.rows[1], play(salted(calls, by), page, capacity // page))


@given(CALLS, st.integers(2, 4), st.sampled_from(ROUTES), CAPACITY)
def test_replicas_equal_the_model(
    calls: list[Call], count: int, route: Route, capacity: int
) -> None:
    calls = [*calls, Call(Ask((0,)), "a")]
    answer = asked(calls, [Replicas(count, route)], 1, capacity)
    plain = salted(calls, None)
    row, pool = answer.rows[1:]
    agree(row, play(plain, 1, capacity, replicas=count, route=route))
    agree(pool, play(plain, 1, capacity * count))
    assert answer.pooled_row(row) is pool
    assert (pool.pooled, pool.capacity_pages) == (count, capacity * count)


@given(CALLS, st.data(), st.integers(1, 2), CAPACITY)
def test_pins_equal_the_model(
    calls: list[Call], data: st.DataObject, page: int, capacity: int
) -> None:
    calls = [replace(call, salt=None) for call in calls]
    at = data.draw(st.integers(0, len(calls) - 1))
    prompt = calls[at].ask.prompt
    if not prompt:
        return
    tokens = data.draw(st.integers(1, len(prompt)))
    if tokens // page > capacity // page:
        return
    answer = asked(calls, [Pin(Pins((PinnedPrefix(str(at), tokens),)))], page, capacity)
    assert answer.rows[1].pinned_pages == tokens // page
    agree(answer.rows[1], play(calls, page, capacity // page, pins=[prompt[:tokens]]))


@given(CALLS, CAPACITY)
def test_everything_together_equals_the_model(calls: list[Call], capacity: int) -> None:
    first = Call(Ask((0, 1, 0), (1, 1)), "a", "a")
    calls = [first, *calls]
    changes: list[Change] = [
        PageSize(2),
        PageSize(3),
        DropOutputs(),
        Salt("tenant"),
        Pin(Pins((PinnedPrefix("0", 2),))),
        Replicas(2, "prefix"),
        Replicas(2, "round-robin"),
    ]
    answer = asked(calls, changes, 1, capacity)
    silent = salted([replace(call, ask=Ask(call.ask.prompt)) for call in calls], "tenant")
    row = row_of(answer, "all together")
    agree(row, play(silent, 2, capacity // 2, replicas=2, route="prefix", pins=[(0, 1)]))
    pool = answer.pooled_row(row)
    assert pool is not None
    agree(pool, play(silent, 2, capacity * 2 // 2, pins=[(0, 1)]))
    assert row.parts == (
        *("page size 2", "drop outputs", "salt by tenant", "pin 0:2", "2 replicas, prefix"),
    )


@given(CALLS, CAPACITY)
def test_one_replica_is_one_cache(calls: list[Call], capacity: int) -> None:
    changes = [Replicas(1, route) for route in ROUTES if route != "session"]
    first, *others = asked(calls, changes, 1, capacity).rows
    assert {row.hit_tokens for row in others} == {first.hit_tokens}


@given(CALLS, CAPACITY)
def test_no_salt_changes_nothing_where_there_is_none(calls: list[Call], capacity: int) -> None:
    bare = [replace(call, salt=None) for call in calls]
    first, second = asked(bare, [Salt("none")], 1, capacity).rows
    assert first.hit_tokens == second.hit_tokens


@given(CALLS)
def test_dropped_outputs_reach_the_ceiling_of_prompts(calls: list[Call]) -> None:
    calls = [*calls, Call(Ask((0,), (1, 1)))]
    answer = asked(calls, [DropOutputs()], 1, 10_000)
    whole, dropped = answer.rows
    prompts = lookup_replay(as_requests(calls), 1, last_token=True)
    assert dropped.hit_tokens == prompts.hit_tokens
    assert dropped.cold_hit_rate == dropped.ceiling_hit_rate
    outputs = lookup_replay(as_requests(calls), 1, last_token=True, cache_outputs=True)
    assert whole.hit_tokens == outputs.hit_tokens


@given(CALLS, st.integers(1, 3), CAPACITY, st.sampled_from(["lru", "lfu", "arc"]))
def test_no_row_is_above_its_bounds(
    calls: list[Call], page: int, capacity: int, eviction: str
) -> None:
    answer = what_if(
        as_requests([*calls, Call(Ask((0,)), "a")]),
        [PageSize(2), Salt("session"), Replicas(2, "prefix"), Replicas(3, "session")],
        page_size=page,
        capacity_tokens=capacity,
        eviction=eviction,
    )
    for row in answer.rows:
        assert row.exact
        bounds = (row.cold_hit_rate, row.ceiling_hit_rate, row.optimal_hit_rate)
        hit, ceiling, optimum = (bound or 0.0 for bound in bounds)
        assert hit <= ceiling <= optimum + 1e-9


def blocks(*rows: Sequence[int], block: int = 4, tail: int = 1) -> list[Request]:
    return [
        Request(
            rid=f"line {number}",
            key=PrefixKey.from_block_ids(ids, block),
            prompt_tokens=block * len(ids) + tail,
            max_new_tokens=1,
        )
        for number, ids in enumerate(rows, start=1)
    ]


IDS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=10)


@given(IDS, st.integers(1, 3))
def test_groups_of_blocks_are_pages_of_their_tokens(rows: list[list[int]], by: int) -> None:
    tokens = [Call(Ask((*(id for id in ids for _ in range(4)), 9))) for ids in rows]
    answer = what_if(blocks(*rows), [PageSize(4 * by)], page_size=4, capacity_tokens=40)
    as_tokens = asked(tokens, [PageSize(4 * by)], 4, 40)
    for row, other in zip(answer.rows, as_tokens.rows, strict=True):
        assert row == other


def test_block_ids_cannot_be_cut() -> None:
    with pytest.raises(ConfigError, match=r"page size 6: .* ids of 4-token blocks.* multiple of 4"):
        what_if(blocks([1, 2]), [PageSize(6)], page_size=4, capacity_tokens=40)
    with pytest.raises(ConfigError, match=r"drop outputs: .* ids of whole blocks and no tokens"):
        what_if(blocks([1, 2]), [DropOutputs()], page_size=4, capacity_tokens=40)


def test_a_pin_of_block_ids_is_whole_blocks() -> None:
    pin = Pin(Pins((PinnedPrefix("line 1", 11),)))
    answer = what_if(blocks([1, 2, 3], [4, 5, 6], [1, 2]), [pin], page_size=4, capacity_tokens=12)
    base, pinned = answer.rows
    assert (base.hit_tokens, pinned.hit_tokens, pinned.pinned_pages) == (0, 8, 2)
    assert pinned.label == "pin line 1:11"


CALL = Call(Ask((0, 1, 0, 1), (1, 1)))


@pytest.mark.parametrize(
    ("changes", "page", "capacity", "message"),
    [
        ([Salt("session")], 1, 9, "salt by session: no request of this trace names its session"),
        ([Salt("tenant")], 1, 9, "salt by tenant: no request of this trace names its tenant"),
        ([Replicas(2, "session")], 1, 9, "route session: no request of this trace names"),
        ([PageSize(64)], 1, 9, "capacity is 9 tokens, less than a page of 64: give more"),
        ([Pin(Pins((PinnedPrefix("7", 2),)))], 1, 9, "pin 7:2: no request is called '7'"),
        ([Pin(Pins((PinnedPrefix("0", 5),)))], 1, 9, "pin 0:5: that prompt has 4 tokens"),
        ([Pin(Pins((PinnedPrefix("0", 4),)))], 1, 3, "pinned prefixes take 4 pages .* has 3"),
        ([Pin(Pins(top=1))], 1, 9, "pin top 1: no two requests share a page of 1 tokens"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    changes: list[Change], page: int, capacity: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        asked([CALL], changes, page, capacity)


def test_outputs_that_are_not_there_cannot_be_dropped() -> None:
    with pytest.raises(ConfigError, match="drop outputs: no request of this trace has recorded"):
        asked([Call(Ask((0, 1)))], [DropOutputs()])


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="eviction is 'optimal': use one of arc"):
        what_if([], [], page_size=1, capacity_tokens=9, eviction="optimal")


def test_no_requests_have_no_rates() -> None:
    answer = asked([], [Salt("tenant"), Replicas(2, "prefix")])
    for row in answer.rows:
        assert row.cold_hit_rate is row.second_half_hit_rate is row.imbalance is None
        assert answer.points(row) is None


def test_every_sample_is_a_request() -> None:
    request = replace(as_requests([Call(Ask((0, 1, 2)))])[0], samples=3)
    (row,) = what_if([request], [], page_size=1, capacity_tokens=9).rows
    assert (row.requests, row.prompt_tokens, row.hit_tokens) == (3, 9, 4)


def test_beyond_its_limit_the_optimum_is_an_estimate() -> None:
    calls = [Call(Ask(tuple(range(start, start + 9)))) for start in range(30)]
    (row,) = what_if(
        as_requests(calls), [], page_size=1, capacity_tokens=99, exact_limit_bytes=500
    ).rows
    assert not row.exact
    assert row.ceiling_hit_rate is None
    assert row.optimal_hit_rate is not None
