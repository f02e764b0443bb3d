"""Diverging spans: a planted one is found where it is, and moving it is the repair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import DEFAULT_NAMESPACE, KeyKind, Namespace, PrefixKey
from scheduler.analysis.spans import (
    ANCHOR_TOKENS,
    MAX_SPAN_TOKENS,
    DivergingSpan,
    find_spans,
    moved,
)
from scheduler.lookup import lookup_replay
from scheduler.request import Request

HEADER = [7, 8, 9]


def request(tokens: list[int], namespace: Namespace = DEFAULT_NAMESPACE) -> Request:
    key = PrefixKey(tokens, namespace)
    return Request(rid="r", key=key, prompt_tokens=len(key), max_new_tokens=1)


def drawn(rng: np.random.Generator, low: int, high: int) -> list[int]:
    return list(map(int, rng.integers(1_000, 32_000, int(rng.integers(low, high)))))


def planted(seed: int, *, span_first: bool, sessions: int = 60) -> list[Request]:
    """Make chats of two turns: a header, a span of 2-5 ids and one of 3 texts, a question."""
    rng = np.random.default_rng(seed)
    texts = [drawn(rng, 40, 200) for _ in range(3)]
    made = []
    for number in range(sessions):
        span = [100_000 + number, *drawn(rng, 1, 5)]
        text = texts[int(rng.integers(3))]
        history = HEADER + (span + text if span_first else text + span) + drawn(rng, 20, 60)
        made.append(request(history))
        made.append(request(history + drawn(rng, 20, 90)))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_a_planted_span_is_found_where_it_is(seed: int) -> None:
    found = find_spans(planted(seed, span_first=True), 16)
    assert len(found) == 1
    (span,) = found
    assert span.before == PrefixKey(HEADER).data
    assert span.start_tokens == 3
    assert (span.shortest_tokens, span.longest_tokens) == (2, 5)
    assert len(span.shared) == 3
    assert span.requests == 120
    assert len(set(span.examples)) == 3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("page_size", [16, 64])
def test_moving_it_gives_the_hit_rate_of_the_repaired_prompts(seed: int, page_size: int) -> None:
    before, repaired = (planted(seed, span_first=first) for first in (True, False))
    (span,) = find_spans(before, 16)
    after = [moved(request, span) for request in before]
    assert lookup_replay(after, page_size) == lookup_replay(repaired, page_size)
    assert find_spans(after, 16) == []


def test_what_has_no_span_is_left_as_it_is() -> None:
    requests = planted(0, span_first=True)
    (span,) = find_spans(requests, 16)
    others = [request([1, 2, 3, 4]), request(HEADER), request(HEADER + [5] * 200)]
    others.append(request(requests[0].key.tokens(), Namespace.of(lora="other")))
    others.append(moved(requests[0], span))
    assert all(moved(other, span) is other for other in others)


def test_questions_after_a_common_text_are_no_span() -> None:
    assert find_spans(planted(1, span_first=False), 16) == []


def test_a_text_that_fills_no_page_is_not_worth_moving() -> None:
    rng = np.random.default_rng(3)
    text = drawn(rng, 40, 41)
    requests = [request([n, n + 1, *text, *drawn(rng, 90, 99)]) for n in range(100, 160)]
    assert len(find_spans(requests, 16)) == 1
    assert find_spans(requests, 64) == []


def test_block_hash_keys_have_no_spans() -> None:
    key = PrefixKey.from_block_ids([1, 2, 3], 16)
    one = Request(rid="r", key=key, prompt_tokens=48, max_new_tokens=1)
    assert find_spans([one] * 9, 16) == []
    assert find_spans([], 16) == []


def test_a_small_trie_still_finds_what_is_everywhere() -> None:
    found = find_spans(planted(2, span_first=True, sessions=400), 16, limit_bytes=100_000)
    assert [span.start_tokens for span in found] == [3]


bits = st.lists(st.integers(0, 1), max_size=70)


@given(bits, st.lists(st.tuples(bits, bits), max_size=12), st.integers(1, 8))
def test_whatever_is_found_can_be_moved(
    text: list[int], around: list[tuple[list[int], list[int]]], page_size: int
) -> None:
    requests = [request(before + text * 2 + after) for before, after in around]
    found = find_spans(requests, page_size)
    assert found == find_spans(requests, page_size)
    for span in found:
        assert span.shared_tokens >= ANCHOR_TOKENS
        assert 0 <= span.shortest_tokens <= span.longest_tokens <= MAX_SPAN_TOKENS
        changed = [moved(one, span) for one in requests]
        for one, new in zip(requests, changed, strict=True):
            assert sorted(new.key.tokens()) == sorted(one.key.tokens())
            assert new.key.data[: len(span.before)] == one.key.data[: len(span.before)]
        values = {
            one.key.data
            for one in requests
            if one.key.data.startswith(span.before)
            and any(shared in one.key.data for shared in span.shared)
        }
        assert len(values) >= 3


tokens = st.lists(st.integers(0, 3), max_size=30)


@given(tokens, tokens, tokens, tokens)
def test_moving_keeps_every_token(
    before: list[int], span_tokens: list[int], text: list[int], rest: list[int]
) -> None:
    span = DivergingSpan(
        namespace=DEFAULT_NAMESPACE,
        kind=KeyKind.TOKENS,
        before=PrefixKey(before).data,
        shared=(PrefixKey(text).data,),
        examples=(),
        shortest_tokens=0,
        longest_tokens=30,
        requests=1,
    )
    old = request(before + span_tokens + text + rest)
    new = moved(old, span)
    tail = span_tokens + text + rest
    at = next(i for i in range(len(tail) + 1) if tail[i : i + len(text)] == text)
    assert new.key.tokens() == before + text + tail[:at] + tail[at + len(text) :]
