"""Nominal arrivals: rate, think time, order, and how many sessions are held."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from scheduler.trace import SessionPlan, Turn
from scheduler.trace.conversations import nominal_arrivals

TURN = Turn(added=PrefixKey([1]).data, output=None, think_s=0, max_new_tokens=1)


def plans(lengths: list[int]) -> list[SessionPlan]:
    return [
        SessionPlan(session_id=str(i), start_s=0, turns=(TURN,) * n) for i, n in enumerate(lengths)
    ]


@given(
    lengths=st.lists(st.integers(0, 6), max_size=12),
    rate_per_s=st.sampled_from([0.5, 1.0, 4.0]),
    think_s=st.sampled_from([0.0, 1.0, 7.5]),
)
def test_every_turn_comes_once_in_order_and_apart(
    lengths: list[int], rate_per_s: float, think_s: float
) -> None:
    requests = list(nominal_arrivals(plans(lengths), rate_per_s=rate_per_s, think_s=think_s))
    assert len(requests) == sum(lengths)
    times_s = [r.arrival_s for r in requests]
    assert all(b - a >= 1 / rate_per_s for a, b in itertools.pairwise(times_s))
    last: dict[str | None, tuple[int, float]] = {}
    for request in requests:
        turn = int(request.rid.rsplit("/", 1)[1])
        before, then_s = last.get(request.session_id, (0, -think_s))
        assert turn == before + 1
        assert request.arrival_s >= then_s + think_s
        last[request.session_id] = (turn, request.arrival_s)


def test_few_sessions_are_held() -> None:
    taken = 0

    def endless() -> Iterator[SessionPlan]:
        nonlocal taken
        while True:
            taken += 1
            yield plans([1000])[0]

    requests = nominal_arrivals(endless(), rate_per_s=1.0, think_s=30.0)
    times_s = [next(requests).arrival_s for _ in range(500)]
    assert times_s == [float(second) for second in range(500)]
    assert taken <= 31
