"""The loss waterfall of the Mooncake trace: 2,000 pages of 512 tokens in arrival order."""

from __future__ import annotations

from pathlib import Path

from scheduler.analysis.losses import TokenLosses, loss_waterfall
from scheduler.request import Request
from scheduler.trace import open_trace


def test_where_the_prompt_tokens_went(shared_dir: Path) -> None:
    unequal: list[str] = []

    def on_request(request: Request, losses: TokenLosses) -> None:
        if sum(losses) != request.prompt_tokens or min(losses) < 0:
            unequal.append(request.rid)

    found = loss_waterfall(
        open_trace(shared_dir / "traces" / "mooncake_conversation.jsonl.gz"),
        512,
        capacity_pages=2_000,
        on_request=on_request,
    )
    assert not unequal
    assert found.requests == 12_031
    parts = (
        found.hit_tokens,
        found.eviction_policy_tokens,
        found.order_tokens,
        found.last_token_tokens + found.alignment_tokens + found.compulsory_tokens,
    )
    assert sum(parts) == found.prompt_tokens
    shares = [round(100 * part / found.prompt_tokens, 1) for part in parts]
    assert shares == [5.6, 19.8, 11.9, 62.7]
    # Here the order's loss is exactly what the optimum for this order loses against C*.
    assert found.order_tokens == found.dfs_optimal_hit_tokens - found.optimal_eviction_hit_tokens
