"""Every example runs as its docstring says and prints what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def output_of(name: str, *arguments: str) -> list[str]:
    """Run an example in a process of its own; return the lines it printed."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not ran.stderr
    return ran.stdout.splitlines()


def numbers(line: str) -> list[float]:
    return [float(word) for word in re.findall(r"(?<![\w.-])\d+(?:\.\d+)?", line)]


@pytest.fixture
def engine_loop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the engine example beside the modules it is made of."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import engine_loop

    return engine_loop


def test_every_example_says_what_it_prints_and_is_tested() -> None:
    this = Path(__file__).read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "__main__" in text:
            assert f"python examples/{path.name}" in text
            assert f'output_of("{path.stem}"' in this
        else:
            assert "It shows nothing by itself" in text


def test_quickstart() -> None:
    assert output_of("quickstart") == [
        "8 [0, 1] CacheSize(evictable_pages=1, protected_pages=2)",
        "step 0: prefill ['second[0:22]'], decode []",
        "step 1: prefill ['first[20:23]'], decode ['second']",
        "step 2: prefill [], decode ['first']",
        "hit 20 of 45 prompt tokens: 44%",
    ]


def test_quickstart_holds_the_lines_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    example = (EXAMPLES / "quickstart.py").read_text(encoding="utf-8")
    for line in code.splitlines():
        statement = line.split("#")[0].strip()
        assert statement.startswith("from ") or statement in example


def test_embed_in_a_loop() -> None:
    lines = output_of("embed_in_a_loop")
    assert lines[0] == " 0  prefill b[0:48]                  decode -"
    assert lines[5].endswith("c ended (abort), b ended (stop)")
    assert lines[-4:] == [
        "a: 'Paris!', 48 of 79 tokens cached",
        "b: 'Rome.', 0 of 62 tokens cached",
        "c: 'Once', 48 of 77 tokens cached",
        "d: 'Madrid', 56 of 62 tokens cached",
    ]


def test_custom_eviction_policy_beats_both_others_over_the_whole_stream() -> None:
    header, *rows = output_of("custom_eviction_policy")
    assert header.split() == ["policy", "first", "half", "second", "half", "both"]
    assert [row.split()[0] for row in rows] == ["lru", "lfu", "hit-aged"]
    lru, lfu, custom = (numbers(row)[-1] for row in rows)
    assert custom > lfu > lru


def test_custom_order_serves_interactive_requests_first() -> None:
    header, *rows = output_of("custom_order")
    assert header.startswith("order")
    assert [row.split()[0] for row in rows] == ["fcfs", "lpm", "interactive"]
    (_, fcfs, _), (lpm_hits, lpm, _), (hits, interactive, other) = map(numbers, rows)
    assert interactive < lpm < fcfs
    assert interactive < other
    assert hits <= lpm_hits


def test_replay_a_trace_writes_reads_and_compares(tmp_path: Path) -> None:
    lines = output_of("replay_a_trace")
    assert lines[0] == "200 rows = 200 requests + 0 skipped"
    optimal = numbers(lines[1])[0]
    rows = lines[4:7]
    assert [row.split()[:2] for row in rows] == [[p, "STABLE"] for p in ("fcfs", "spf", "lpm")]
    hits = [numbers(row)[0] for row in rows]
    assert 0 < hits[0] <= hits[2] <= optimal

    trace = tmp_path / "mine.jsonl"
    row = {"input_length": 1030, "output_length": 4, "hash_ids": [1, 2, 3]}
    trace.write_text("".join(json.dumps({"timestamp": 900 * i, **row}) + "\n" for i in range(9)))
    assert output_of("replay_a_trace", str(trace))[0] == "9 rows = 9 requests + 0 skipped"


WORK_COLUMNS = ("asked", "bare_tokens", "tokens", "saved", "bare_ttft", "ttft")
COLUMNS = (
    *("traffic", "publish", "pressure", *WORK_COLUMNS),
    *("evicted", "remapped", "retracted", "aborted", "equal"),
)


def test_engine_loop_gives_the_tokens_of_the_bare_model_in_every_scenario() -> None:
    _, _, *rows, last = output_of("engine_loop", "--small")
    table = [dict(zip(COLUMNS, re.split(r"\s{2,}", row), strict=True)) for row in rows]
    assert len(table) == 2 * 2 * 4
    for row in table:
        assert row["equal"] == "equal", row
        assert int(row["tokens"]) < int(row["bare_tokens"])
        tight, all_of_it = row["pressure"] != "none", row["pressure"] == "all, and aborts"
        assert (int(row["evicted"]) > 0) == tight
        assert (int(row["aborted"]) > 0) == all_of_it
        if all_of_it or row["pressure"] == "retraction":
            assert int(row["retracted"]) > 0
        if all_of_it and row["publish"] == "complete":
            assert int(row["remapped"]) > 0
    assert float(last.split()[-1]) > 1e-6


class LateStream:
    """Stands in for the device's thread: a batch runs at the last moment its result allows."""

    def __init__(self, max_workers: int) -> None:
        assert max_workers == 1

    def submit(self, run: Callable[..., Any], *arguments: Any) -> SimpleNamespace:
        return SimpleNamespace(result=lambda: run(*arguments))

    def shutdown(self) -> None:
        pass


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("publish", ["complete", "schedule"])
def test_engine_loop_gives_these_tokens_however_late_the_device_is(
    engine_loop: ModuleType, monkeypatch: pytest.MonkeyPatch, chat: bool, publish: str
) -> None:
    sizes = engine_loop.SMALL
    model = engine_loop.TinyTransformer(sizes.shape)
    clients = engine_loop.make_clients(sizes, chat=chat, hang_ups=True)
    expected = engine_loop.Reference(model, sizes.max_new_tokens).serve(clients)
    scenario = engine_loop.Scenario(chat, publish, engine_loop.PRESSURES[-1])
    monkeypatch.setattr(engine_loop, "ThreadPoolExecutor", LateStream)
    outcome = engine_loop.run(model, scenario, sizes, cached=True, check=True)
    assert outcome.answers == expected
    assert outcome.retractions
    assert outcome.aborted


def test_engine_loop_would_notice_a_wrong_page(
    engine_loop: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = engine_loop.SMALL
    model = engine_loop.TinyTransformer(sizes.shape)
    scenario = engine_loop.SCENARIOS[0]
    right = engine_loop.run(model, scenario, sizes, cached=True).answers
    read = engine_loop.PagedKV.read

    def read_first_page_twice(kv: Any, layer: int, row: Any, length: int) -> Any:
        row = row.copy()
        row[1] = row[0]
        return read(kv, layer, row, length)

    monkeypatch.setattr(engine_loop.PagedKV, "read", read_first_page_twice)
    wrong = engine_loop.run(model, scenario, sizes, cached=True).answers
    assert sum(wrong[rid] != right[rid] for rid in right) > len(right) / 2


def test_a_pass_in_chunks_on_scattered_pages_gives_the_tokens_of_a_plain_pass(
    engine_loop: ModuleType,
) -> None:
    shape = engine_loop.SMALL.shape
    model = engine_loop.TinyTransformer(shape)
    rng = np.random.default_rng(5)
    for _ in range(10):
        length = int(rng.integers(2, 40))
        tokens = rng.integers(0, shape.vocabulary, length)
        kv = engine_loop.PagedKV(shape, 16, 4)
        row = rng.permutation(16)
        cuts = [0, *sorted({int(cut) for cut in rng.integers(1, length, 3)}), length]
        for start, stop in pairwise(cuts):
            span = engine_loop.Span(tokens[start:stop], start, row)
            sampled = model.next_tokens([span], kv)
            assert sampled.tolist() == [model.next_token(tokens[:stop].tolist())]
