"""The version of the installed package, which results name."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed_version"]


def installed_version() -> str:
    """Return the version, or that the package runs from a checkout."""
    try:
        return version("radixcache")
    except PackageNotFoundError:
        return "not installed"
