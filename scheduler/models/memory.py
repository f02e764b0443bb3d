"""KV memory in bytes and in tokens of a model."""

from __future__ import annotations

import re

from radixcache.errors import ConfigError
from scheduler.models.shape import ModelShape

__all__ = ["capacity_tokens", "memory_bytes"]

_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,9})?)\s*([kmgt]?i?b)", re.IGNORECASE)


def memory_bytes(text: str) -> int:
    """Return the bytes of an amount with its unit: 24GiB is 2**30 each, 24GB 10**9 each.

    Raises: ConfigError where it is no such amount above 0.
    """
    found = _AMOUNT.fullmatch(text.strip())
    size = 0 if found is None else int(float(found[1]) * _UNITS.get(found[2].lower(), 0))
    if size < 1:
        raise ConfigError(f"KV memory is {text!r}: give a number and a unit, as 24GiB or 80GB")
    return size


def capacity_tokens(size_bytes: int, shape: ModelShape, dtype: str | None = None) -> int:
    """Return how many tokens of a model fit into so many bytes.

    Raises: ConfigError where none does, or where no layer grows with the context.
    """
    token_bytes = shape.kv_bytes_per_token(dtype)
    if not token_bytes:
        raise ConfigError(
            f"model {shape.name}: no layer keeps every token, so memory sets no number of tokens: "
            "give --capacity-tokens"
        )
    tokens = int(size_bytes // token_bytes)
    if not tokens:
        raise ConfigError(
            f"KV memory is {size_bytes} bytes, and one token of {shape.name} takes "
            f"{token_bytes:g}: give more"
        )
    return tokens
