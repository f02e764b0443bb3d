"""`radixcache whatif`: rows, forms, refusals, and a repaired trace that proves it right."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.command_line import run, run_apart, write_rows

Capture = pytest.CaptureFixture[str]

CHAT = ("--workload", "chat", "--size", "6", "--quiet")


def answered(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    """Return the JSON, its rows by label."""
    ran = run(capsys, "whatif", *arguments, "--json", "--quiet")
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(ran.out)
    document["rows"] = {row["label"]: row for row in document["rows"]}
    return document


def refused(capsys: Capture, *arguments: str | Path) -> str:
    """Return the one line that says why."""
    ran = run(capsys, "whatif", *arguments, "--quiet")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    return ran.err


def conversations(
    path: Path, *, repaired: bool = False, marks: tuple[str, str] | None = None
) -> Path:
    """Write chats whose system prompt begins, or once repaired ends, with the time."""
    rules = " ".join(f"Rule {number}: stay with the facts." for number in range(60))
    rows = []
    for number in range(30):
        now = f"It is 2026-03-{1 + number % 28:02} {number % 24:02}:{7 * number % 60:02}:00. "
        think = f"\nWhat is {number} about? Let me see.\n".join([*marks, ""]) if marks else ""
        turns = [("system", f"{rules} {now}" if repaired else f"{now}{rules} ")]
        for turn in range(3):
            turns.append(("human", f"{number} asks question {turn}: Question?"))
            turns.append(("gpt", f"{think}Answer {turn} to visitor {number}. " * 9))
        messages = [{"from": role, "value": text} for role, text in turns]
        rows.append({"id": f"chat{number}", "conversations": messages})
    path.write_text(json.dumps(rows))
    return path


def test_without_a_change_page_sizes_and_replicas_are_shown(capsys: Capture) -> None:
    ran = run(capsys, "whatif", *CHAT)
    assert ran.code == 0
    labels = [line.split("  ")[0] for line in ran.out.split("\n\n")[0].splitlines()[2:]]
    assert labels[:3] == ["as it is", "page size 16", "page size 256"]
    assert labels[-1] == "one cache of 4x"
    assert len(labels) == 8
    assert "no change was asked for" in ran.err
    assert "the busiest replica computes" in ran.out


def test_json_says_everything_and_its_command_gives_it_again(capsys: Capture) -> None:
    asked = ("--page-size", "16,128", "--pin", "top:1", "--pin", "top2:1", "--drop-outputs")
    assert "no request is called 'top2'" in refused(capsys, *CHAT, *asked)
    asked = ("--page-size", "16,128", "--pin", "top:1", "--drop-outputs", "--salt-by", "session")
    first = answered(capsys, *CHAT, *asked)
    assert list(first["rows"]) == [
        *("as it is", "page size 16", "page size 128", "drop outputs", "salt by session"),
        *("pin top 1", "all together"),
    ]
    assert first["rows"]["all together"]["parts"] == [
        *("page size 16", "drop outputs", "salt by session", "pin top 1"),
    ]
    assert first["version"]
    base, dropped = first["rows"]["as it is"], first["rows"]["drop outputs"]
    change = 100 * (dropped["cold_hit_rate"] - base["cold_hit_rate"])
    assert dropped["change_points"] == pytest.approx(change)
    assert change < 0
    command = first["command"].split()
    assert command[:2] == ["radixcache", "whatif"]
    assert answered(capsys, *command[2:])["rows"] == first["rows"]


def test_csv_has_a_line_a_row(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    ran = run(capsys, "whatif", *CHAT, "--replicas", "2", "--csv", "-o", path)
    assert (ran.code, ran.out) == (0, "")
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    labels = [row["label"] for row in rows]
    assert labels == [
        *("as it is", "2 replicas, cache-aware", "2 replicas, prefix", "2 replicas, session"),
        *("2 replicas, round-robin", "one cache of 2x"),
    ]
    computed = [row["replica_computed_tokens"].split("|") for row in rows]
    assert [len(tokens) for tokens in computed] == [1, 2, 2, 2, 2, 1]
    assert int(rows[-1]["capacity_tokens"]) == 2 * int(rows[0]["capacity_tokens"])


def test_other_hash_seeds_give_the_same_bytes(capsys: Capture) -> None:
    asked = ("whatif", *CHAT, "--pin", "top:3", "--salt-by", "session,none", "--replicas", "3")
    assert run_apart(*asked, hash_seed="7") == run(capsys, *asked)


def test_a_moved_timestamp_predicts_the_repaired_trace(capsys: Capture, tmp_path: Path) -> None:
    stamped = conversations(tmp_path / "stamped.json")
    repaired = conversations(tmp_path / "repaired.json", repaired=True)
    for page in (1, 16, 64):
        pages = ("--base-page-size", str(page))
        predicted = answered(capsys, stamped, "--move-timestamp", *pages)["rows"]
        (shown, _) = answered(capsys, repaired, "--page-size", "32", *pages)["rows"].values()
        assert predicted["as it is"]["cold_hit_rate"] < 0.7
        assert predicted["move timestamp"]["change_points"] > 20
        # The header of the user's turn is shared text too: some tokens of each first turn.
        beyond = predicted["move timestamp"]["hit_tokens"] - shown["hit_tokens"]
        assert 0 <= beyond <= 30 * max(page, 12)
    ran = run(capsys, "whatif", stamped, "--move-timestamp", "--quiet")
    assert "note: moved: " in ran.err
    assert "nothing" not in ran.err


def test_reasoning_is_found_by_its_marks(capsys: Capture, tmp_path: Path) -> None:
    path = conversations(tmp_path / "think.json", marks=("<think>", "</think>"))
    rows = answered(capsys, path, "--strip-reasoning")["rows"]
    assert rows["strip reasoning"]["prompt_tokens"] < rows["as it is"]["prompt_tokens"]
    assert rows["strip reasoning"]["edited_requests"] == 90
    silent = conversations(tmp_path / "silent.json")
    assert "no prompt or output of this trace has the marks" in refused(
        capsys, silent, "--strip-reasoning"
    )
    other = conversations(tmp_path / "other.json", marks=("[[", "]]"))
    row = answered(capsys, other, "--strip-reasoning", "--reasoning-marks", "[[,]]")["rows"]
    assert row["strip reasoning"]["edited_requests"] == 90


def test_reasoning_is_found_with_the_tokenizer_that_read_the_trace(
    capsys: Capture, tmp_path: Path
) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra `tokenizers`")
    path = conversations(tmp_path / "chat.json", marks=("<think>", "</think>"))
    rows = answered(capsys, path, "--strip-reasoning", "--tokenizer", "deepseek")["rows"]
    assert rows["strip reasoning"]["edited_requests"] == 90


def test_tenants_are_clients(capsys: Capture, tmp_path: Path) -> None:
    prompt = json.dumps(list(range(64)))
    path = write_rows(
        tmp_path / "own.jsonl",
        *(
            f'{{"rid":"r{number}","t":{number},"tokens":{prompt},"client":"c{number % 2}"}}'
            for number in range(4)
        ),
    )
    rows = answered(capsys, path, "--salt-by", "tenant,none", "--base-page-size", "8")["rows"]
    hits = [row["hit_tokens"] for row in rows.values()]
    assert hits == [3 * 56, 2 * 56, 3 * 56]
    pinned = answered(capsys, path, "--pin", "r0:20", "--base-page-size", "8")["rows"]
    assert pinned["pin r0:20"]["pinned_pages"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--route", "prefix"), "--route goes with --replicas"),
        (("--reasoning-marks", "a,b"), "--reasoning-marks goes with --strip-reasoning"),
        (("--strip-reasoning", "--reasoning-marks", "a"), "'a' is no START,STOP"),
        (("--replicas", "1"), "'1' is no whole number of at least 2"),
        (("--replicas", "2", "--route", "near"), "'near' is none of cache-aware, prefix"),
        (("--salt-by", "session,session"), "has session twice"),
        (("--page-size", "0"), "'0' is no whole number of at least 1"),
        (("--pin", "r0"), "--pin r0: give RID:TOKENS"),
        (("--pin", ":3"), "--pin :3: give RID:TOKENS"),
        (("--pin", "r0:0"), "--pin r0:0: give RID:TOKENS"),
        (("--pin", "top:1", "--pin", "top:2"), "top:K is given twice"),
        (("--pin", "r0:2", "--pin", "r0:2"), "--pin r0:2: is given twice"),
        (("--pin", "top:1001"), "pin top 1001: give at most 1000"),
        (("--replicas", "1025"), "1025 replicas by route 'cache-aware': give 1 to 1024"),
        (("--eviction", "optimal"), "eviction is 'optimal': use one of"),
        (("--salt-by", "tenant"), "no request of this trace names its tenant"),
        (("--capacity-tokens", "40"), "less than a page of 64"),
        (("--move-timestamp", "--workload", "unique"), "move timestamp: no prompts of this trace"),
        (("--drop-outputs", "--workload", "unique"), "drop outputs: no request of this trace"),
    ],
)
def test_what_does_nothing_is_refused(
    capsys: Capture, options: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *CHAT, *options)


def test_files_that_are_empty_missing_or_too_short(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    for name in ("empty.jsonl", "missing.jsonl"):
        assert name in refused(capsys, tmp_path / name)
    one = write_rows(tmp_path / "one.jsonl", '{"rid":"a","t":0,"tokens":[1]}')
    rows = answered(capsys, one)["rows"]
    assert {row["hit_tokens"] for row in rows.values()} == {0}


def test_block_ids_join_into_larger_pages_only(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "mooncake.jsonl"
    row = '{"timestamp":%d,"input_length":2100,"output_length":9,"hash_ids":[0,1,2,3,%d]}\n'
    path.write_text("".join(row % (number, 9 + number) for number in range(3)))
    rows = answered(capsys, path)["rows"]
    assert [rows[f"page size {size}"]["hit_tokens"] for size in (1024, 2048)] == [4096, 4096]
    assert answered(capsys, path, "--base-page-size", "1536")["rows"]["as it is"]["hit_tokens"] == (
        2 * 1536
    )
    assert "give a multiple of 512" in refused(capsys, path, "--page-size", "256")
    for option in ("--drop-outputs", "--strip-reasoning", "--move-timestamp"):
        assert "ids of whole blocks and no tokens" in refused(capsys, path, option)
    assert "names its session" in refused(capsys, path, "--replicas", "2", "--route", "session")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mooncake_conversation.jsonl.gz", ("--pin", "line 1:512", "--page-size", "1024")),
        ("sharegpt_dummy.json", ("--drop-outputs", "--salt-by", "session")),
        ("sharegpt_toolcall.json.gz", ("--page-size", "1,16", "--pin", "top:2")),
        ("agent_miniswe.jsonl.gz", ("--salt-by", "session", "--drop-outputs")),
    ],
)
def test_real_traces(
    capsys: Capture, shared_dir: Path, name: str, options: tuple[str, ...]
) -> None:
    path = shared_dir / "traces" / name
    document = answered(capsys, path, *options, "--replicas", "2", "--requests", "400")
    for row in document["rows"].values():
        assert row["hit_tokens"] <= row["prompt_tokens"]
        assert row["cold_hit_rate"] <= row["ceiling_hit_rate"] + 1e-12
        assert row["ceiling_hit_rate"] <= row["optimal_hit_rate"] + 1e-12
