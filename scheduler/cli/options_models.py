"""Options about the model that is served and the memory and GPU it is served on."""

from __future__ import annotations

import argparse

from scheduler.cli.options import listed_texts, share_above_0, whole

__all__ = ["MODEL_OPTIONS", "add_model"]

MODEL_OPTIONS = ("model", "hf_config", "kv_memory", "kv_dtype")
"""What gives KV memory in bytes; the roofline takes ``gpu`` and its efficiencies beside."""


def add_model(
    parser: argparse.ArgumentParser,
    *,
    roofline: bool = True,
    several: bool = False,
    shows_bytes: bool = False,
) -> None:
    """Add the model and its KV memory; with ``roofline`` the GPU whose steps are estimated.

    ``several``: the command takes a list of memories. ``shows_bytes``: it says what tokens
    take, so that a model without memory or GPU means something.
    """
    parser.set_defaults(shows_bytes=shows_bytes)
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="NAME",
        help="a model of the catalogue, as llama-3.1-8b or meta-llama/Llama-3.1-8B (the message "
        "on an unknown name has the others)",
    )
    group.add_argument(
        "--hf-config", metavar="FILE", help="the config.json of a model, instead of --model"
    )
    metavar = "24GiB,..." if several else "24GiB"
    group.add_argument(
        "--kv-memory",
        type=listed_texts if several else str,
        metavar=metavar,
        help="KV memory in bytes, over all GPUs of one engine, instead of --capacity-tokens; "
        "needs the model",
    )
    group.add_argument(
        "--kv-dtype",
        metavar="TYPE",
        help="type of keys and values, as fp8 or bf16 (default: the model's own)",
    )
    if roofline:
        _add_gpu(group)


def _add_gpu(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--gpu",
        metavar="NAME",
        help="estimate steps by a roofline of the model on this GPU: the longer of compute and "
        "memory traffic, plus a constant",
    )
    group.add_argument(
        "--gpus",
        type=whole(1),
        metavar="N",
        help="GPUs that share each layer (tensor parallel), communication not counted (default: 1)",
    )
    group.add_argument(
        "--compute-efficiency",
        type=share_above_0,
        metavar="X",
        help="share of the GPU's peak FLOP/s that is reached (default: 0.5)",
    )
    group.add_argument(
        "--bandwidth-efficiency",
        type=share_above_0,
        metavar="X",
        help="share of the GPU's memory bandwidth that is reached (default: 0.7)",
    )
