"""What-if rows of the Mooncake trace: the rates of SCHEDULING.md section 5, and of four caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.analysis.changes import PageSize, Replicas
from scheduler.analysis.what_if import WhatIf, what_if
from scheduler.trace import open_trace

BLOCK_TOKENS = 512


@pytest.fixture(scope="module")
def answer(shared_dir: Path) -> WhatIf:
    """2,000 pages a cache; full pages, last-token rule."""
    trace = open_trace(str(shared_dir / "traces" / "mooncake_conversation.jsonl.gz"))
    changes = [PageSize(4 * BLOCK_TOKENS), Replicas(4, "cache-aware"), Replicas(4, "prefix")]
    return what_if(
        trace, changes, page_size=BLOCK_TOKENS, capacity_tokens=2_000 * BLOCK_TOKENS, together=False
    )


def test_one_cache_and_the_pool_of_four_are_the_published_rates(answer: WhatIf) -> None:
    base, pool = answer.rows[0], answer.rows[-1]
    assert (base.capacity_pages, pool.capacity_pages) == (2_000, 8_000)
    assert [f"{100 * (row.cold_hit_rate or 0):.1f}" for row in (base, pool)] == ["5.6", "18.9"]
    assert {f"{row.optimal_hit_rate:.5f}" for row in (base, pool)} == {"0.37338"}


def test_one_common_block_sends_everything_to_one_replica(answer: WhatIf) -> None:
    aware, prefix = answer.rows[2:4]
    assert prefix.imbalance == pytest.approx(4.0)
    assert prefix.hit_tokens == answer.rows[0].hit_tokens
    assert aware.imbalance == pytest.approx(1.0, abs=0.05)
    assert aware.cold_hit_rate == pytest.approx(answer.rows[-1].cold_hit_rate, abs=0.005)


def test_larger_pages_lose_what_they_cut_off(answer: WhatIf) -> None:
    base, larger = answer.rows[:2]
    assert larger.capacity_pages == 500
    assert (larger.optimal_hit_rate or 1) < (base.optimal_hit_rate or 0)
