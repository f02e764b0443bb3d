"""The same calls give the same batches whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_calls_give_the_same_batches_in_every_process(seed: int) -> None:
    dumps = {
        subprocess.run(
            [sys.executable, "-m", "tests.models.batch_dump", str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(dumps) == 1
    assert len(dumps.pop()) > 5_000
