"""Timed steps of vLLM and SGLang logs: the numbers, and every way a line can be spoilt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.analysis.step_log import StepLog, read_steps
from tests.models.server_logs import sglang_log, vllm_log

ITERATION = (
    "INFO 1 [core.py:349] Iteration(5): 2 context requests, 7986 context tokens, 14 generation "
    "requests, 14 generation tokens, iteration elapsed time: 1115.64 ms"
)
DECODE = (
    "[2026-01-01 00:00:0{second} TP0] Decode batch. #running-req: {running}, #token: {tokens}, "
    "token usage: 0.10, cuda graph: True, gen throughput (token/s): {rate}, #queue-req: 0,"
)
PREFILL = (
    "[2026-01-01 00:00:01 TP0] Prefill batch. #new-seq: 2, #new-token: 512, #cached-token: 64, "
    "token usage: 0.10, #running-req: {running}, #queue-req: 5"
)


def read(*lines: str, interval: int | None = None) -> StepLog:
    return read_steps(enumerate(lines, start=1), decode_log_interval=interval)


def decode(running: int = 4, tokens: int = 1000, rate: float = 100.0, second: int = 0) -> str:
    return DECODE.format(running=running, tokens=tokens, rate=rate, second=second)


def test_an_iteration_line_is_a_step() -> None:
    log = read(ITERATION)
    (row,) = log.rows
    assert log.engine == "vllm"
    assert row.seconds == pytest.approx(1.11564)
    assert (row.steps, row.prefill_tokens, row.running) == (1, 7986, 16)
    assert row.context_tokens is None


def test_usage_times_capacity_is_the_context() -> None:
    size = "INFO [kv_cache_utils.py:1] GPU KV cache size: 200,000 tokens"
    log = read(size, f"{ITERATION}, GPU KV cache usage: 12.5%")
    assert log.rows[0].context_tokens == 25_000
    assert log.facts.capacity_tokens == 200_000


def test_two_records_of_one_line_are_two_steps() -> None:
    assert len(read(ITERATION + ITERATION).rows) == 2


@pytest.mark.parametrize(
    "line",
    [
        f"{ITERATION} (dummy)",
        ITERATION.replace("1115.64", "0.00"),
        ITERATION.replace("2 context r", "0 context r").replace(
            "14 generation r", "0 generation r"
        ),
        ITERATION[:100],
        ITERATION.replace("14 generation tokens", "14 gene(Worker) INFO hello"),
    ],
)
def test_a_line_that_times_no_step_is_counted(line: str) -> None:
    log = read(line)
    assert not log.rows
    assert log.left_out.total() == 1


def test_two_decode_lines_are_an_interval() -> None:
    log = read(decode(4, 1000), PREFILL.format(running=4), decode(6, 1400, rate=250.0))
    (row,) = log.rows
    assert log.engine == "sglang"
    assert row.seconds == pytest.approx(40 * 5 / 250)
    assert (row.steps, row.prefill_tokens, row.running) == (41, 512, 40 * 5 + 2)
    assert row.context_tokens == 40 * 1200
    assert row.peak_prefill_tokens == 512


def test_the_log_tells_its_interval() -> None:
    arguments = "[2026-01-01 00:00:00] server_args=ServerArgs(page_size=16, decode_log_interval=10)"
    log = read(arguments, decode(), decode())
    assert log.rows[0].steps == 10
    assert log.facts.page_size == 16
    assert read(arguments, decode(), decode(), interval=5).rows[0].steps == 5


def test_fine_times_win_over_throughput() -> None:
    first, second = ("2026-01-01T00:00:00.100Z ", "2026-01-01T00:00:02.350Z ")
    (row,) = read(first + decode(2), second + decode(9)).rows
    assert row.seconds == pytest.approx(2.25)


def test_newer_lines_are_read_too() -> None:
    lines = [decode().replace("Decode batch.", "Decode batch [40],") for _ in range(2)]
    assert len(read(*lines).rows) == 1


def test_ranks_do_not_mix() -> None:
    lines = [decode().replace("TP0", f"DP{rank} TP0") for rank in (0, 1, 0, 1)]
    assert len(read(*lines).rows) == 2


@pytest.mark.parametrize(
    "between",
    [
        [PREFILL.format(running=0), decode()],
        [PREFILL.format(running=4)[:80], decode()],
        [decode(running=20)],
        [decode(rate=0)],
        [decode()[:70], decode()],
    ],
)
def test_an_interval_of_unknown_time_is_counted(between: list[str]) -> None:
    log = read(decode(), *between)
    assert not log.rows
    assert log.left_out.total() >= 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*vllm_log(3), *sglang_log(8), decode(), PREFILL]),
            st.integers(0, 200),
            st.text(max_size=6),
            st.integers(0, 200),
        ),
        max_size=8,
    )
)
def test_no_line_makes_a_traceback(parts: list[tuple[str, int, str, int]]) -> None:
    log = read(*(line[:cut] + text + line[start:] for line, cut, text, start in parts))
    for row in log.rows:
        assert row.seconds > 0
        assert row.steps >= 1
