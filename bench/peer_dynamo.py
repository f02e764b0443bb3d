"""Dynamo's router index (ai-dynamo-runtime 1.6.1), written in Rust: lookups and stored events."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.peer_loader import PeerMissingError, need
from bench.subjects import Subject

__all__ = ["Dynamo", "load_dynamo"]

VERSION = "1.6.1"


def load_dynamo(peers_dir: Path) -> None:
    """Make ``dynamo`` importable from ``<peers_dir>/dynamo``.

    Raises:
        PeerMissingError: it is not there.

    """
    folder = peers_dir / "dynamo"
    if not (folder / "dynamo").is_dir():
        raise PeerMissingError(f"no dynamo in {folder}: unpack its wheel there")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    need("dynamo._core")


class Dynamo(Subject):
    """``RadixTree`` of one worker. It owns no slots, pins nothing and has no capacity.

    ``begin`` hashes the blocks, ``encode`` writes the stored event as JSON. Its tree lives in
    another thread, so its clock is the wall's.
    """

    name = "Dynamo"
    clock = time.perf_counter
    has_loop = False
    has_lock = False
    self_evicting = True
    pages = (16,)

    def __init__(self, page_size: int, capacity_tokens: int | None = None) -> None:
        core = need("dynamo._core")
        self.tree = core.RadixTree()
        self._hash = core.compute_block_hash_for_seq
        self.page = page_size

    def key(self, tokens: Any) -> Any:
        return tokens.tolist()

    def fullkey(self, prompt_key: Any, tokens: Any, prompt_tokens: int) -> Any:
        hashes = self._hash(tokens.tolist(), self.page)
        chain, parent = [], 0
        for number in hashes:
            parent = hash((parent, number)) & ((1 << 62) - 1)
            chain.append(parent)
        return hashes, chain

    def begin(self, key: Any) -> Any:
        return self._hash(key, self.page)

    def match(self, request: Any) -> Any:
        return self.tree.find_matches(request)

    def matched(self, handle: Any) -> int:
        return next(iter(handle.scores.values()), 0) * self.page

    def encode(self, full: Any, handle: Any, request: Any) -> Any:
        hashes, chain = full
        known = self.matched(handle) // self.page
        if known >= len(hashes):
            return None
        blocks = [
            {"block_hash": block, "tokens_hash": tokens}
            for tokens, block in zip(hashes[known:], chain[known:], strict=True)
        ]
        stored = {"parent_hash": chain[known - 1] if known else None, "blocks": blocks}
        return json.dumps({"event_id": 0, "dp_rank": 0, "data": {"stored": stored}}).encode()

    def insert(self, full: Any, handle: Any, request: Any) -> Any:
        if full is not None:
            self.tree.apply_event(1, full)
