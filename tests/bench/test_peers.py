"""The peers that are unpacked beside the checkout find what this cache finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.peer_registry import PEER_VERSIONS, find_peers
from bench.runner import ROOT

PEERS_DIR = ROOT.parent / "peers"

# In a process of its own: loading a peer leaves import hooks behind.
PROGRAM = """
import sys
from pathlib import Path
from bench.peer_registry import find_peers
from bench.subjects import Ours
from bench.traffic import Traffic, hit_tokens, prepare
from bench.workloads import make_workload, unique_tokens
for name in ("W1", "W2", "W4"):
    turns = make_workload(name, 0.02, 1, Path())
    unique = unique_tokens(turns, 16)
    # So large that nothing is evicted.
    traffic = Traffic(name, turns, 16, 8 * unique)
    for kind in (Ours, *find_peers(Path(sys.argv[1]), print)):
        print(name, kind.name.replace(" ", "_"), hit_tokens(prepare(kind, traffic), traffic))
"""


def test_every_peer_finds_the_same_prefixes() -> None:
    if not (PEERS_DIR / "venv").is_dir():
        pytest.skip(f"{PEERS_DIR} is absent: the peers are unpacked there")
    command = [sys.executable, "-c", PROGRAM, str(PEERS_DIR)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    hits: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("W"):
            name, _, tokens = line.split()
            hits.setdefault(name, set()).add(tokens)
    assert len(hits) == 3
    assert all(len(found) == 1 for found in hits.values()), done.stdout


def test_a_peer_that_is_absent_is_skipped_with_its_reason(tmp_path: Path) -> None:
    said: list[str] = []
    assert find_peers(None, said.append) == []
    assert "--peers-dir" in said[0]
    assert find_peers(tmp_path, said.append) == []
    assert len(said) > len({name.split()[0] for name in PEER_VERSIONS})
