"""Sessions of rows, brought into one order: against sorting everything at once."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from scheduler.request import Request
from scheduler.trace.session_rows import Session, in_session_order
from scheduler.trace.summary import TraceSummary
from scheduler.trace.time_order import SORTED

times = st.integers(0, 6).map(float)
drawn = st.lists(st.tuples(times, st.lists(times, max_size=4)), max_size=6)


def session(line: int, start_s: float, offsets_s: list[float]) -> Session:
    requests = [
        Request(
            rid=f"{line}/{index}",
            key=PrefixKey([1]),
            prompt_tokens=1,
            max_new_tokens=1,
            arrival_s=start_s + offset_s,
        )
        for index, offset_s in enumerate(sorted(offsets_s))
    ]
    return Session(line, start_s, requests)


@given(drawn=drawn, is_sorted=st.booleans())
def test_requests_of_all_sessions_come_as_if_all_were_sorted(
    drawn: list[tuple[float, list[float]]], is_sorted: bool
) -> None:
    if is_sorted:
        drawn.sort(key=lambda one: one[0])
    sessions = [session(line, *one) for line, one in enumerate(drawn)]
    by_start = sorted(sessions, key=lambda one: one.start_s)
    expected = sorted(
        (request for one in by_start for request in one.requests),
        key=lambda request: request.arrival_s,
    )
    summary = TraceSummary()
    found = list(in_session_order(sessions, in_order=is_sorted, summary=summary))
    assert [request.rid for request in found] == [request.rid for request in expected]
    starts = [start_s for start_s, _ in drawn]
    back = sum(start < max(starts[:index]) for index, start in enumerate(starts) if index)
    assert summary.repaired[SORTED] == back


def test_a_session_is_read_when_the_requests_before_its_start_have_come() -> None:
    read: list[int] = []

    def counted() -> Iterator[Session]:
        for line in range(3):
            read.append(line)
            yield session(line, 10.0 * line, [0.0, 15.0])

    found = in_session_order(counted(), in_order=True, summary=TraceSummary())
    assert next(found).rid == "0/0"
    assert read == [0, 1]
