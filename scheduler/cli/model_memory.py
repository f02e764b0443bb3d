"""KV memory of a named model: from bytes on the command line to tokens, with what was assumed."""

from __future__ import annotations

import argparse

from radixcache.errors import ConfigError
from scheduler.cli.options import option_of
from scheduler.models import (
    ModelShape,
    capacity_tokens,
    dtype_bytes,
    memory_bytes,
    model_named,
    read_hf_config,
)

__all__ = [
    "complete_memory",
    "kv_bytes_per_token_of",
    "notes_on_model",
    "said_of_memory",
    "shape_from",
]


def shape_from(arguments: argparse.Namespace) -> ModelShape | None:
    """Return the model of the command line, None where none is named.

    Raises: ConfigError where it is unknown, or named twice.
    """
    if arguments.model is not None and arguments.hf_config is not None:
        raise ConfigError("--model and --hf-config exclude each other: give one")
    if arguments.hf_config is not None:
        return read_hf_config(arguments.hf_config)
    return None if arguments.model is None else model_named(arguments.model)


def kv_bytes_per_token_of(arguments: argparse.Namespace) -> float | None:
    """Return the KV bytes of one token, by the model or as given; None where neither is said.

    Raises: ConfigError where both are.
    """
    shape = shape_from(arguments)
    given: float | None = getattr(arguments, "kv_bytes_per_token", None)
    if shape is None:
        return given
    if given is not None:
        raise ConfigError("--kv-bytes-per-token and a model exclude each other: give one")
    return shape.kv_bytes_per_token(arguments.kv_dtype)


def complete_memory(arguments: argparse.Namespace) -> None:
    """Fill in the capacity from ``--kv-memory``, and refuse options that do nothing.

    A command with several capacities has them in ``capacities``, and several memories.
    """
    given = arguments.given
    if arguments.kv_dtype is not None:
        dtype_bytes(arguments.kv_dtype)
        if arguments.model is None and arguments.hf_config is None:
            raise ConfigError(
                "--kv-dtype does nothing without a model: give --model NAME or --hf-config FILE, "
                "or leave it out"
            )
    if arguments.kv_memory is not None:
        several = "capacities" in arguments
        held = arguments.capacities if several else arguments.capacity_tokens
        if held is not None:
            option = "--capacities" if several else "--capacity-tokens"
            raise ConfigError(f"--kv-memory and {option} exclude each other: give one")
        shape = _needed(arguments)
        tokens = [
            capacity_tokens(memory_bytes(text), shape, arguments.kv_dtype)
            for text in (arguments.kv_memory if several else [arguments.kv_memory])
        ]
        if len(set(tokens)) < len(tokens):
            raise ConfigError("--kv-memory has a size twice: give each once")
        if several:
            arguments.capacities = tuple(tokens)
        else:
            (arguments.capacity_tokens,) = tokens
        return
    gpu = getattr(arguments, "gpu", None)
    for name in ("model", "hf_config", "kv_dtype"):
        if name in given and gpu is None and not arguments.shows_bytes:
            raise ConfigError(
                f"{option_of(name)} does nothing without --kv-memory"
                + (" or --gpu" if "gpu" in arguments else "")
                + ": give it, or leave the model out"
            )


def said_of_memory(arguments: argparse.Namespace) -> dict[str, str]:
    """Say which model gives the memory, what a token of it takes and what is not modelled."""
    shape = shape_from(arguments) if "model" in arguments else None
    if shape is None:
        return {}
    said = {"model": f"{shape.name} ({shape.source})"}
    width = shape.kv_bytes_per_token(arguments.kv_dtype)
    dtype = arguments.kv_dtype or shape.dtype
    said["kv_bytes_per_token"] = f"{width:g} ({dtype})"
    if arguments.kv_memory is not None:
        memory = arguments.kv_memory
        said["kv_memory"] = memory if isinstance(memory, str) else ",".join(memory)
    left_out = shape.not_modelled(arguments.kv_dtype)
    if left_out:
        said["not_modelled"] = "; ".join(left_out)
    return said


def notes_on_model(arguments: argparse.Namespace) -> list[str]:
    """Return lines for people: tokens of the memory, and what is not modelled of the model."""
    said = said_of_memory(arguments)
    if not said:
        return []
    lines = [f"model {said['model']}: {said['kv_bytes_per_token']} bytes of KV memory a token"]
    if "kv_memory" in said:
        tokens = getattr(arguments, "capacities", None) or (arguments.capacity_tokens,)
        lines[0] += f"; {said['kv_memory']} are {', '.join(f'{t:,}' for t in tokens)} tokens"
    if "not_modelled" in said:
        lines.append(f"not modelled: {said['not_modelled']}")
    return lines


def _needed(arguments: argparse.Namespace) -> ModelShape:
    shape = shape_from(arguments)
    if shape is None:
        raise ConfigError("--kv-memory needs the model: give --model NAME or --hf-config FILE")
    return shape
