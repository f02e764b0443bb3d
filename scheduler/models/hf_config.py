"""ModelShape from a model's own `config.json`, as Hugging Face repositories have it.

Read are layers, heads and head size; ``layer_types``, ``sliding_window`` and its pattern;
``kv_lora_rank`` (MLA); layers of linear attention or Mamba; experts; dtype and quantisation.
A configuration of text and image has the text part under ``text_config``. What is there and
not understood is never guessed: the file is refused, or a note says what is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radixcache.errors import ConfigError
from scheduler.models.shape import DTYPE_BYTES, Experts, LayerGroup, LayerKind, ModelShape

__all__ = ["read_hf_config", "shape_of_config"]

_TEXT_PARTS = ("text_config", "language_config", "llm_config", "thinker_config")
_FULL = {"full_attention", "attention", "full", "global", "hybrid"}
_WINDOW = {"sliding_attention", "sliding", "chunked_attention", "local"}
_STATE = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "linear"}
_KINDS: tuple[tuple[set[str], LayerKind], ...] = (
    (_FULL, "full"),
    (_WINDOW, "window"),
    (_STATE, "state"),
)
_MOST_LAYERS = 10_000
_MOST_SIZE = 1 << 31
_MOST_DEPTH = 4
_BITS = {"fp8": 1, "compressed-tensors": 1, "awq": 0.5, "gptq": 0.5, "mxfp4": 0.53125}


def read_hf_config(path: str | Path) -> ModelShape:
    """Read a `config.json`.

    Raises: ConfigError where the file cannot be read or is no configuration of a decoder.
    """
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"model configuration {path}: cannot be read ({error.strerror}): check the path"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"model configuration {path}: cannot be read as JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"model configuration {path}: is no JSON object: give a config.json")
    return shape_of_config(raw, where=str(path))


def shape_of_config(raw: Mapping[str, Any], *, where: str = "config.json") -> ModelShape:
    """Return the shape that a configuration describes. Raises: ConfigError."""
    config = _Config(raw, where)
    layers = config.size("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if layers > _MOST_LAYERS:
        raise config.wrong("num_hidden_layers", layers, f"give at most {_MOST_LAYERS}")
    notes = config.notes
    groups = _latent(config, layers) or _grouped(config, layers)
    if all(group.kind != "state" for group in groups) and config.has_prefix("mamba_", "ssm_"):
        notes.append("Mamba states beside attention are not counted")
    if config.get("num_kv_shared_layers") or config.get("use_cla"):
        notes.append("layers that share keys and values are counted each")
    name = config.text("_name_or_path") or config.text("model_type") or "model"
    params, active, experts = _parameters(config, layers)
    weight = _weight_width(config)
    return ModelShape(
        name=name,
        source=where,
        groups=groups,
        dtype=_dtype(config),
        params=params,
        active_params=active,
        weight_bytes=None if params is None or weight is None else params * weight,
        experts=experts,
        notes=tuple(notes),
    )


class _Config:
    """The part of a configuration that describes the text model, with its fields checked."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self.where = where
        self.notes: list[str] = []
        self._outer = raw
        for _ in range(_MOST_DEPTH):
            inner = next((raw[k] for k in _TEXT_PARTS if isinstance(raw.get(k), dict)), None)
            if inner is None:
                break
            raw = inner
        if raw is not self._outer:
            self.notes.append("only the text part counts: images and sound take KV memory too")
        if self._outer.get("is_encoder_decoder"):
            self.notes.append("an encoder-decoder: the memory of cross attention is not counted")
        self._raw = raw

    def get(self, name: str) -> Any:
        """Return a field of the text part, else of the whole."""
        value = self._raw.get(name)
        return self._outer.get(name) if value is None else value

    def size(self, *names: str, default: int | None = None) -> int:
        """Return the first of these fields that is there, a whole number of at least 1."""
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MOST_SIZE:
                raise self.wrong(name, value, "give a whole number above 0")
            return value
        if default is None:
            raise ConfigError(
                f"model configuration {self.where}: has no {names[0]}: give the config.json of a "
                "decoder model"
            )
        return default

    def optional(self, *names: str) -> int | None:
        """Return a size, None where the field is missing, null or 0."""
        for name in names:
            value = self.get(name)
            if value is not None and value is not False and value != 0:
                return self.size(name)
        return None

    def text(self, name: str) -> str | None:
        """Return a field that is text, in one line; None for anything else."""
        value = self.get(name)
        return " ".join(value.split())[:80] or None if isinstance(value, str) else None

    def has_prefix(self, *starts: str) -> bool:
        """Tell whether the text part has a field whose name starts so."""
        return any(name.startswith(starts) for name in self._raw)

    def wrong(self, name: str, value: object, way: str) -> ConfigError:
        """Return the error of a field."""
        shown = repr(value)[:60]
        return ConfigError(f"model configuration {self.where}: {name} is {shown}: {way}")


def _latent(config: _Config, layers: int) -> tuple[LayerGroup, ...] | None:
    """Return the group of an MLA model, None for any other."""
    rank = config.optional("kv_lora_rank")
    if rank is None:
        return None
    rope = config.size("qk_rope_head_dim")
    if config.get("index_topk") is not None:
        config.notes.append("sparse attention: the index keys of each token are not counted")
    heads = config.size("num_attention_heads", "n_head")
    return (LayerGroup.latent(layers, query_heads=heads, rank=rank, rope_dim=rope),)


def _grouped(config: _Config, layers: int) -> tuple[LayerGroup, ...]:
    """Return the groups of a model with keys and values by head."""
    query_heads = config.size("num_attention_heads", "n_head", "num_heads", "n_heads")
    kv_heads = config.size("num_key_value_heads", "n_head_kv", default=query_heads)
    if config.get("multi_query") is True and config.get("num_key_value_heads") is None:
        kv_heads = 1
    head_dim = config.optional("head_dim")
    if head_dim is None:
        hidden = config.size("hidden_size", "n_embd", "d_model")
        if hidden % query_heads:
            raise config.wrong(
                "hidden_size", hidden, f"give head_dim: {query_heads} heads do not divide it"
            )
        head_dim = hidden // query_heads
    kinds = _kinds(config, layers)
    window = config.optional("sliding_window", "attention_chunk_size")
    if config.get("global_head_dim") is not None or config.get("num_global_key_value_heads"):
        config.notes.append("global layers of another head size are counted as the others")
    groups = []
    for kind in ("full", "window", "state"):
        count = kinds.count(kind)
        if not count:
            continue
        if kind == "state":
            groups.append(LayerGroup(kind="state", layers=count))
            continue
        if kind == "window" and window is None:
            raise config.wrong("sliding_window", None, "layer_types has windows: give their size")
        groups.append(
            LayerGroup.grouped(
                count,
                query_heads=query_heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                window_tokens=window if kind == "window" else None,
            )
        )
    return tuple(groups)


def _kinds(config: _Config, layers: int) -> list[LayerKind]:
    """Return what each layer is."""
    listed = config.get("layer_types") or config.get("layers_block_type")
    if isinstance(listed, list) and listed:
        if len(listed) != layers:
            raise config.wrong("layer_types", len(listed), f"give one for each of {layers} layers")
        return [_kind(config, name) for name in listed]
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:  # Nemotron-H: M a Mamba layer, * attention, - an MLP
        if len(pattern) != layers:
            raise config.wrong(
                "hybrid_override_pattern", pattern, f"give {layers} letters, not {len(pattern)}"
            )
        return ["full" if letter == "*" else "state" for letter in pattern]
    every = config.optional("full_attention_interval")
    if every is not None:
        return ["full" if (i + 1) % every == 0 else "state" for i in range(layers)]
    every = config.optional("attn_layer_period")
    if every is not None:
        offset = config.optional("attn_layer_offset") or 0
        return ["full" if i % every == offset else "state" for i in range(layers)]
    places = config.get("attn_layer_indices")
    if isinstance(places, list):
        return ["full" if i in places else "state" for i in range(layers)]
    model = config.text("model_type") or ""
    if model in {"mamba", "mamba2", "falcon_mamba"}:
        return ["state"] * layers
    if config.get("attention_chunk_size") is not None:
        config.notes.append("attention in chunks without layer_types: each layer counts as full")
        return ["full"] * layers
    window = config.optional("sliding_window")
    asked = config.get("use_sliding_window")  # False unless it is said, for Qwen models
    unused = asked is False or (asked is None and model.startswith("qwen"))
    longest = config.optional("max_position_embeddings")
    if window is None or unused or (longest is not None and window >= longest):
        return ["full"] * layers
    return _windows(config, layers)


def _windows(config: _Config, layers: int) -> list[LayerKind]:
    """Return which layers have a window, by the conventions of models that list none."""
    every = config.optional("sliding_window_pattern", "_sliding_window_pattern")
    model = config.text("model_type") or ""
    if every is None and model.startswith("gemma3"):
        every = 6
    if every is None and model in {"gemma2", "gpt_oss", "cohere2"}:
        every = 4 if model == "cohere2" else 2
    if every is not None:
        return ["full" if (i + 1) % every == 0 else "window" for i in range(layers)]
    if config.get("use_sliding_window") is True:
        first = config.size("max_window_layers", default=layers)
        return ["full" if i < first else "window" for i in range(layers)]
    return ["window"] * layers


def _kind(config: _Config, name: object) -> LayerKind:
    if isinstance(name, str):
        for kinds, kind in _KINDS:
            if name in kinds:
                return kind
    raise config.wrong(
        "layer_types", name, "this kind of layer is not known: give --capacity-tokens"
    )


def _dtype(config: _Config) -> str:
    """Return the type of keys and values: the model's own."""
    name = config.text("dtype") or config.text("torch_dtype")
    if name is None:
        config.notes.append("the configuration names no dtype: 2 bytes a value are assumed")
        return "bf16"
    name = name.lower().removeprefix("torch.")
    if name not in DTYPE_BYTES or DTYPE_BYTES[name] < 1:
        config.notes.append(f"dtype {name!r} is not known: 2 bytes a value are assumed")
        return "bf16"
    return name


def _weight_width(config: _Config) -> float | None:
    """Return the bytes of one weight, None for the default of 2."""
    quantised = config.get("quantization_config")
    if not isinstance(quantised, dict):
        return None
    method = quantised.get("quant_method")
    bits = quantised.get("bits", quantised.get("w_bit"))
    if isinstance(bits, int) and not isinstance(bits, bool) and 1 <= bits <= 32:
        width: float | None = bits / 8
    else:
        width = _BITS.get(method) if isinstance(method, str) else None
    shown = f"{width:g} bytes" if width is not None else "2 bytes"
    config.notes.append(
        f"weights are quantised ({_word(method)}): {shown} a weight are assumed, KV memory is "
        "counted in the model's dtype unless --kv-dtype says otherwise"
    )
    return width


def _word(value: object) -> str:
    """Return a name that a file gives, short and in one line."""
    return " ".join(str(value)[:30].split())


def _parameters(config: _Config, layers: int) -> tuple[float | None, float | None, Experts | None]:
    """Estimate all weights and those of one token, for attention and gated MLPs."""
    hidden, inner = (config.optional(*n) for n in (("hidden_size",), ("intermediate_size",)))
    vocabulary, heads = config.optional("vocab_size"), config.optional("num_attention_heads")
    if hidden is None or vocabulary is None or heads is None:
        return None, None, None
    kv_heads = config.optional("num_key_value_heads") or heads
    head_dim = config.optional("head_dim") or max(hidden // heads, 1)
    attention = 2.0 * hidden * head_dim * (heads + kv_heads)
    rank = config.optional("kv_lora_rank")
    if rank is not None:
        attention = _latent_weights(config, hidden, heads, rank)
    tied = config.get("tie_word_embeddings") is True
    total = layers * attention + vocabulary * hidden * (1 if tied else 2)
    count = config.optional("num_local_experts", "num_experts", "n_routed_experts")
    used = config.optional("num_experts_per_tok", "experts_per_token")
    if count is None or used is None or used > count:
        if inner is None:
            return None, None, None
        total += layers * 3.0 * hidden * inner
        return total, None, None
    width = config.optional("moe_intermediate_size") or inner
    if width is None:
        return None, None, None
    dense = min(config.optional("first_k_dense_replace") or 0, layers)
    total += dense * 3.0 * hidden * (inner or width)
    expert = 3.0 * hidden * width
    shared = config.optional("n_shared_experts") or 0
    mixed = layers - dense
    total += mixed * (shared * expert + hidden * count)
    config.notes.append("parameters are estimated from the configuration, every expert layer alike")
    return (
        total + mixed * count * expert,
        total + mixed * used * expert,
        Experts(count, used),
    )


def _latent_weights(config: _Config, hidden: int, heads: int, rank: int) -> float:
    """Return the attention weights of one MLA layer."""
    rope = config.size("qk_rope_head_dim")
    plain = config.size("qk_nope_head_dim", default=128)
    value = config.size("v_head_dim", default=128)
    query = config.optional("q_lora_rank")
    asked = heads * (plain + rope)
    down = float(hidden * asked) if query is None else float(query * (hidden + asked))
    return down + hidden * (rank + rope) + rank * heads * (plain + value) + heads * value * hidden
