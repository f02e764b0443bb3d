"""What the simulated model answers: recorded tokens first, then a stream of the request's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request, RequestState
from scheduler.sim.outputs import answer, answer_tokens, output_length

BLOCKS = PrefixKey.from_block_ids([1], 4)
TOKENS = PrefixKey([1, 2, 3, 4])


def state(seq: int = 0, key: PrefixKey = TOKENS, **more: object) -> RequestState:
    values = {"rid": "a", "key": key, "prompt_tokens": 4, "max_new_tokens": 9} | more
    request = Request(**values)  # type: ignore[arg-type]
    return RequestState(request, arrival_seq=seq, page_size=4, submitted_s=0)


@given(seq=st.integers(0, 10**9), position=st.integers(0, 10**6), count=st.integers(0, 9))
def test_unknown_tokens_are_a_stream_by_arrival(seq: int, position: int, count: int) -> None:
    expected = [
        ((seq + 1) * 0x9E3779B1 + at * 0x85EBCA6B) % 2**31
        for at in range(position, position + count)
    ]
    tokens = answer_tokens(state(seq), position, count)
    assert list(tokens) == expected
    assert all(type(token) is int for token in tokens)


@given(
    recorded=st.none() | st.integers(0, 12),
    ids=st.none() | st.lists(st.integers(0, 99), max_size=12).map(tuple),
    blocks=st.booleans(),
)
def test_an_answer_is_its_tokens_one_a_step(
    recorded: int | None, ids: tuple[int, ...] | None, blocks: bool
) -> None:
    asked = state(
        3,
        BLOCKS if blocks else TOKENS,
        recorded_output_tokens=recorded,
        recorded_output_ids=ids,
    )
    steps = answer(asked, 99)
    assert len(steps) == output_length(asked)
    for position, (tokens, reason) in enumerate(steps):
        assert list(tokens) == list(answer_tokens(asked, position, 1))
        assert reason == ("stop" if position == len(steps) - 1 else None)


def test_an_answer_beyond_memory_is_cut_and_not_done() -> None:
    asked = state(0, max_new_tokens=2**40)
    steps = answer(asked, 3)
    assert [reason for _, reason in steps] == [None] * 4


def test_block_keys_have_no_ids_for_output() -> None:
    assert BLOCKS.kind is KeyKind.BLOCKS
    assert list(answer_tokens(state(5, BLOCKS), 2, 3)) == [0, 0, 0]
