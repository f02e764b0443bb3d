"""Predicted cached tokens against a model that keeps every prefix in a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from scheduler.analysis.validation import (
    Measured,
    Validation,
    checks_of,
    format_validation,
    predicted_tokens,
)
from scheduler.request import Request

prompts = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=9),
        st.lists(st.integers(0, 2), max_size=4),
        st.none() | st.integers(0, 6),
    ),
    max_size=8,
)


def request(place: int, ids: list[int], output: list[int]) -> Request:
    return Request(
        rid=f"r{place}",
        key=PrefixKey(ids),
        prompt_tokens=len(ids),
        max_new_tokens=16,
        arrival_s=float(place),
        recorded_output_ids=tuple(output) or None,
    )


def slow_model(
    rows: list[tuple[list[int], list[int], int | None]], page_size: int, outputs: bool
) -> list[int]:
    """Keep every cached page prefix as a tuple; what ends later is added when it ends."""
    cached: set[tuple[int, ...]] = set()
    ending: list[tuple[float, tuple[int, ...]]] = []
    hits = []

    def keep(ids: tuple[int, ...]) -> None:
        cached.update(ids[:end] for end in range(page_size, len(ids) + 1, page_size))

    for place, (ids, output, lasts) in enumerate(rows):
        for end, whole in ending:
            if end <= place:
                keep(whole)
        ends = range(page_size, len(ids), page_size)
        hits.append(max((end for end in ends if tuple(ids[:end]) in cached), default=0))
        keep(tuple(ids))
        whole = (*ids, *output[:-1])
        if outputs and output:
            if lasts is None:
                keep(whole)
            else:
                ending.append((place + lasts, whole))
    return hits


@given(rows=prompts, page_size=st.integers(1, 3), outputs=st.booleans())
def test_an_unbounded_cache_finds_what_ended_before(
    rows: list[tuple[list[int], list[int], int | None]], page_size: int, outputs: bool
) -> None:
    requests = [
        (request(i, ids, output), None if lasts is None else float(i + lasts))
        for i, (ids, output, lasts) in enumerate(rows)
    ]
    hits = predicted_tokens(
        requests, page_size, capacity_pages=None, policy="lru", cache_outputs=outputs
    )
    assert hits == slow_model(rows, page_size, outputs)


def test_a_full_cache_forgets() -> None:
    turns = [[1, 1], [2, 2], [1, 1]]
    requests = [(request(i, [*ids, 9], []), None) for i, ids in enumerate(turns)]
    options = {"policy": "lru", "cache_outputs": True}
    assert predicted_tokens(requests, 1, capacity_pages=3, **options) == [0, 0, 0]  # type: ignore[arg-type]
    assert predicted_tokens(requests, 1, capacity_pages=6, **options) == [0, 0, 2]  # type: ignore[arg-type]


def test_another_tokenizer_keeps_the_share() -> None:
    row = Measured(request=request(0, [1] * 10, []), prompt_tokens=20, cached_tokens=8)
    (check,) = checks_of([row], [5])
    assert (check.predicted_tokens, check.error_tokens) == (10, 2)


def validation(reported: int, predicted: int) -> Validation:
    row = Measured(request=request(0, [1] * 100, []), prompt_tokens=100, cached_tokens=reported)
    return Validation(
        definition="what it counts",
        page_size=16,
        capacity_tokens=None,
        cached_outputs=True,
        tolerance_points=2,
        requests=1,
        reported_prompt_tokens=100,
        reported_cached_tokens=reported,
        predicted_prompt_tokens=100,
        predicted_cached_tokens=predicted,
        checks=checks_of([row], [predicted]),
    )


def test_the_tolerance_is_in_points() -> None:
    assert validation(50, 52).agrees
    assert not validation(50, 53).agrees
    assert not validation(50, 47).agrees
    assert "difference +3.00 points: OUTSIDE" in format_validation(validation(50, 53))


def test_the_furthest_requests_are_named() -> None:
    text = format_validation(validation(10, 30))
    assert "0.00 % exact, 0.00 % within a page, mean error 20.0 tokens" in text
    assert text.count("r0") == 1
    assert "furthest" not in format_validation(validation(10, 10))
