import json
import math

import pytest

from radixcache.errors import ConfigError
from scheduler.sim.cost_model import CostModel, StepLoad


def test_each_term_counts_once():
    model = CostModel(
        step_s=1,
        per_prefill_token_s=10,
        per_attention_pair_s=100,
        per_running_s=1000,
        per_context_token_s=10_000,
    )
    load = StepLoad(prefill_tokens=1, attention_tokens2=2, running=3, context_tokens=4)
    assert model.step_seconds(load) == 1 + 10 + 200 + 3000 + 40_000


def test_from_rate_sets_only_the_prefill_term():
    model = CostModel.from_rate(5000)
    assert model.prefill_tokens_per_s == pytest.approx(5000)
    assert model.step_s == CostModel().step_s


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ConfigError, match="prefill rate"):
        CostModel.from_rate(rate)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", True, None])
def test_a_term_that_is_no_duration_is_refused(value):
    with pytest.raises(ConfigError, match="per_running_s"):
        CostModel(per_running_s=value)


def test_a_model_without_time_is_refused():
    with pytest.raises(ConfigError, match="no time"):
        CostModel(step_s=0, per_prefill_token_s=0)


def test_json_round_trip(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"step_s": 0.02, "calibrated": True}))
    assert CostModel.from_json(path) == CostModel(step_s=0.02, calibrated=True)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"speed": 1}', '{"step_s": "fast"}', '{"calibrated": 1}']
)
def test_json_that_is_no_model_is_refused(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="cost model"):
        CostModel.from_json(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        CostModel.from_json(tmp_path / "none.json")


def test_the_description_says_what_is_uncalibrated():
    assert "uncalibrated" in CostModel().describe()
    assert "(calibrated)" in CostModel(calibrated=True).describe()
