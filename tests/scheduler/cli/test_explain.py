"""`radixcache explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.command_line import SMALL, run, run_apart, write_rows

MOONCAKE = (
    '{"timestamp":0,"input_length":1100,"output_length":3,"hash_ids":[1,2,3]}\n'
    '{"timestamp":1,"input_length":1100,"output_length":3,"hash_ids":[1,2,4]}\n'
)


def test_a_built_in_workload_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "explain", *SMALL)
    assert ran.code == 0
    assert "all prompt tokens" in ran.out
    assert " 100.00\n" in ran.out
    assert "few-shot prompts" in ran.err


def test_a_timestamp_in_a_generated_trace_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rates = {}
    for place in ("before", "after"):
        path = tmp_path / f"{place}.jsonl.gz"
        made = run(capsys, "generate", "chat", "--size", "60", "--timestamp", place, "-o", path)
        assert made.code == 0
        ran = run(capsys, "explain", path, "--json", "--quiet")
        assert ran.code == 0
        rates[place] = json.loads(ran.out)
    (found,) = rates["before"]["diverging_places"]
    assert found["context"].startswith('"2026-11-30 ')
    assert found["hit_rate_after"] == rates["after"]["waterfall"]["hit_rate"]
    assert rates["after"]["diverging_places"] == []
    assert rates["before"]["command"].startswith("radixcache explain ")
    assert rates["before"]["version"]


def test_the_text_of_a_span_is_quoted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = "You are a careful assistant who answers in full sentences and never guesses. " * 8
    rows = [
        {
            "id": str(n),
            "conversations": [
                {"from": "system", "value": f"Request {n * 7919 % 1000:03d}-{n:02d}. {rules}"},
                {"from": "human", "value": f"What is {n} plus {n + 1}?"},
                {"from": "gpt", "value": f"It is {2 * n + 1}."},
            ],
        }
        for n in range(40)
    ]
    path = tmp_path / "chats.json"
    path.write_text(json.dumps(rows))
    ran = run(capsys, "explain", path, "--page-size", "16", "--quiet")
    assert ran.code == 0
    assert 'after "<|system|>\\nRequest "' in ran.out.replace("\n", " ").replace("     ", " ")
    assert '"000-00' in ran.out


def test_block_ids_show_no_places(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mooncake.jsonl"
    path.write_text(MOONCAKE)
    ran = run(capsys, "explain", path, "--quiet")
    assert ran.code == 0
    assert "none can be seen" in ran.out
    assert "outputs not cached" in ran.out
    assert json.loads(run(capsys, "explain", path, "--json").out)["waterfall"]["hit_tokens"] == 1024
    ran = run(capsys, "explain", path, "--cache-output", "all")
    assert ran.code == 2
    assert "outputs of this trace have no block ids" in ran.err


def test_answers_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    chat = ("explain", "--workload", "chat", "--size", "5", "--json", "--quiet")
    hits = {
        choice: json.loads(run(capsys, *chat, "--cache-output", choice).out)["waterfall"]
        for choice in ("all", "none")
    }
    assert hits["all"]["hit_tokens"] > hits["none"]["hit_tokens"]
    assert not hits["none"]["cached_outputs"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--eviction", "optimal"), "eviction is 'optimal': use one of"),
        (("--eviction", "none", "--policy", "lpm"), "eviction is 'none': use one of"),
        (("--rate", "4"), "--rate does nothing without --policy"),
        (("--preset", "vllm"), "--preset does nothing without --policy"),
        (("--model", "llama-3.1-8b", "--gpu", "h100-sxm"), "--gpu does nothing without --policy"),
        (("--places", "1", "--policy", "lpm"), "--places does nothing with --policy"),
        (("--preset", "vllm,sglang", "--policy", "lpm"), "explain runs one preset"),
        (("--policy", "best"), "best"),
        (("--capacity-tokens", "10"), "capacity is 10 tokens, less than a page of 64"),
    ],
)
def test_what_cannot_be_explained_is_refused(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    ran = run(capsys, "explain", *SMALL, *options)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_an_empty_and_a_missing_file_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for path in (empty, tmp_path / "missing.jsonl"):
        ran = run(capsys, "explain", path)
        assert ran.code == 2
        assert ran.err.count("\n") == 1


def test_the_same_trace_gives_the_same_bytes() -> None:
    chat = ("explain", "--workload", "chat", "--size", "20", "--json", "--quiet")
    assert run_apart(*chat, hash_seed="1").out == run_apart(*chat, hash_seed="2").out


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "sglang-lpm"])
def test_a_scheduled_replay_hits_what_replay_says(
    capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    small = (*SMALL, "--capacity-tokens", "16384", "--rate", "40", "--json", "--policy", policy)
    waterfall = json.loads(run(capsys, "explain", *small).out)["waterfall"]
    replayed = json.loads(run(capsys, "replay", *small).out)["runs"][0]
    assert waterfall["hit_rate"] == pytest.approx(replayed["values"]["cold_hit_rate_share"])
    assert waterfall["order"] == policy
    assert waterfall["eviction_policy_tokens"] is None
    text = run(capsys, "explain", *[word for word in small if word != "--json"]).out
    assert "leave --policy out" in text
    assert f"by {policy}, each at its first admission" in text


def test_a_timestamp_goes_with_chats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for kind, name in (("few-shot", "a.jsonl"), ("sharegpt-like", "a.json")):
        ran = run(capsys, "generate", kind, "--timestamp", "before", "-o", tmp_path / name)
        assert ran.code == 2
        assert "chat" in ran.err


@pytest.mark.parametrize("samples", [1, 3])
def test_the_best_order_is_that_of_the_requests_that_count(
    samples: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    long = {"rid": "z", "t": 0, "tokens": list(range(300)), "max_new": 400, "output_tokens": 400}
    shared = [
        {"rid": f"r{i}", "t": 0.1, "tokens": [1] * 500 + [i], "max_new": 4, "abort_after_s": 0.01}
        for i in range(9)
    ]
    again = {**long, "rid": "y", "t": 60, "max_new": 1, "output_tokens": 1, "samples": samples}
    path = write_rows(tmp_path / "trace.jsonl", *map(json.dumps, [long, *shared, again]))
    options = ("--policy", "lpm", "--capacity-tokens", "800", "--page-size", "4", "-q", "--json")
    ran = run(capsys, "explain", path, *options)
    assert "9 requests were never admitted" in ran.err
    waterfall = json.loads(ran.out)["waterfall"]
    assert waterfall["prompt_tokens"] == 300 * (1 + samples)
    assert waterfall["dfs_optimal_hit_tokens"] == 296 * samples
    assert waterfall["hit_rate"] <= waterfall["dfs_optimal_hit_rate"] <= 1
    (replayed,) = json.loads(run(capsys, "replay", path, *options).out)["runs"]
    assert replayed["values"]["optimal_reached_share"] is None
    assert replayed["assumptions"]["never_admitted"].startswith("9 requests")
