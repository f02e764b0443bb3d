"""Prompts as block ids: equal where prefixes are equal, nowhere else, and nothing lost of hits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import KeyKind, Namespace, PrefixKey
from radixcache.errors import ConfigError
from scheduler.lookup import lookup_replay
from scheduler.optimal import optimal_prefill
from scheduler.request import Request
from scheduler.trace.renumber import BlockNumbers, anonymised, in_blocks

prompts = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 1), min_size=1, max_size=9)),
    min_size=1,
    max_size=12,
)


def request(index: int, name: str, tokens: list[int], **fields: object) -> Request:
    return Request(
        rid=f"call-{index}",
        key=PrefixKey(tokens, Namespace.of(name)),
        prompt_tokens=len(tokens),
        max_new_tokens=4,
        arrival_s=5.0 + index,
        **fields,  # type: ignore[arg-type]
    )


def whole_blocks(requests: list[Request], block: int) -> list[Request]:
    """Return the requests without the ids of last blocks that are not full."""
    return [replace(r, key=r.key[: r.prompt_tokens // block * block]) for r in requests]


@given(made=prompts, block=st.integers(1, 4))
def test_numbers_equal_those_of_exact_prefixes(
    made: list[tuple[str, list[int]]], block: int
) -> None:
    seen: dict[object, int] = {}
    numbers = BlockNumbers(block)
    for name, tokens in made:
        ends = [*range(block, len(tokens), block), len(tokens)]
        expected = [seen.setdefault((name, tuple(tokens[:end])), len(seen)) for end in ends]
        assert numbers.of(PrefixKey(tokens, Namespace.of(name)), len(tokens)) == expected


@given(made=prompts, block=st.integers(1, 4), pages=st.none() | st.integers(1, 8))
def test_hits_and_optimum_stay_the_same(
    made: list[tuple[str, list[int]]], block: int, pages: int | None
) -> None:
    caps = (None, None, 3)
    asked = [
        request(i, name, tokens, max_match_tokens=caps[i % 3], samples=1 + i % 2)
        for i, (name, tokens) in enumerate(made)
    ]
    blocks = list(in_blocks(asked, block))
    kept = whole_blocks(blocks, block)
    for last_token in (False, True):
        before, after = (
            lookup_replay(rows, block, capacity_pages=pages, last_token=last_token)
            for rows in (asked, kept)
        )
        assert before == after
    assert optimal_prefill(asked, block) == optimal_prefill(kept, block)
    # Once more changes nothing, and two blocks can be made one.
    assert list(in_blocks(blocks, block)) == blocks
    double = list(in_blocks(asked, 2 * block))
    assert list(in_blocks(blocks, 2 * block)) == double


def test_two_last_blocks_are_equal_when_their_tokens_are() -> None:
    numbers = BlockNumbers(4)
    assert numbers.of(PrefixKey([1, 2, 3, 4, 5]), 5) == [0, 1]
    assert numbers.of(PrefixKey([1, 2, 3, 4, 5, 6]), 6) == [0, 2]
    assert numbers.of(PrefixKey([1, 2, 3, 4, 5]), 5) == [0, 1]
    assert numbers.of(PrefixKey([1, 2, 3, 4, 5, 6, 7, 8]), 8) == [0, 3]


def test_a_block_that_is_not_known_whole_equals_no_other() -> None:
    numbers = BlockNumbers(4)
    key = PrefixKey.from_block_ids([7, 8], 2)
    assert [numbers.of(key, n) for n in (4, 5, 5, 4)] == [[0], [0, 1], [0, 2], [0]]
    pairs = PrefixKey.from_pairs([1, 2, 3, 4])
    assert BlockNumbers(4).of(pairs, 4) == [0]
    assert len(pairs) == 3


def test_blocks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="give a multiple of 3"):
        BlockNumbers(4).of(PrefixKey.from_block_ids([1], 3), 3)
    with pytest.raises(ConfigError, match="at least 1"):
        BlockNumbers(0)


def test_nothing_but_equality_lengths_and_gaps_is_left() -> None:
    made = [
        request(
            i, "tenant", [77, 78, 79], session_id="a session", client_id="a client", priority=2,
            recorded_output_ids=(81, 82), cache_output="visible", visible_tokens=1, samples=2,
            abort_after_s=3.0, abort_after_tokens=1,
        )
        for i in range(2)
    ]  # fmt: skip
    first, second = anonymised(in_blocks(made, 2))
    assert first == Request(
        rid="r1",
        key=PrefixKey.from_block_ids([0, 1], 2),
        prompt_tokens=3,
        max_new_tokens=4,
        arrival_s=0.0,
        priority=2,
        session_id="s1",
        client_id="c1",
        samples=2,
        abort_after_s=3.0,
        abort_after_tokens=1,
        recorded_output_tokens=2,
    )
    assert second == replace(first, rid="r2", arrival_s=1.0)
    assert second.key.kind is KeyKind.BLOCKS
