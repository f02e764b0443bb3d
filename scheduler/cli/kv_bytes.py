"""KV bytes of a token: what turns tokens into GiB, where the command line says it."""

from __future__ import annotations

import argparse

__all__ = ["kv_bytes_per_token_of"]


def kv_bytes_per_token_of(arguments: argparse.Namespace) -> float | None:
    """Return the KV bytes of one token, None where they are unknown."""
    given: float | None = arguments.kv_bytes_per_token
    return given
