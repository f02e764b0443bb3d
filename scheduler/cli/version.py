"""The version of this tool, for results that say what made them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["version_of_tool"]


def version_of_tool() -> str:
    """Return the installed version."""
    try:
        return version("radixcache")
    except PackageNotFoundError:  # run from a checkout
        return "not installed"
