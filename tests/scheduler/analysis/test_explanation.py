"""An explanation: the waterfall, the places where prompts part, and advice that is true."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.analysis.explanation import Explanation, explain, suggestions
from scheduler.analysis.explanation_table import format_explanation, percentages, waterfall_rows
from scheduler.analysis.losses import LossWaterfall, loss_waterfall
from scheduler.request import Request
from scheduler.trace import make_workload
from scheduler.trace.quoting import Quoter


def chats(timestamp: str | None, seed: int = 0) -> list[Request]:
    return list(make_workload("chat", seed=seed, size=60, timestamp=timestamp))  # type: ignore[arg-type]


def explained(requests: list[Request], page_size: int = 16, **options: object) -> Explanation:
    quoter = Quoter()
    return explain(
        lambda: requests,
        page_size,
        quote=quoter.quote,
        context=quoter.quote_end,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("page_size", [16, 64])
def test_a_timestamp_is_named_and_its_repair_predicted(seed: int, page_size: int) -> None:
    found = explained(chats("before", seed), page_size)
    (place,) = found.places
    assert place.start_tokens in {7, 9}  # 2026-11-30, and the hour where all share it
    assert place.context.startswith('"2026-11-30 ')
    assert place.longest_tokens == 12 - place.start_tokens
    assert all(example.count(":") >= 1 for example in place.examples)
    assert place.moved_requests == found.waterfall.requests
    repaired = explained(chats("after", seed), page_size)
    assert place.hit_rate_before == found.waterfall.hit_rate
    assert place.hit_rate_after == repaired.waterfall.hit_rate
    assert place.gained_share > 0.02
    assert repaired.places == ()
    text = format_explanation(found)
    assert place.examples[0] in text
    assert found.suggestions[0].loss == "diverging place"


def test_a_timestamp_changes_nothing_else() -> None:
    plain, before, after = (chats(place) for place in (None, "before", "after"))
    for one, two, three in zip(plain, before, after, strict=True):
        assert one.arrival_s == two.arrival_s == three.arrival_s
        assert one.recorded_output_ids == two.recorded_output_ids
        assert one.prompt_tokens + 12 == two.prompt_tokens == three.prompt_tokens
        assert two.key.data.endswith(one.key.data)


def waterfall(**parts: int) -> LossWaterfall:
    names = ("hit", "last_token", "alignment", "in_flight", "evicted", "compulsory")
    fields = {f"{name}_tokens": parts.get(name, 0) for name in names}
    return LossWaterfall(
        requests=1,
        order=None,
        page_size=16,
        capacity_pages=4,
        policy="lru",
        cached_outputs=True,
        prompt_tokens=sum(fields.values()),
        eviction_policy_tokens=parts.get("policy", 0),
        order_tokens=parts.get("evicted", 0) - parts.get("policy", 0),
        optimal_eviction_hit_tokens=parts.get("hit", 0) + parts.get("policy", 0),
        dfs_optimal_hit_tokens=parts.get("hit", 0) + parts.get("evicted", 0),
        dfs_optimal_hit_rate=0.5,
        exact_optimum=True,
        **fields,
    )


def test_advice_goes_with_the_losses_that_matter() -> None:
    found = suggestions(
        waterfall(hit=100, last_token=20, alignment=30, evicted=100, policy=60, compulsory=1), ()
    )
    assert [item.loss for item in found] == [
        "eviction policy",
        "order",
        "alignment",
        "last_token",
    ]
    assert suggestions(waterfall(hit=1_000, alignment=2, compulsory=50), ()) == ()
    assert suggestions(waterfall(), ()) == ()


def test_a_scheduled_waterfall_does_not_split_what_was_evicted() -> None:
    found = replace(
        waterfall(hit=100, in_flight=10, evicted=50),
        order="fcfs",
        eviction_policy_tokens=None,
        order_tokens=None,
        optimal_eviction_hit_tokens=None,
    )
    advice = suggestions(found, ())
    assert [item.loss for item in advice] == ["evicted", "in flight"]
    text = format_explanation(Explanation(found, None, False, advice))
    assert "evicted: cached before, and given up 50 31.25" in " ".join(text.split())
    assert "by fcfs, each at its first admission" in text
    assert "optimal eviction" not in text


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=7))
def test_percentages_add_up(parts: list[int]) -> None:
    shown = percentages(parts)
    if not sum(parts):
        assert set(shown) == {"-"}
        return
    assert sum(round(100 * float(value)) for value in shown) == 10_000
    for part, value in zip(parts, shown, strict=True):
        assert abs(float(value) - 100 * part / sum(parts)) <= 0.005 * len(parts) + 1e-9
    assert abs(float(shown[0]) - 100 * parts[0] / sum(parts)) <= 0.005 + 1e-9


def test_the_rows_are_all_prompt_tokens() -> None:
    requests = chats(None)
    found = loss_waterfall(requests, 16, capacity_pages=500)
    assert found.evicted_tokens
    rows = waterfall_rows(found)
    assert sum(tokens for _, tokens in rows) == found.prompt_tokens


def test_nothing_to_explain_is_dashes() -> None:
    found = explained([])
    text = format_explanation(found)
    assert "all prompt tokens                                0  -\n" in text
    assert "Hit rate -" in text
    assert json.loads(json.dumps(found.as_dict()))["waterfall"]["hit_rate"] is None
