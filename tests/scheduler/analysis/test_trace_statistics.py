"""Trace statistics: one pass, right sums, nothing made up where nothing is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from radixcache import Namespace, PrefixKey
from scheduler.analysis.trace_statistics import format_statistics, trace_statistics
from scheduler.request import Request


def request(tokens: list[int], at: float = 0.0, **more: object) -> Request:
    namespace = more.pop("namespace", Namespace())
    return Request(
        rid="r",
        key=PrefixKey(tokens, namespace),  # type: ignore[arg-type]
        prompt_tokens=len(tokens),
        max_new_tokens=4,
        arrival_s=at,
        **more,  # type: ignore[arg-type]
    )


def three() -> list[Request]:
    return [
        request([1, 2, 3, 4, 5], 1.0, recorded_output_tokens=3, recorded_output_ids=(6, 7, 8)),
        request([1, 2, 3, 4, 9], 2.0, session_id="a"),
        request([1, 2, 3, 4, 5, 6, 7], 5.0, session_id="a", recorded_output_tokens=1),
    ]


def test_sums_lengths_and_sharing() -> None:
    found = trace_statistics(three(), 2)
    assert (found.requests, found.span_s, found.sessions, found.namespaces) == (3, 4.0, 1, 1)
    assert found.prompt is not None
    assert (found.prompt.total, found.prompt.p50, found.prompt.max) == (17, 5.0, 7)
    assert found.output is not None
    assert (found.output.total, found.outputs_recorded) == (4, 2)
    assert (found.full_pages, found.distinct_pages) == (7, 3)
    assert found.shared_pages_share == pytest.approx(4 / 7)
    assert found.ceiling_hit_rate == pytest.approx((4 + 4) / 17)
    assert found.optimal_hit_rate == pytest.approx(8 / 17)


def test_cached_outputs_raise_ceiling_and_optimum() -> None:
    found = trace_statistics(three(), 2, cached_outputs=True)
    assert found.ceiling_hit_rate == pytest.approx((4 + 6) / 17)
    assert found.optimal_hit_rate == pytest.approx(10 / 17)


def test_namespaces_are_counted_and_share_nothing() -> None:
    found = trace_statistics(
        [request([1, 2], namespace=Namespace.of(lora=name)) for name in ("a", "b")], 1
    )
    assert found.namespaces == 2
    assert found.ceiling_hit_rate == 0.0


def test_the_readers_counter_is_read_at_the_end_of_one_pass() -> None:
    skipped: Counter[str] = Counter()

    def reader() -> Iterator[Request]:
        yield from three()
        skipped["empty prompt"] += 2

    found = trace_statistics(reader(), 2, skipped=skipped)
    assert found.skipped == {"empty prompt": 2}
    assert "empty prompt" in format_statistics(found)


def test_an_empty_trace_is_dashes_and_nulls() -> None:
    found = trace_statistics([], 16)
    document = json.loads(found.to_json())
    assert document["prompt"] is None
    assert document["optimal_hit_rate"] is None
    assert "nan" not in format_statistics(found).lower()
    assert "DFS optimum           - hit rate" in format_statistics(found)


def test_an_estimate_is_marked_and_gives_no_ceiling() -> None:
    found = trace_statistics(three(), 2, exact_limit_bytes=1)
    assert not found.exact
    assert found.ceiling_hit_rate is None
    assert "estimated, within 1.3 points" in format_statistics(found)


def test_prompts_that_fit_in_one_page_are_told() -> None:
    assert "short prompts" in format_statistics(trace_statistics(three(), 64))
    assert "short prompts" not in format_statistics(trace_statistics(three(), 2))
