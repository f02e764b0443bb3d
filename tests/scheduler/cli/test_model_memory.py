"""KV memory in bytes of a named model, and the roofline, on the commands that replay."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from radixcache.errors import ConfigError
from scheduler.cli.model_memory import complete_memory, kv_bytes_per_token_of
from scheduler.cli.options_models import add_model
from tests.models.command_line import SMALL, run

MODEL = ("--model", "llama-3.1-8b")


def values(out: str) -> object:
    return [run["values"] for run in json.loads(out)["runs"]]


def test_memory_of_a_model_is_its_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--policy", "fcfs", "--json")
    tokens = run(capsys, "replay", *SMALL, *options, "--capacity-tokens", "65536")
    memory = run(capsys, "replay", *SMALL, *options, "--kv-memory", "8GiB", *MODEL)
    assert values(tokens.out) == values(memory.out)
    assumed = json.loads(memory.out)["runs"][0]["assumptions"]
    assert assumed["capacity_tokens"] == 65_536
    assert assumed["kv_bytes_per_token"] == "131072 (bf16)"
    assert assumed["kv_memory"] == "8GiB"


def test_a_smaller_type_makes_room_for_more(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(
        *(capsys, "replay", *SMALL, "--lookup", "--kv-memory", "1GiB", *MODEL),
        *("--kv-dtype", "fp8", "--json", "--page-size", "16"),
    )
    assert json.loads(ran.out)["capacity_pages"] == 2**30 // 65_536 // 16
    assert "1GiB are 16,384 tokens" in ran.err


def test_what_is_not_modelled_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "replay", *SMALL, "--kv-memory", "8GiB", "--model", "gemma-3-27b")
    assert "assumed: not_modelled" in ran.out
    assert "52 of 62 layers keep a window of 1024 tokens" in ran.out


def test_a_configuration_file_names_any_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, '
        '"hidden_size": 64, "dtype": "bfloat16"}'
    )
    ran = run(
        *(capsys, "replay", *SMALL, "--lookup", "--json", "--page-size", "1"),
        *("--kv-memory", "1MiB", "--hf-config", path),
    )
    assert json.loads(ran.out)["capacity_pages"] == 2**20 // (2 * 2 * 2 * 16 * 2)


def test_a_sweep_takes_several_memories(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(
        *(capsys, "sweep", *SMALL, "--policies", "fcfs", "--jobs", "1"),
        *("--kv-memory", "4GiB,8GiB", *MODEL),
    )
    assert ran.code == 0
    assert "32,768 tokens of KV memory" in ran.out
    assert "65,536 tokens of KV memory" in ran.out


def test_a_roofline_gives_seconds_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--policy", "fcfs", "--json", *MODEL, "--gpu")
    fast, slow = (run(capsys, "replay", *SMALL, *options, gpu) for gpu in ("h200", "l4"))
    first, second = (json.loads(ran.out)["runs"][0] for ran in (fast, slow))
    assert not first["calibrated"]
    assert first["values"]["tpot_mean_s"] < second["values"]["tpot_mean_s"]
    assert "roofline (uncalibrated): llama-3.1-8b on h200" in first["assumptions"]["engine"]


def test_leaving_the_fitted_range_is_flagged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cost.json"
    model = {"calibrated": True, "fitted": {"running": [1, 2]}, "calibration": {}}
    path.write_text(json.dumps(model))
    options = ("--policies", "fcfs", "--jobs", "1", "--cost-model", path)
    ran = run(capsys, "compare", *SMALL, *options)
    assert "Uncalibrated" not in ran.out
    assert "Extrapolated: steps outside the fitted range" in ran.out
    ran = run(capsys, "compare", *SMALL, *options, "--json")
    assert "(fitted 1 to 2)" in json.loads(ran.out)["runs"][0]["assumptions"]["extrapolated"]
    ran = run(capsys, "sweep", *SMALL, *options)
    assert "Extrapolated: in 1 of 1 runs" in ran.out
    path.write_text(json.dumps({**model, "fitted": {"running": [0, 1000]}}))
    assert "xtrapolated" not in run(capsys, "compare", *SMALL, *options).out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("replay", "--kv-memory", "8GiB"), "needs the model"),
        (("replay", "--kv-memory", "8", *MODEL), "as 24GiB"),
        (("replay", "--kv-memory", "8GiB", "--capacity-tokens", "9", *MODEL), "exclude"),
        (("sweep", "--kv-memory", "8GiB", "--capacities", "9", *MODEL), "exclude"),
        (("sweep", "--kv-memory", "8GiB,8GiB", *MODEL), "twice"),
        (("compare", *MODEL), "does nothing"),
        (("compare", "--kv-dtype", "fp8"), "does nothing"),
        (("compare", "--kv-memory", "8GiB", "--model", "gpt-9"), "not in the catalogue"),
        (("compare", "--kv-memory", "8GiB", "--kv-dtype", "fp7", *MODEL), "dtype is 'fp7'"),
        (("compare", "--kv-memory", "8GiB", "--hf-config", "x", *MODEL), "exclude"),
        (("compare", "--gpu", "h100"), "needs the model"),
        (("compare", "--gpu", "abacus", *MODEL), "GPU 'abacus'"),
        (("compare", "--gpus", "2"), "goes with --gpu"),
        (("compare", "--gpu", "h100", "--prefill-rate", "9", *MODEL), "exclude"),
        (("compare", "--gpu", "h100", "--model", "llama-3.1-405b"), "--gpus 11"),
        (("replay", "--lookup", "--gpu", "h100", *MODEL), "does nothing with --lookup"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    ran = run(capsys, *arguments[:1], *SMALL, *arguments[1:])
    assert ran.code == 2
    assert told in ran.err
    assert ran.err.count("\n") <= 2


def test_a_command_that_shows_bytes_takes_a_model_alone() -> None:
    parser = argparse.ArgumentParser()
    add_model(parser, roofline=False, several=True, shows_bytes=True)
    parser.add_argument("--capacities")
    parser.add_argument("--kv-bytes-per-token", type=float)
    arguments = parser.parse_args([*MODEL])
    arguments.given = {"model": "llama-3.1-8b"}
    complete_memory(arguments)
    assert arguments.capacities is None
    assert kv_bytes_per_token_of(arguments) == 131_072
    arguments = parser.parse_args([*MODEL, "--kv-memory", "1GiB,2GiB"])
    arguments.given = {"model": "llama-3.1-8b", "kv_memory": ("1GiB", "2GiB")}
    complete_memory(arguments)
    assert arguments.capacities == (8192, 16_384)
    arguments = parser.parse_args([*MODEL, "--kv-bytes-per-token", "9"])
    with pytest.raises(ConfigError, match="exclude"):
        kv_bytes_per_token_of(arguments)
    assert kv_bytes_per_token_of(parser.parse_args(["--kv-bytes-per-token", "9"])) == 9
    assert kv_bytes_per_token_of(parser.parse_args([])) is None
