"""Shared fixtures: hypothesis profiles and the folder of real traces and cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "fast", max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "ci", max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "soak",
    max_examples=5_000,
    stateful_step_count=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=_QUIET,
)
# `pytest --hypothesis-profile ci` (or soak) overrides this.
settings.load_profile("fast")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder with the real traces and cases beside the checkout, or skip."""
    folder = ROOT.parent / "shared"
    if not (folder / "traces" / "README.md").is_file():
        pytest.skip(f"{folder} is absent: this test reads the real traces and cases there")
    return folder
