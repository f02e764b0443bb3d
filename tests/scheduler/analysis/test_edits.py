"""Edits of requests: salts, outputs, reasoning, spans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import KeyKind, Namespace, PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.edits import DropOutputs, MoveSpans, Salt, StripReasoning, check_kind
from scheduler.analysis.spans import find_spans
from scheduler.analysis.what_if import what_if
from scheduler.optimal import computed_key
from scheduler.request import Request

START, STOP = 8, 9
STRIP = StripReasoning(PrefixKey([START]).data, PrefixKey([STOP]).data)


def request(prompt: list[int], output: list[int] | None = None, **more: Any) -> Request:
    return Request(
        rid="r",
        key=PrefixKey(prompt, more.pop("namespace", Namespace())),
        prompt_tokens=len(prompt),
        max_new_tokens=9,
        recorded_output_ids=None if output is None else tuple(output),
        **more,
    )


def test_a_salt_takes_the_place_of_the_one_before_and_of_nothing_else() -> None:
    asked = request(
        [1, 2],
        session_id="s",
        client_id="c",
        namespace=Namespace.of("tools", "lora", "old"),
    )
    for by, salt in (("session", "session s"), ("tenant", "tenant c"), ("none", None)):
        after = Salt(by).edited(asked)  # type: ignore[arg-type]
        assert after.key.namespace == Namespace.of("tools", "lora", salt)
        assert after.key.data == asked.key.data
    assert asked.key.namespace.cache_salt == "old"


def test_who_has_no_session_is_alone_and_who_has_no_tenant_is_one_of_many() -> None:
    nobody = request([1])
    assert Salt("session").edited(nobody).key.namespace.cache_salt == "request r"
    assert Salt("tenant").edited(nobody) is nobody
    named = request([1], session_id="r")
    salts = {Salt("session").edited(one).key.namespace for one in (nobody, named)}
    assert len(salts) == 2


def test_a_salted_pair_key_can_still_grow() -> None:
    key = PrefixKey.from_pairs([1, 2, 3])
    asked = Request(rid="r", key=key, prompt_tokens=3, max_new_tokens=1, client_id="c")
    after = Salt("tenant").edited(asked)
    after.key.extend([4])
    assert after.key.tokens() == PrefixKey.from_pairs([1, 2, 3, 4]).tokens()


def test_a_dropped_output_is_not_computed_for_later() -> None:
    asked = request([1], [2, 3, 4])
    assert computed_key(asked) is not None
    assert computed_key(DropOutputs().edited(asked)) is None
    for kept in (request([1]), request([1], [2], cache_output="none")):
        assert DropOutputs().edited(kept) is kept


def slow_strip(tokens: list[int]) -> list[int]:
    if START in tokens:
        start = tokens.index(START)
        if STOP in tokens[start:]:
            stop = tokens.index(STOP, start)
            return tokens[:start] + slow_strip(tokens[stop + 1 :])
    return tokens


@given(st.lists(st.sampled_from([1, START, STOP]), max_size=12))
def test_reasoning_goes_out_of_prompts(tokens: list[int]) -> None:
    asked = request(tokens)
    after = STRIP.edited(asked)
    assert after.key.tokens() == slow_strip(tokens)
    assert after.prompt_tokens == len(after.key)
    assert (after is asked) == (slow_strip(tokens) == tokens)


@pytest.mark.parametrize(
    ("output", "visible"),
    [
        ([START, 1, STOP, 2, 3], 0),
        ([5, 6, START, 1, STOP, 2], 2),
        ([5, 6, START, 1], 2),
        ([1, STOP, 2, 3], 0),
    ],
)
def test_an_output_is_cached_up_to_its_reasoning(output: list[int], visible: int) -> None:
    after = STRIP.edited(request([1], output))
    assert (after.cache_output, after.visible_tokens) == ("visible", visible)


def test_without_marks_the_row_says_how_much_is_visible() -> None:
    asked = request([1], [2, 3, 4], visible_tokens=1)
    for strip in (STRIP, StripReasoning()):
        after = strip.edited(asked)
        assert (after.cache_output, after.visible_tokens) == ("visible", 1)
        whole = computed_key(after)
        assert whole is not None
        assert whole.tokens() == [1, 2]
    for kept in (
        request([1], [2, 3]),
        request([1], [2, 3], cache_output="none", visible_tokens=1),
        request([1], [2, 3], cache_output="visible", visible_tokens=1),
    ):
        assert STRIP.edited(kept) is kept


def test_a_mark_begins_with_a_token() -> None:
    shifted = PrefixKey([0x08000000, 0, 1])  # holds the bytes of the mark across two tokens
    asked = replace(request([1]), key=shifted, prompt_tokens=3)
    assert STRIP.edited(asked) is asked


def test_reasoning_that_is_left_out_costs_what_follows_it() -> None:
    output = [START, 1, STOP, *range(20, 28)]
    first = request(list(range(100, 108)), output)
    second = request([*first.key.tokens(), *output, 50, 51])
    rows = what_if([first, second], [STRIP], page_size=1, capacity_tokens=99).rows
    assert [row.hit_tokens for row in rows] == [18, 8]
    assert [row.prompt_tokens for row in rows] == [29, 26]


@pytest.mark.parametrize(("start", "stop"), [(b"", b"abcd"), (b"abcd", b""), (b"abc", b"abcd")])
def test_marks_are_whole_tokens(start: bytes, stop: bytes) -> None:
    with pytest.raises(ConfigError, match="reasoning marks are packed token ids"):
        StripReasoning(start, stop)


def stamped(stamp: list[int], question: list[int], *, repaired: bool = False) -> Request:
    system = list(range(100, 200))
    head = [7, *system, *stamp] if repaired else [7, *stamp, *system]
    return request([*head, *question])


def test_moved_spans_predict_what_the_repaired_trace_shows() -> None:
    asks = [([i, i % 3, 5], [900 + i] * 4) for i in range(20)]
    before = [stamped(*ask) for ask in asks]
    after = [stamped(*ask, repaired=True) for ask in asks]
    edit = MoveSpans(tuple(find_spans(before, 16)))
    _, moved = what_if(before, [edit], page_size=16, capacity_tokens=9999).rows
    (repaired,) = what_if(after, [], page_size=16, capacity_tokens=9999).rows
    assert moved.label == "move timestamp"
    assert moved.edited_requests == 20
    assert moved.hit_tokens == repaired.hit_tokens == 19 * 96


def test_text_cannot_be_changed_in_block_ids() -> None:
    for edit in (DropOutputs(), STRIP, MoveSpans(())):
        check_kind(edit, KeyKind.TOKENS)
        with pytest.raises(ConfigError, match=r"ids of whole blocks and no tokens.* leave it out"):
            check_kind(edit, KeyKind.BLOCKS)
    check_kind(Salt("tenant"), KeyKind.BLOCKS)
