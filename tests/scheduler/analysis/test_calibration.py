"""A known cost model is found again from the log that it would have printed."""

from __future__ import annotations

import pytest

from radixcache.errors import ConfigError
from scheduler.analysis.calibration import calibrate, format_calibration
from scheduler.analysis.step_log import read_steps
from tests.models.server_logs import TRUTH, sglang_log, vllm_log


def fit(lines: list[str]) -> object:
    return calibrate(read_steps(enumerate(lines), decode_log_interval=None).rows)


def test_a_vllm_log_gives_its_coefficients() -> None:
    found = calibrate(read_steps(enumerate(vllm_log(300)), decode_log_interval=None).rows)
    for name, value in TRUTH.items():
        assert found.coefficients[name] == pytest.approx(value, rel=0.01)
    assert found.r_squared == pytest.approx(1, abs=1e-4)
    assert found.outliers == 0
    assert (found.fitted_rows, found.held_out_rows) == (200, 100)
    assert found.fitted["running"][0] >= 1
    assert found.fitted["prefill_tokens"][0] == 0
    for error in found.step_times:
        assert error.predicted_s == pytest.approx(error.measured_s, rel=0.01)


def test_noise_and_pauses_do_not_carry_it_away() -> None:
    lines = vllm_log(600, noise_s=0.0005)
    for place in range(10, 300, 40):  # a garbage collection now and then
        head, tail = lines[place].split("elapsed time: ")
        lines[place] = f"{head}elapsed time: 9{tail}"
    found = calibrate(read_steps(enumerate(lines), decode_log_interval=None).rows)
    for name, value in TRUTH.items():
        assert found.coefficients[name] == pytest.approx(value, rel=0.15)
    assert 5 <= found.outliers <= 10
    assert found.r_squared is not None
    assert found.r_squared > 0.98


def test_an_sglang_log_gives_its_coefficients() -> None:
    found = calibrate(read_steps(enumerate(sglang_log(1200)), decode_log_interval=None).rows)
    assert found.coefficients["per_prefill_token_s"] == pytest.approx(4e-5, rel=0.1)
    assert found.coefficients["step_s"] == pytest.approx(0.009, rel=0.15)
    assert found.r_squared is not None
    assert found.r_squared > 0.9
    for error in found.step_times:
        assert error.predicted_s == pytest.approx(error.measured_s, rel=0.05)


def test_what_never_changes_is_left_to_the_constant() -> None:
    lines = [line for line in vllm_log(400) if " 20 generation requests" not in line]
    same = []
    for line in lines:
        if ": 0 context requests" in line:
            number = line.split(" context tokens, ")[1].split(" ")[0]
            same.append(line.replace(f"{number} generation", "20 generation"))
    found = calibrate(read_steps(enumerate(same), decode_log_interval=None).rows)
    assert found.coefficients["per_running_s"] == 0
    assert found.coefficients["per_prefill_token_s"] == 0
    assert found.fitted["running"] == (20, 20)
    assert any("running was always 20" in note for note in found.notes)


def test_a_log_without_context_says_so() -> None:
    rows = read_steps(enumerate(vllm_log(60, usage=False)), decode_log_interval=None).rows
    found = calibrate(rows)
    assert found.coefficients["per_context_token_s"] == 0
    assert "context_tokens" not in found.fitted
    assert "does not tell the context" in format_calibration(found, (), None)


def test_features_that_move_together_are_named() -> None:
    lines = []
    for index in range(60):
        tokens, prompts = 100 * index, index
        lines.append(
            f"Iteration({index}): {prompts} context requests, {tokens} context tokens, 1 "
            f"generation requests, 1 generation tokens, iteration elapsed time: {10 + index} ms"
        )
    found = calibrate(read_steps(enumerate(lines), decode_log_interval=None).rows)
    assert any("rise and fall together" in note for note in found.notes)


def test_a_few_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 timed steps"):
        calibrate(read_steps(enumerate(vllm_log(5)), decode_log_interval=None).rows)
