"""`radixcache curve`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.command_line import SMALL, Ran, run, run_apart, write_rows

CHAT = ("--workload", "chat", "--size", "6", "--quiet")


def document(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    ran = run(capsys, "curve", *arguments, "--json", "--quiet")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def mooncake(path: Path) -> Path:
    """Write a trace of block hashes whose last block is partial."""
    rows = [
        {"timestamp": 0, "input_length": 1100, "output_length": 9, "hash_ids": [1, 2, 3]},
        {"timestamp": 1000, "input_length": 600, "output_length": 9, "hash_ids": [7, 8]},
        {"timestamp": 2000, "input_length": 1100, "output_length": 9, "hash_ids": [1, 2, 3]},
        {"timestamp": 3000, "input_length": 1600, "output_length": 9, "hash_ids": [1, 2, 4, 5]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_table_holds_lru_the_optimum_and_what_follows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = run(capsys, "curve", *SMALL)
    assert ran.code == 0
    head, units, *rows = ran.out.splitlines()
    names = ("pages", "tokens", "LRU cold", "LRU warm", "of ceiling", "opt. cold", "opt. warm")
    assert head.split() == " ".join(names).split()
    assert units.split() == ["%"] * 5
    assert rows[rows.index("") - 1].split()[0] == "unbounded"
    for name in ("ceiling", "DFS optimum", "LRU, knee", "LRU, 95 % of the ceiling"):
        assert f"\n{name}  " in ran.out
    assert "the memory of running requests comes on top" in ran.out


def test_json_holds_the_whole_curve_and_how_it_was_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, *CHAT)
    lru, optimum = found["lru"], found["optimum"]
    assert lru["capacities_pages"][0] == lru["hit_tokens"][0] == 0
    assert len(lru["capacities_pages"]) == len(lru["second_half_hit_tokens"])
    assert optimum["capacities_pages"][-1] == optimum["ceiling_pages"] <= lru["saturated_pages"]
    assert optimum["hit_tokens"][-1] == lru["hit_tokens"][-1]
    assert found["command"] == "radixcache curve --workload chat --size 6"
    assert found["rows"][-1]["lru_share_of_ceiling"] == 1.0
    assert found["rows"][-1]["optimal_hit_rate"] == lru["ceiling_hit_rate"]
    for row in found["rows"]:
        assert row["lru_hit_rate"] <= row["optimal_hit_rate"] <= lru["ceiling_hit_rate"]


def test_the_ceiling_and_the_dfs_optimum_are_those_of_inspect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, *CHAT)
    seen = json.loads(run(capsys, "inspect", *CHAT, "--json").out)
    assert found["lru"]["ceiling_hit_rate"] == seen["ceiling_hit_rate"]
    assert found["dfs_optimum"]["hit_rate"] == seen["optimal_hit_rate"]


def test_csv_has_a_row_a_capacity(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    ran = run(capsys, "curve", *CHAT, "--capacities", "6400,64_000", "--csv", "-o", path)
    assert (ran.code, ran.out) == (0, "")
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["capacity_tokens"] for row in rows] == ["6400", "64000", ""]
    assert [row["capacity_pages"] for row in rows] == ["100", "1000", ""]
    assert rows[0]["kv_bytes"] == ""


@pytest.mark.parametrize(
    ("ours", "rule"),
    [
        ((), ("--last-token", "--cache-output", "all")),
        (("--cache-output", "none"), ("--last-token",)),
        (("--lookup",), ()),
        (("--lookup", "--cache-output", "all"), ("--cache-output", "all")),
    ],
)
@pytest.mark.parametrize("policy", ["lru", "optimal"])
def test_each_capacity_equals_the_lookup_replay(
    capsys: pytest.CaptureFixture[str], ours: tuple[str, ...], rule: tuple[str, ...], policy: str
) -> None:
    found = document(capsys, *CHAT, *ours, "--capacities", "6400,64000,640000")
    name = "lru_hit_rate" if policy == "lru" else "optimal_hit_rate"
    for row in found["rows"][:-1]:
        capacity = ("--capacity-tokens", str(row["capacity_tokens"]), "--eviction", policy)
        ran = run(capsys, "replay", *CHAT, "--lookup", *rule, *capacity, "--json")
        assert json.loads(ran.out)["cold_hit_rate"] == row[name]


def test_block_hashes_count_whole_blocks_or_as_a_simulator_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = mooncake(tmp_path / "mooncake.jsonl")
    found = document(capsys, path)
    assert found["lru"]["hit_tokens"][-1] == 4 * 512
    assert found["lru"]["cached_output_requests"] == 0
    found = document(capsys, path, "--lookup")
    assert found["lru"]["hit_tokens"][-1] == 1100 + 2 * 512
    assert found["dfs_optimum"] is None
    ran = run(capsys, "curve", path, "--quiet", "--kv-bytes-per-token", "1048576")
    assert "no: prompts alone are counted" in ran.out
    assert "GiB" in ran.out.splitlines()[0]
    assert "longest request              3 pages = 1,536 tokens = 1.50 GiB" in ran.out


def test_answers_that_are_not_cached_hit_less(capsys: pytest.CaptureFixture[str]) -> None:
    rates = [
        document(capsys, *CHAT, *rule)["lru"]["ceiling_hit_rate"]
        for rule in ((), ("--cache-output", "all"), ("--cache-output", "none"))
    ]
    assert rates[0] == rates[1] > rates[2]


def test_a_sample_says_its_error_and_has_no_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    sampled = ("--workload", "unique", "--size", "60", "--page-size", "16", "--sample", "0.05")
    ran = run(capsys, "curve", *sampled, "--quiet")
    assert "opt. cold" not in ran.out
    assert "+- is one standard error of LRU cold" in ran.out
    assert "the error itself is rough" in ran.out
    # Alone in its process with other hashes it draws the same pages.
    apart = run_apart("curve", *sampled, "--quiet", hash_seed="7")
    assert apart.out == ran.out


def test_without_the_optimum_lru_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    alone, both = document(capsys, *CHAT, "--no-optimum"), document(capsys, *CHAT)
    assert alone["lru"] == both["lru"]
    assert alone["optimum"] is None
    assert "--no-optimum" in alone["command"]


def test_prompts_that_share_nothing_have_no_knee(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(
        tmp_path / "cold.jsonl",
        '{"rid":"a","t":0,"tokens":[1,2,3]}',
        '{"rid":"b","t":1,"tokens":[4,5,6]}',
    )
    ran = run(capsys, "curve", path, "--quiet", "--page-size", "1")
    assert ran.code == 0
    assert "knee  " not in ran.out
    assert ran.out.splitlines()[2].split() == ["unbounded", "0.00", "0.00", "-", "0.00", "0.00"]


def refused(ran: Ran, *parts: str) -> None:
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--capacities", "0"), ("--capacities", "at least 1")),
        (("--capacities", "640,640"), ("640", "once")),
        (("--capacities", "63"), ("63 tokens", "page of 64")),
        (("--sample", "1.5"), ("--sample", "at most 1")),
        (("--sample", "nan"), ("--sample", "above 0")),
        (("--sample", "0.5", "--no-optimum"), ("--no-optimum", "leave it out")),
        (("--cache-output", "visible"), ("--cache-output", "all", "none")),
        (("--kv-bytes-per-token", "0"), ("--kv-bytes-per-token", "above 0")),
        (("--json", "--csv"), ("--csv", "--json")),
        (("-o", "/no/such/folder/x"), ("existing folder",)),
    ],
)
def test_wrong_options_are_one_line(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    refused(run(capsys, "curve", *SMALL, *options), *parts)


def test_what_is_no_trace_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    refused(run(capsys, "curve", empty), "empty", "at least one request")
    refused(run(capsys, "curve", tmp_path / "none"), "No such file", "check the path")
    path = mooncake(tmp_path / "mooncake.jsonl")
    refused(run(capsys, "curve", path, "--page-size", "64"), "blocks of 512", "--page-size")
    refused(run(capsys, "curve", path, "--cache-output", "all"), "no block ids", "leave it out")
