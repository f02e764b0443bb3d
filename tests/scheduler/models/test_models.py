"""The model catalogue, `config.json` files and KV memory in tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import ConfigError
from scheduler.models import (
    GPUS,
    MODELS,
    ModelShape,
    capacity_tokens,
    gpu_named,
    memory_bytes,
    model_named,
    read_hf_config,
    shape_of_config,
)

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "num_hidden_layers": 61,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "torch_dtype": "bfloat16",
    "vocab_size": 129280,
    "quantization_config": {"quant_method": "fp8"},
}


def test_a_token_takes_keys_and_values_of_every_layer() -> None:
    # 2 (keys, values) * layers * KV heads * head size * 2 bytes
    assert model_named("llama-3.1-8b").kv_bytes_per_token() == 2 * 32 * 8 * 128 * 2 == 131_072
    assert model_named("llama-3.1-70b").kv_bytes_per_token() == 2 * 80 * 8 * 128 * 2
    assert model_named("qwen2.5-7b").kv_bytes_per_token() == 2 * 28 * 4 * 128 * 2
    assert model_named("llama-3.1-8b").kv_bytes_per_token("fp8") == 65_536


def test_latent_attention_keeps_one_vector_a_layer() -> None:
    shape = model_named("deepseek-v3")
    assert shape.kv_bytes_per_token() == 61 * (512 + 64) * 2
    assert any("MLA" in note for note in shape.not_modelled())


def test_windows_add_nothing_and_are_named() -> None:
    shape = model_named("gpt-oss-20b")
    assert shape.kv_bytes_per_token() == 2 * 12 * 8 * 64 * 2
    assert shape.window_bytes_per_request() == 2 * 12 * 8 * 64 * 2 * 128
    (note,) = shape.not_modelled()
    assert "12 of 24 layers keep a window of 128 tokens (at most 3.0 MiB a request)" in note


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("Qwen3-30B-A3B", "qwen3-30b-a3b"),
    ],
)
def test_a_model_is_found_by_its_repository(name: str, found: str) -> None:
    assert model_named(name) is MODELS[found]


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"llama-3\.1-8b.*--hf-config"):
        model_named("llama-3-8b")


def test_every_entry_can_be_used() -> None:
    for shape in MODELS.values():
        assert shape.kv_bytes_per_token() > 0
        assert shape.params is not None
        assert shape.active_params is None or shape.active_params < shape.params
        assert (shape.active_params is None) == (shape.experts is None)
        assert shape.source


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 * 2**30), ("80GB", 80 * 10**9), ("1.5 gib", 3 * 2**29), ("512MiB", 2**29)],
)
def test_memory_has_a_unit(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "24", "GiB", "-1GiB", "0GiB", "1e3GB", "24 GiBs", "24xB"])
def test_memory_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="24GiB"):
        memory_bytes(text)


def test_memory_becomes_whole_tokens() -> None:
    shape = model_named("llama-3.1-8b")
    assert capacity_tokens(24 * 2**30, shape) == 196_608
    assert capacity_tokens(24 * 2**30, shape, "fp8") == 393_216
    assert capacity_tokens(131_073, shape) == 1
    with pytest.raises(ConfigError, match="one token of llama"):
        capacity_tokens(1000, shape)


def test_a_configuration_gives_the_entry_of_the_catalogue() -> None:
    shape = shape_of_config(LLAMA_8B)
    assert shape.groups == model_named("llama-3.1-8b").groups
    assert shape.params == pytest.approx(8.03e9, rel=0.01)
    assert shape.not_modelled() == []
    shape = shape_of_config(DEEPSEEK)
    assert shape.groups == model_named("deepseek-v3").groups
    assert shape.params == pytest.approx(671e9, rel=0.01)
    assert shape.active_params == pytest.approx(37e9, rel=0.03)
    assert shape.weight_bytes == shape.params


def test_kinds_of_layers_are_counted_apart() -> None:
    types = ["sliding_attention", "full_attention"] * 16
    shape = shape_of_config({**LLAMA_8B, "layer_types": types, "sliding_window": 128})
    assert [(g.kind, g.layers, g.window_tokens) for g in shape.groups] == [
        ("full", 16, None),
        ("window", 16, 128),
    ]
    shape = shape_of_config({**LLAMA_8B, "full_attention_interval": 4})
    assert [(g.kind, g.layers) for g in shape.groups] == [("full", 8), ("state", 24)]
    assert any("state of constant size" in note for note in shape.not_modelled())
    shape = shape_of_config({**LLAMA_8B, "attn_layer_period": 8, "attn_layer_offset": 4})
    assert [(g.kind, g.layers) for g in shape.groups] == [("full", 4), ("state", 28)]
    pattern = "M-M*" * 8
    shape = shape_of_config({**LLAMA_8B, "hybrid_override_pattern": pattern})
    assert [(g.kind, g.layers) for g in shape.groups] == [("full", 8), ("state", 24)]


def test_gemma_3_has_a_global_layer_after_five_local_ones() -> None:
    inner = {**LLAMA_8B, "model_type": "gemma3_text", "sliding_window": 1024}
    inner |= {"num_hidden_layers": 62, "num_key_value_heads": 16, "head_dim": 128}
    shape = shape_of_config({"model_type": "gemma3", "text_config": inner})
    assert [(g.kind, g.layers) for g in shape.groups] == [("full", 10), ("window", 52)]
    assert shape.kv_bytes_per_token() == model_named("gemma-3-27b").kv_bytes_per_token()
    assert any("only the text part" in note for note in shape.not_modelled())


def test_other_conventions_of_layers_are_known() -> None:
    gemma = {**LLAMA_8B, "model_type": "gemma2", "sliding_window": 4096, "num_hidden_layers": 46}
    gemma |= {"num_key_value_heads": 16, "head_dim": 128}
    assert shape_of_config(gemma).groups == model_named("gemma-2-27b").groups
    # Qwen3-Next: three linear layers, then full attention.
    types = ["linear_attention"] * 3 + ["full_attention"]
    shape = shape_of_config({**LLAMA_8B, "layer_types": types * 8})
    assert [(g.kind, g.layers) for g in shape.groups] == [("full", 8), ("state", 24)]
    # Llama 4: chunks of 8,192 tokens, every fourth layer sees all.
    types = ["chunked_attention"] * 3 + ["full_attention"]
    llama = {**LLAMA_8B, "layer_types": types * 8, "attention_chunk_size": 8192}
    shape = shape_of_config(llama)
    assert [(g.kind, g.layers, g.window_tokens) for g in shape.groups] == [
        ("full", 8, None),
        ("window", 24, 8192),
    ]
    shape = shape_of_config({**LLAMA_8B, "mamba_d_state": 128})
    assert shape.not_modelled() == ["Mamba states beside attention are not counted"]
    shape = shape_of_config({**LLAMA_8B, "num_kv_shared_layers": 10})
    assert shape.not_modelled() == ["layers that share keys and values are counted each"]


def test_the_first_mistral_is_another_model() -> None:
    assert model_named("mistralai/Mistral-7B-Instruct-v0.2") is MODELS["mistral-7b"]
    with pytest.raises(ConfigError, match="not in the catalogue"):
        model_named("mistralai/Mistral-7B-v0.1")


def test_a_window_that_is_switched_off_or_never_reached_is_none() -> None:
    qwen = {**LLAMA_8B, "model_type": "qwen2", "sliding_window": 4096}
    assert [g.kind for g in shape_of_config(qwen).groups] == ["full"]
    assert [g.kind for g in shape_of_config({**qwen, "use_sliding_window": False}).groups] == [
        "full"
    ]
    long = {**LLAMA_8B, "sliding_window": 262144, "max_position_embeddings": 131072}
    assert [g.kind for g in shape_of_config(long).groups] == ["full"]
    mistral = {**LLAMA_8B, "model_type": "mistral", "sliding_window": 4096}
    shape = shape_of_config(mistral)
    assert [g.kind for g in shape.groups] == ["window"]
    with pytest.raises(ConfigError, match="no layer keeps every token"):
        capacity_tokens(2**34, shape)


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": None},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": "32"},
        {"num_key_value_heads": -1},
        {"hidden_size": 4097},
        {"layer_types": ["full_attention"]},
        {"layer_types": ["quantum"] * 32},
        {"layer_types": [[]] * 32},
        {"layer_types": ["sliding_attention"] * 32},
    ],
)
def test_a_configuration_that_says_nonsense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        shape_of_config({**LLAMA_8B, **change})


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "\xff"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="model configuration"):
        read_hf_config(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_hf_config(tmp_path / "none.json")


fields = sorted(
    {*LLAMA_8B, *DEEPSEEK, "text_config", "layer_types", "sliding_window", "head_dim", "dtype"}
    | {"full_attention_interval", "attn_layer_indices", "hybrid_override_pattern"}
    | {"num_local_experts", "attention_chunk_size", "sliding_window_pattern", "_name_or_path"}
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(fields), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(change=st.dictionaries(st.sampled_from(fields), anything, max_size=4))
def test_no_configuration_makes_a_traceback(change: dict[str, Any]) -> None:
    try:
        shape = shape_of_config(json.loads(json.dumps({**LLAMA_8B, **change})))
    except ConfigError:
        return
    assert isinstance(shape, ModelShape)
    shape.not_modelled()
    shape.kv_bytes_per_token()


def test_gpus_are_found_by_name() -> None:
    assert gpu_named("H100 SXM") is GPUS["h100"]
    with pytest.raises(ConfigError, match="a100-80gb"):
        gpu_named("tpu")


def test_a_pattern_of_many_layers_is_read_whole() -> None:
    # Nemotron-H 56B has 118 layers.
    pattern = "M-" * 54 + "*" * 10
    config = {**LLAMA_8B, "num_hidden_layers": 118}
    shape = shape_of_config({**config, "hybrid_override_pattern": pattern})
    assert shape.kv_bytes_per_token() == 10 * 2 * 8 * 128 * 2
    with pytest.raises(ConfigError, match="give 118 letters, not 117"):
        shape_of_config({**config, "hybrid_override_pattern": pattern[1:]})


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**31], ids=["huge", "low", "2**31"])
def test_a_size_beyond_every_float_is_refused(value: int) -> None:
    with pytest.raises(ConfigError, match=r"hidden_size is .*: give a whole number above 0"):
        shape_of_config({**LLAMA_8B, "hidden_size": value})


def test_a_note_on_quantisation_is_one_line() -> None:
    shape = shape_of_config({**LLAMA_8B, "quantization_config": {"quant_method": "a\nb"}})
    assert not any("\n" in note for note in shape.notes)
