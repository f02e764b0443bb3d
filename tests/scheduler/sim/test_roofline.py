"""The roofline: against the formula of its docstring, and by what it must do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import ConfigError
from scheduler.models import LayerGroup, ModelShape, gpu_named, model_named
from scheduler.sim.cost_model import StepLoad
from scheduler.sim.roofline import RooflineModel

LLAMA = RooflineModel(shape=model_named("llama-3.1-8b"), gpu=gpu_named("h100"))
loads = st.builds(
    StepLoad,
    prefill_tokens=st.integers(0, 10_000),
    attention_tokens2=st.floats(0, 1e9),
    running=st.integers(0, 500),
    context_tokens=st.integers(0, 10**7),
)


def test_a_decode_step_is_bound_by_memory() -> None:
    load = StepLoad(prefill_tokens=0, attention_tokens2=0.0, running=8, context_tokens=8000)
    weights = 2 * 8.03e9
    memory = (weights + 131_072 * (8000 + 8)) / (3350e9 * 0.7)
    compute = (2 * 8.03e9 * 8 + 32 * 4 * 32 * 128 * 8000) / (989e12 * 0.5)
    assert compute < memory
    assert LLAMA.step_seconds(load) == pytest.approx(0.005 + memory)


def test_a_long_prefill_is_bound_by_compute() -> None:
    load = StepLoad(8192, 8192 * 4096.0, running=1, context_tokens=0)
    flops = 2 * 8.03e9 * 8192 + 32 * 4 * 32 * 128 * 8192 * 4096
    assert LLAMA.step_seconds(load) == pytest.approx(0.005 + flops / (989e12 * 0.5))
    assert LLAMA.prefill_tokens_per_s == pytest.approx(989e12 * 0.5 / (2 * 8.03e9))


@given(load=loads, more=loads)
def test_more_load_never_takes_less_time(load: StepLoad, more: StepLoad) -> None:
    both = StepLoad(
        prefill_tokens=load.prefill_tokens,
        attention_tokens2=load.attention_tokens2 + more.attention_tokens2,
        running=load.running + more.running,
        context_tokens=load.context_tokens + more.context_tokens,
    )
    for model in (LLAMA, RooflineModel(shape=model_named("gpt-oss-20b"), gpu=gpu_named("l40s"))):
        assert model.step_seconds(both) >= model.step_seconds(load) >= model.step_s


def test_a_mixture_reads_the_experts_that_its_tokens_use() -> None:
    model = RooflineModel(shape=model_named("mixtral-8x7b"), gpu=gpu_named("h100"), gpus=2)
    one, many = (StepLoad(0, 0.0, running, 0) for running in (1, 400))
    bandwidth = 2 * 3350e9 * 0.7
    kv = 131_072
    # One token passes the active weights, 400 all of them.
    active = (2 * 12.9e9 + kv) / bandwidth
    assert model.step_seconds(one) - model.step_s == pytest.approx(active)
    everything = (2 * 46.7e9 + kv * 400) / bandwidth
    assert model.step_seconds(many) - model.step_s == pytest.approx(everything, rel=1e-6)


def test_more_gpus_share_the_work() -> None:
    load = StepLoad(0, 0.0, 8, 100_000)
    two = RooflineModel(shape=LLAMA.shape, gpu=LLAMA.gpu, gpus=2)
    assert two.step_seconds(load) - two.step_s == pytest.approx(
        (LLAMA.step_seconds(load) - LLAMA.step_s) / 2
    )


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="--gpus 2"):
        RooflineModel(shape=model_named("llama-3.1-70b"), gpu=gpu_named("h100"))


def test_a_model_of_unknown_size_is_refused() -> None:
    group = LayerGroup.grouped(2, query_heads=1, kv_heads=1, head_dim=8)
    shape = ModelShape(name="small", source="here", groups=(group,))
    with pytest.raises(ConfigError, match="how many weights"):
        RooflineModel(shape=shape, gpu=gpu_named("h100"))


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_an_efficiency_is_a_share(share: float) -> None:
    with pytest.raises(ConfigError, match="compute_efficiency"):
        RooflineModel(shape=LLAMA.shape, gpu=LLAMA.gpu, compute_efficiency=share)


def test_it_never_claims_to_be_measured() -> None:
    assert not LLAMA.calibrated
    assert LLAMA.fitted == ()
    assert "uncalibrated" in LLAMA.describe()
