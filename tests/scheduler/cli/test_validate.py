"""`radixcache validate`: exit codes, three kinds of input, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.cli import main
from tests.models.command_line import run, write_rows
from tests.models.server_logs import finish_line
from tests.scheduler.trace.test_prometheus import VLLM
from tests.scheduler.trace.test_usage_log import usage

STARTUP = (
    "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', page_size=1, dp_size=1)\n"
    "[2026-01-01 00:00:00 TP0] max_total_num_tokens=1000, context_len=4096\n"
)
CHAT = [1, 2, 3, 4]


def server_log(path: Path, *, cached: int = 5) -> Path:
    """Write two turns: the second finds the first prompt and its answer but the last token."""
    first = finish_line("a", CHAT, out_ids=(5, 6), received=10.0)
    second = finish_line("b", [*CHAT, 5, 6, 7, 8], cached=cached, received=20.0)
    path.write_text(f"{STARTUP}{first}\n{second}\n")
    return path


def test_a_server_that_agrees_gives_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = run(capsys, "validate", server_log(tmp_path / "server.log"), "-q")
    assert ran.code == 0
    assert "difference +0.00 points: within" in ran.out
    assert "100.00 % exact" in ran.out
    assert "1,000 tokens of KV memory, pages of 1" in ran.out


def test_a_server_that_does_not_gives_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = server_log(tmp_path / "server.log", cached=2)
    ran = run(capsys, "validate", log, "-q")
    assert ran.code == 1
    assert "difference +25.00 points: OUTSIDE the tolerance of 2" in ran.out
    assert run(capsys, "validate", log, "-q", "--tolerance", "25").code == 0
    # Without its answers the prediction is one token lower.
    ran = run(capsys, "validate", log, "-q", "--cache-output", "none", "--json")
    assert json.loads(ran.out)["predicted"]["cached_tokens"] == 4


def test_the_cache_of_the_command_line_wins(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = server_log(tmp_path / "server.log")
    ran = run(capsys, "validate", log, "-q", "--json", "--page-size", "4")
    assert json.loads(ran.out)["checks"][1]["predicted_tokens"] == 4
    ran = run(capsys, "validate", log, "-q", "--json", "--capacity-tokens", "3")
    assert json.loads(ran.out)["checks"][1]["predicted_tokens"] == 3


def test_json_and_csv_have_every_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = server_log(tmp_path / "server.log")
    document = json.loads(run(capsys, "validate", log, "-q", "--json").out)
    assert document["kind"] == "sglang-log"
    assert document["agrees"] is True
    assert document["command"] == f"radixcache validate {log}"
    rows = list(csv.DictReader(io.StringIO(run(capsys, "validate", log, "-q", "--csv").out)))
    assert rows[1] == {
        "rid": "b",
        "prompt_tokens": "8",
        "reported_tokens": "5",
        "predicted_tokens": "5",
    }


def test_a_clients_log_is_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "client.jsonl"
    ids = list(range(40))
    rows = [
        {"request": {"prompt": ids}, "response": {"usage": usage(40, 0)}},
        {"request": {"prompt": [*ids, 99]}, "response": {"usage": usage(41, 32)}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run(capsys, "validate", path, "-q")
    assert ran.code == 0
    assert "pages of 16" in ran.out
    assert "unbounded KV memory" in ran.out
    text = [{"request": {"prompt": "word " * 60}, "response": {"usage": usage(90, 0)}}] * 2
    path.write_text("".join(json.dumps(row) + "\n" for row in text))
    ran = run(capsys, "validate", path, "-q")
    assert ran.code == 1
    assert "built-in tokenizer" in ran.out


def test_snapshots_are_compared_with_a_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text(VLLM.format(queries=0, hits=0))
    after.write_text(VLLM.format(queries=80, hits=32))
    row = json.dumps({"t": 0, "tokens": list(range(40))})
    trace = write_rows(tmp_path / "trace.jsonl", row, row)
    ran = run(capsys, "validate", before, "--after", after, "--trace", trace, "-q", "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert document["reported"] == {"prompt_tokens": 80, "cached_tokens": 32, "hit_rate": 0.4}
    assert document["predicted"] == document["reported"]
    assert document["capacity_tokens"] == 16_000
    assert document["command"] == f"radixcache validate {before} --after {after} --trace {trace}"
    ran = run(
        capsys, "validate", before, "--after", after, "--trace", trace, "-q", "--requests", "1"
    )
    assert ran.code == 1
    assert "may not be the same requests" in ran.out


def test_every_answer_to_a_prompt_is_looked_up(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text(VLLM.format(queries=0, hits=0))
    after.write_text(VLLM.format(queries=120, hits=64))
    row = json.dumps({"t": 0, "tokens": list(range(40)), "samples": 3})
    trace = write_rows(tmp_path / "trace.jsonl", row)
    ran = run(capsys, "validate", before, "--after", after, "--trace", trace, "-q", "--json")
    document = json.loads(ran.out)
    assert document["predicted"] == document["reported"]
    assert document["requests"] == 3


def test_engines_that_are_counted_together_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    line = 'vllm:prefix_cache_queries_total{{engine="{}"}} {}\n'
    before.write_text("".join(line.format(engine, 0) for engine in range(2)))
    after.write_text("".join(line.format(engine, 20) for engine in range(2)))
    trace = write_rows(tmp_path / "trace.jsonl", json.dumps({"t": 0, "tokens": [1] * 40}))
    ran = run(capsys, "validate", before, "--after", after, "--trace", trace, "-q", "--json")
    document = json.loads(ran.out)
    assert document["reported"]["prompt_tokens"] == 40
    assert any(note.startswith("2 engines are counted") for note in document["notes"])


def test_answers_without_block_ids_are_not_said_to_be_cached(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text(VLLM.format(queries=0, hits=0))
    after.write_text(VLLM.format(queries=1200, hits=0))
    trace = tmp_path / "blocks.jsonl"
    trace.write_text(
        '{"timestamp": 0, "input_length": 1200, "output_length": 5, "hash_ids": [1, 2, 3]}\n'
    )
    ran = run(capsys, "validate", before, "--after", after, "--trace", trace, "-q", "--json")
    assert json.loads(ran.out)["cached_outputs"] is False


def test_the_name_of_a_request_breaks_no_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "usage.jsonl"
    rows = [
        {"request": {"prompt": [1] * 40}, "response": {"usage": usage(40, cached)}}
        for cached in (0, 3)
    ]
    name = "\x1b[31m\n\u202eevil\r"
    log.write_text("".join(json.dumps(row | {"custom_id": name}) + "\n" for row in rows))
    ran = run(capsys, "validate", log, "-q")
    shown = ran.out + ran.err
    assert "evil" in shown
    assert all(character == "\n" or character.isprintable() for character in shown)
    assert next(line for line in ran.out.splitlines() if "evil" in line).endswith("32")


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        ("", (), "reports no cached tokens"),
        ("hello\n", (), "reports no cached tokens"),
        ('{"messages": [{"role": "user", "content": "x"}]}\n', (), "reports no cached tokens"),
        (STARTUP, (), "has no request with token ids"),
        ("vllm:x 1\n", (), "BEFORE --after AFTER --trace TRACE"),
        (STARTUP, ("--trace", "x"), "--trace goes with Prometheus"),
        (STARTUP, ("--after", "x"), "--after goes with Prometheus"),
        (STARTUP, ("--format", "openai"), "--format goes with --trace"),
        (STARTUP, ("--eviction", "none"), "eviction is 'none'"),
        (STARTUP, ("--kind", "vllm"), "invalid choice"),
    ],
)
def test_input_that_cannot_be_used_gives_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, more: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "server.log"
    path.write_text(text)
    ran = run(capsys, "validate", path, "-q", *more)
    assert ran.code == 2
    assert told in ran.err
    assert not ran.out


def test_a_file_that_is_missing_gives_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "validate", tmp_path / "none").code == 2
    log = server_log(tmp_path / "server.log")
    ran = run(capsys, "validate", log, "-q", "--page-size", "64", "--capacity-tokens", "9")
    assert ran.code == 2
    assert "less than a page" in ran.err


PIECES = [
    *STARTUP.splitlines(),
    finish_line("a", CHAT, cached=1),
    *VLLM.format(queries=10, hits=4).splitlines(),
    json.dumps({"prompt": "x", "usage": usage(3, 1)}),
    json.dumps({"event": "request.finished", "obj": {"input_ids": [1]}, "out": {}}),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    lines=st.lists(
        st.tuples(st.sampled_from(PIECES), st.integers(0, 400), st.binary(max_size=4)), max_size=6
    )
)
def test_no_bytes_make_a_traceback(tmp_path: Path, lines: list[tuple[str, int, bytes]]) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\n".join(line.encode()[:cut] + text for line, cut, text in lines))
    options = ("--after", str(path), "--trace", str(path))
    for more in ((), options, ("--kind", "sglang-log"), ("--kind", "usage")):
        assert main(["validate", str(path), "-q", *more]) in {0, 1, 2}
