"""Sessions: histories, merging into arrivals, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixcache import PrefixKey
from radixcache.errors import InvalidInputError
from scheduler.request import Request
from scheduler.trace import SessionPlan, Turn, chat, open_loop, sessions_of


def packed(*tokens: int) -> bytes:
    return PrefixKey(tokens).data


def turn(added: bytes, output: bytes, think_s: float = 0.0, keep: int | None = None) -> Turn:
    return Turn(added=added, output=output, think_s=think_s, max_new_tokens=9, keep_tokens=keep)


PLAN = SessionPlan(
    session_id="s",
    start_s=5.0,
    turns=(
        turn(packed(1, 2), packed(3, 4)),
        turn(packed(5), packed(6), 10.0),
        turn(packed(7), packed(8), 10.0, keep=3),
    ),
)


def test_turn_holds_the_history_it_keeps() -> None:
    first, second, third = PLAN.requests()
    assert first.key.tokens() == [1, 2]
    assert second.key.tokens() == [1, 2, 3, 4, 5]
    assert third.key.tokens() == [1, 2, 3, 7]
    assert [r.recorded_output_ids for r in (first, second, third)] == [(3, 4), (6,), (8,)]
    assert [r.rid for r in (first, second, third)] == ["s/1", "s/2", "s/3"]


def test_turn_arrives_a_think_time_after_the_answer() -> None:
    assert [r.arrival_s for r in PLAN.requests(0.5)] == [5.0, 16.0, 26.5]


def test_one_turn_can_be_made_alone() -> None:
    for index, request in enumerate(PLAN.requests()):
        assert PLAN.request(index, request.arrival_s) == request


def test_sessions_merge_by_arrival() -> None:
    plans = [
        SessionPlan(session_id="a", start_s=0, turns=(turn(b"", packed(1)),) * 3),
        SessionPlan(session_id="b", start_s=1, turns=(turn(packed(2), b"", 1.0),) * 2),
        SessionPlan(session_id="c", start_s=1, turns=()),
    ]
    merged = [(r.rid, r.arrival_s) for r in open_loop(plans, output_token_s=1.0)]
    assert merged == [("a/1", 0), ("a/2", 1), ("b/1", 1), ("a/3", 2), ("b/2", 2)]


def test_merging_reads_sessions_only_as_they_start() -> None:
    taken = []

    def plans() -> object:
        for plan in chat(1, sessions=400).sessions():
            taken.append(plan)
            yield plan

    requests = open_loop(plans())  # type: ignore[arg-type]
    for _ in range(20):
        next(requests)
    assert len(taken) < 100


def test_sessions_that_go_back_in_time_are_refused() -> None:
    early = SessionPlan(session_id="b", start_s=1, turns=())
    with pytest.raises(InvalidInputError, match="session b starts before"):
        list(open_loop([PLAN, early]))


def test_recorded_requests_make_the_same_sessions_again() -> None:
    requests = list(chat(2, sessions=20))
    plans = sessions_of(requests)
    assert len(plans) == 20
    again = list(open_loop(plans))
    assert [r.key for r in again] == [r.key for r in requests]
    assert [r.rid for r in again] == [r.rid for r in requests]
    for before, after in zip(requests, again, strict=True):
        assert after.arrival_s == pytest.approx(before.arrival_s)


def test_request_without_session_is_its_own() -> None:
    requests = [
        Request(rid=rid, key=PrefixKey([1, 2]), prompt_tokens=2, max_new_tokens=1) for rid in "ab"
    ]
    assert [len(plan.turns) for plan in sessions_of(requests)] == [1, 1]


def test_block_ids_make_no_sessions() -> None:
    key = PrefixKey.from_block_ids([1], 16)
    with pytest.raises(InvalidInputError, match="no tokens"):
        sessions_of([Request(rid="a", key=key, prompt_tokens=16, max_new_tokens=1)])


def test_what_a_request_asks_for_stays_with_its_turn() -> None:
    made = [
        Request(
            rid=f"s/{number}",
            key=PrefixKey(range(10 * number)),
            prompt_tokens=10 * number,
            max_new_tokens=9,
            arrival_s=float(number),
            session_id="s",
            cache_output="visible",
            visible_tokens=2,
            max_match_tokens=4,
            samples=number,
            abort_after_s=0.5 * number,
            abort_after_tokens=number + 1,
            recorded_output_tokens=3,
        )
        for number in (1, 2)
    ]
    (plan,) = sessions_of(made)
    again = [replace(r, arrival_s=m.arrival_s) for r, m in zip(plan.requests(), made, strict=True)]
    assert again == made
