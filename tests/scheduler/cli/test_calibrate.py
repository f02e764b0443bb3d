"""`radixcache calibrate`: from a log to a cost model that later reports use."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.cli import main
from scheduler.sim.cost_model import CostModel
from tests.models.command_line import SMALL, run
from tests.models.server_logs import TRUTH, colourful, finish_line, sglang_log, vllm_log


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_becomes_a_cost_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, cost = write(tmp_path / "server.log", vllm_log(300)), tmp_path / "cost.json"
    ran = run(capsys, "calibrate", log, "-o", cost, "--quiet")
    assert ran.code == 0
    assert "the last 100 held out: R² 1.0000" in ran.out
    assert "500,000 tokens of KV memory" in ran.err
    assert "no TTFT" in ran.out
    model = CostModel.from_json(cost)
    assert model.calibrated
    assert model.step_s == pytest.approx(TRUTH["step_s"], rel=0.01)
    assert {part.feature for part in model.fitted} == {
        "prefill_tokens",
        "running",
        "context_tokens",
    }
    record = json.loads(cost.read_text())["calibration"]
    assert record["engine"] == "vllm"
    assert record["capacity_tokens"] == 500_000
    ran = run(capsys, "replay", *SMALL, "--cost-model", cost)
    assert "cost model (calibrated)" in ran.out


def test_json_is_the_record_of_the_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = write(tmp_path / "server.log", vllm_log(60))
    record = json.loads(run(capsys, "calibrate", log, "--json", "-q").out)
    assert record["r_squared"] > 0.999
    assert record["command"] == f"radixcache calibrate {log}"
    assert [row["percentile"] for row in record["step_times"]] == [50, 90, 99]
    assert record["ttft"] is None


def test_the_same_log_gives_the_same_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(tmp_path / "a.log", sglang_log(200))
    coloured = tmp_path / "b.log"
    coloured.write_text("\n".join(colourful(sglang_log(200))) + "\n", newline="")
    packed = tmp_path / "c.log.gz"
    packed.write_bytes(gzip.compress(coloured.read_bytes()))
    outs = {run(capsys, "calibrate", path, "-q").out for path in (log, coloured, packed)}
    assert len(outs) == 1


def test_measured_times_to_first_token_are_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = sglang_log(300)
    cost = CostModel(**TRUTH)
    for index in range(30):  # far apart: each is alone, and waits for its own prefill
        tokens = 100 * (index + 1)
        ttft = cost.step_s + cost.per_running_s + cost.per_prefill_token_s * tokens
        ids = list(range(1000 * index * 7, 1000 * index * 7 + tokens))
        lines.append(
            finish_line(f"r{index}", ids, received=100.0 * index, ttft=ttft, out_ids=(1, 2))
        )
    log = write(tmp_path / "server.log", lines)
    ran = run(capsys, "calibrate", log, "--json", "-q")
    record = json.loads(ran.out)
    assert record["ttft_missing"] is None
    for row in record["ttft"]:
        assert row["predicted_s"] == pytest.approx(row["measured_s"], rel=0.15)
    assert "TTFT p99" in run(capsys, "calibrate", log, "-q").out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no timed step"),
        ("hello\nworld\n", "no timed step"),
        ("\n".join(vllm_log(5)), "5 timed steps, and at least 12"),
    ],
)
def test_a_log_that_times_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "server.log"
    path.write_text(text)
    ran = run(capsys, "calibrate", path, "-q")
    assert ran.code == 2
    assert told in ran.err
    assert not ran.out


def test_an_interval_says_nothing_of_vllm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = write(tmp_path / "server.log", vllm_log(20))
    ran = run(capsys, "calibrate", log, "--decode-log-interval", "40", "-q")
    assert ran.code == 2
    assert "goes with a log of SGLang" in ran.err


def test_a_file_that_is_missing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran = run(capsys, "calibrate", tmp_path / "none.log")
    assert (ran.code, ran.out) == (2, "")
    ran = run(capsys, "calibrate", write(tmp_path / "a", vllm_log(20)), "-o", tmp_path / "no" / "x")
    assert ran.code == 2
    assert "cannot be written" in ran.err


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 250), st.binary(max_size=4)), max_size=20)
)
def test_no_bytes_make_a_traceback(tmp_path: Path, cuts: list[tuple[int, int, bytes]]) -> None:
    lines = [line.encode() for line in (*vllm_log(16), *sglang_log(16))]
    for place, cut, text in cuts:
        lines[place] = lines[place][:cut] + text
    path = tmp_path / "server.log"
    path.write_bytes(b"\n".join(lines))
    assert main(["calibrate", str(path), "-q"]) in {0, 2}
