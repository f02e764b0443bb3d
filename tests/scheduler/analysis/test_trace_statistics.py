"""Trace statistics: one pass, right sums, nothing made up where nothing is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from radixcache import Namespace, PrefixKey
from scheduler.analysis.prefix_trie import PrefixTrie
from scheduler.analysis.statistics_table import format_statistics
from scheduler.analysis.trace_statistics import trace_statistics
from scheduler.report.document import json_text
from scheduler.request import Request
from scheduler.trace import open_trace


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
    document = json.loads(json_text(found.as_dict()))
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


def test_prompts_alone_stand_beside_prompts_and_outputs() -> None:
    found = trace_statistics(three(), 2, cached_outputs=True)
    alone = trace_statistics(three(), 2)
    assert found.prompt_only_ceiling_hit_rate == alone.ceiling_hit_rate
    assert found.prompt_only_optimal_hit_rate == alone.optimal_hit_rate
    assert alone.prompt_only_optimal_hit_rate == alone.optimal_hit_rate
    text = format_statistics(found)
    assert "58.82 % hit rate; 47.06 % of prompts only" in text


@pytest.mark.parametrize(
    ("name", "alone", "with_outputs"),
    [
        ("sharegpt_dummy.json", "0.00", "24.55"),
        ("sharegpt_toolcall.json.gz", "55.51", "73.25"),
        ("agent_miniswe.jsonl.gz", "90.76", "90.76"),
    ],
)
def test_outputs_of_the_real_traces(
    shared_dir: Path, name: str, alone: str, with_outputs: str
) -> None:
    trace = open_trace(shared_dir / "traces" / name)
    found = trace_statistics(trace, 64, cached_outputs=True, sharing=PrefixTrie())
    text = format_statistics(found)
    assert f"{with_outputs} % hit rate in arrival order; {alone} % of prompts only" in text
    assert found.shared_prefixes


def test_turns_count_the_requests_of_each_session() -> None:
    sessions = ["a", "b", "a", None, "a"]
    found = trace_statistics([request([1], session_id=name) for name in sessions], 1)
    assert found.turns is not None
    assert (found.turns.mean, found.turns.p50, found.turns.max) == (2.0, 2.0, 3)
    assert trace_statistics([request([1])], 1).turns is None


def test_even_arrivals_do_not_vary_and_bursts_do() -> None:
    even = trace_statistics([request([1], at=10.0 * n) for n in range(60)], 1).burstiness
    assert even is not None
    assert even.gap_variation == pytest.approx(0.0, abs=1e-9)
    assert (even.peak_per_minute, even.mean_per_minute, even.peak_to_mean) == (6, 6.0, 1.0)
    times = [0.0] * 9 + [300.0]
    burst = trace_statistics([request([1], at=at) for at in times], 1).burstiness
    assert burst is not None
    gaps = [0.0] * 8 + [300.0]
    assert burst.gap_variation == pytest.approx(pstdev(gaps) / fmean(gaps))
    assert burst.peak_to_mean == pytest.approx(9 / (10 / 6))


def test_arrivals_at_one_moment_have_no_variation() -> None:
    found = trace_statistics([request([1]), request([1])], 1)
    assert found.burstiness is not None
    assert found.burstiness.gap_variation is None
    assert "vary by - of" in format_statistics(found)
    assert json.loads(json_text(found.as_dict()))["peak_to_mean_requests_per_minute"] == 1.0
