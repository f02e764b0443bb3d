"""Synthetic workloads: shapes, sharing, and the same bytes for the same seed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import ConfigError
from scheduler.trace import (
    WORKLOADS,
    Workload,
    agents,
    chat,
    few_shot,
    make_workload,
    open_trace,
    sharegpt_json,
    sharegpt_like,
    trace_lines,
    tree,
    unique,
)

SMALL: dict[str, Callable[..., Workload]] = {
    name: partial(make_workload, name, size=size)
    for name, size in {
        "sharegpt-like": 30,
        "few-shot": 60,
        "chat": 15,
        "agents": 2,
        "tree": 2,
        "unique": 60,
    }.items()
}


def digest(workload: Workload) -> str:
    return hashlib.sha256(b"".join(trace_lines(workload))).hexdigest()


@pytest.mark.parametrize("name", SMALL)
def test_same_seed_gives_the_same_bytes(name: str) -> None:
    workload = SMALL[name](seed=5)
    assert digest(workload) == digest(workload) == digest(SMALL[name](seed=5))
    assert digest(workload) != digest(SMALL[name](seed=6))


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib; from scheduler.trace import *;"
        "print(hashlib.sha256(b''.join(trace_lines(chat(5, sessions=15)))).hexdigest())"
    )
    root = Path(__file__).resolve().parents[3]
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
        assert run.stdout.decode().strip() == digest(SMALL["chat"](seed=5))


@pytest.mark.parametrize("name", SMALL)
def test_requests_are_in_order_with_unique_names(name: str) -> None:
    requests = list(SMALL[name](seed=1))
    times_s = [r.arrival_s for r in requests]
    assert times_s == sorted(times_s)
    assert len({r.rid for r in requests}) == len(requests)
    for request in requests:
        assert request.prompt_tokens == len(request.key)
        assert (request.recorded_output_tokens or 0) <= request.max_new_tokens


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
    plans = list(workload.sessions())
    assert sum(len(plan.turns) for plan in plans) / len(plans) == pytest.approx(6, rel=0.1)
    thinks_s = [turn.think_s for plan in plans for turn in plan.turns[1:]]
    assert sum(thinks_s) / len(thinks_s) == pytest.approx(30, rel=0.1)
    whole: dict[Any, list[int]] = {}
    for request in workload:
        tokens = request.key.tokens()
        before = whole.get(request.session_id, [])
        assert tokens[: len(before)] == before
        whole[request.session_id] = tokens + list(request.recorded_output_ids or ())


def test_agents_have_long_growing_prompts() -> None:
    workload = agents(0, sessions=40)
    plans = list(workload.sessions())
    steps = [len(plan.turns) for plan in plans if plan.session_id.startswith("agent")]
    assert len(steps) == 40
    assert sum(steps) / 40 == pytest.approx(40, rel=0.15)
    lengths = [r.prompt_tokens for r in workload]
    colds = [r for r in workload if (r.session_id or "").startswith("cold")]
    assert len(colds) / len(lengths) == pytest.approx(0.04, rel=0.2)
    assert all(10_000 <= r.prompt_tokens <= 40_000 for r in colds)
    assert sum(lengths) / len(lengths) == pytest.approx(38_000, rel=0.06)


def test_thoughts_extend_the_thoughts_above_them() -> None:
    requests = list(tree(0, problems=1, branches=3, beam=2, depth=3))
    levels = [[r for r in requests if f"/{level}." in r.rid] for level in (1, 2, 3)]
    assert [len(level) for level in levels] == [3, 6, 6]
    assert [len({r.key.data for r in level}) for level in levels] == [1, 2, 2]
    for above, below in pairwise(levels):
        ends_s = [r.arrival_s + (r.recorded_output_tokens or 0) * 0.03 for r in above]
        wholes = [r.key.tokens() + list(r.recorded_output_ids or ()) for r in above]
        for request in below:
            assert request.arrival_s >= max(ends_s)
            assert any(request.key.tokens()[: len(whole)] == whole for whole in wholes)


def test_sharegpt_like_has_the_quirks_of_the_real_files() -> None:
    records = json.loads(b"".join(sharegpt_json(0)))
    starts = [r["conversations"][0]["from"] for r in records if r["conversations"]]
    answers = sum(start in {"gpt", "chatgpt", "assistant", "bing"} for start in starts)
    assert answers / len(records) == pytest.approx(0.36, abs=0.05)
    workload = sharegpt_like(0)
    requests = list(workload)
    summary = workload.summary
    assert summary.records == len(records)
    assert summary.rows == summary.requests + summary.skipped_rows
    assert len(requests) == summary.requests > 2000
    assert set(summary.skipped) >= {"empty conversation", "answer without a prompt before it"}
    assert len(summary.repaired) >= 4


def test_sharegpt_like_file_and_workload_hold_the_same_prompts(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_bytes(b"".join(sharegpt_json(4, conversations=40)))
    trace = open_trace(path)
    workload = sharegpt_like(4, conversations=40)
    assert {r.rid: r.key.data for r in trace} == {r.rid: r.key.data for r in workload}
    assert trace.summary.skipped == workload.summary.skipped
    assert trace.summary.repaired == workload.summary.repaired


def test_every_workload_is_made_by_name() -> None:
    assert set(SMALL) == set(WORKLOADS)
    with pytest.raises(ConfigError, match="unknown workload 'chta'; known: sharegpt-like, "):
        make_workload("chta", seed=0)
    with pytest.raises(ConfigError, match="unique has no sessions"):
        make_workload("unique", seed=0).sessions()


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
