"""Synthetic workloads: shapes, sharing, and the same bytes for the same seed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import ConfigError
from scheduler.trace import Workload, chat, few_shot, trace_lines, unique

SMALL: dict[str, Callable[[int], Workload]] = {
    "few-shot": lambda seed: few_shot(seed, requests=60),
    "unique": lambda seed: unique(seed, requests=60),
    "chat": lambda seed: chat(seed, sessions=15),
}


def digest(workload: Workload) -> str:
    return hashlib.sha256(b"".join(trace_lines(workload))).hexdigest()


@pytest.mark.parametrize("name", SMALL)
def test_same_seed_gives_the_same_bytes(name: str) -> None:
    workload = SMALL[name](5)
    assert digest(workload) == digest(workload) == digest(SMALL[name](5))
    assert digest(workload) != digest(SMALL[name](6))


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib; from scheduler.trace import *;"
        "print(hashlib.sha256(b''.join(trace_lines(chat(5, sessions=15)))).hexdigest())"
    )
    root = Path(__file__).resolve().parents[3]
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
        assert run.stdout.decode().strip() == digest(SMALL["chat"](5))


@pytest.mark.parametrize("name", SMALL)
def test_requests_are_in_order_with_unique_names(name: str) -> None:
    requests = list(SMALL[name](1))
    times_s = [r.arrival_s for r in requests]
    assert times_s == sorted(times_s)
    assert len({r.rid for r in requests}) == len(requests)
    for request in requests:
        assert request.prompt_tokens == len(request.key)
        assert 64 <= (request.recorded_output_tokens or 0) <= request.max_new_tokens == 512


def test_few_shot_shares_96_prefixes_of_3100_tokens() -> None:
    requests = list(few_shot(0))
    assert len(requests) == 4000
    shared = Counter(r.key.data[: 4 * 3100] for r in requests)
    assert len(shared) == 96
    assert len({r.key.data[: 4 * 600] for r in requests}) == 8
    ranked = [count for _, count in shared.most_common()]
    assert 5 < ranked[0] / ranked[-1] < 40
    assert all(3100 + 64 <= r.prompt_tokens <= 3100 + 512 for r in requests)
    assert requests[-1].arrival_s == pytest.approx(4000, rel=0.1)


def test_unique_prompts_share_nothing() -> None:
    requests = list(unique(0, requests=500))
    assert len({r.key.data[:4] for r in requests}) == 500


def test_chat_turn_extends_prompt_and_answer_before() -> None:
    workload = chat(0, sessions=200)
    assert workload.plan is not None
    plans = list(workload.plan())
    assert sum(len(plan.turns) for plan in plans) / len(plans) == pytest.approx(6, rel=0.1)
    thinks_s = [turn.think_s for plan in plans for turn in plan.turns[1:]]
    assert sum(thinks_s) / len(thinks_s) == pytest.approx(30, rel=0.1)
    whole: dict[Any, list[int]] = {}
    for request in workload:
        tokens = request.key.tokens()
        before = whole.get(request.session_id, [])
        assert tokens[: len(before)] == before
        whole[request.session_id] = tokens + list(request.recorded_output_ids or ())


@pytest.mark.parametrize(
    "make",
    [
        lambda: few_shot(-1),
        lambda: few_shot(0, requests=0),
        lambda: few_shot(0, systems=1.5),  # type: ignore[arg-type]
        lambda: unique(0, rate_per_s=float("nan")),
        lambda: chat(0, mean_turns=float("inf")),
        lambda: chat(0, think_s=-1),
    ],
)
def test_impossible_sizes_are_refused(make: Callable[[], Workload]) -> None:
    with pytest.raises(ConfigError):
        make()
