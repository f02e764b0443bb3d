"""Memory of a filled cache: bytes a cached token and a node, each in a fresh process.

    python -m bench memory --peers-dir PEERS

The process makes its requests one by one, serves each and throws its key away, so what is left
is the cache's. "resident" is the growth of the resident set after the allocator gave back what
it could, "traced" what tracemalloc counts of objects made by the cache. A node's own bytes are
traced bytes less the payload: 4 bytes a token and 4 bytes a page. Pages of 16 tokens; page ids
are part of it, the pool is not.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peer_registry import find_peers
from bench.peer_vllm import Vllm
from bench.runner import OURS, ROOT, Options, Results, parse_options
from bench.subjects import Ours, Subject
from bench.workloads import Turn, make_workload, unique_tokens

__all__ = ["run"]

PAGE = 16
WORKLOADS = ("W1", "W2", "W4")
_ROUNDS = 3
_STATM = Path("/proc/self/statm")
# Keys are thrown away; what is left of their making is numpy's and Python's own.
_OF_THE_CACHE = (
    tracemalloc.Filter(True, str(ROOT / "radixcache" / "*")),
    tracemalloc.Filter(False, str(ROOT / "radixcache" / "packing.py")),
    tracemalloc.Filter(False, str(ROOT / "radixcache" / "key.py")),
)


def run(options: Options) -> Results:
    """Fill a cache in a new process for each subject, workload and way of measuring."""
    results = Results(options)
    if not _STATM.is_file():
        results.skip(f"memory: {_STATM} is needed to see the resident set")
        return results
    subjects: list[type[Subject]] = [Ours, *find_peers(options.peers_dir, results.skip)]
    for workload in WORKLOADS:
        # One workload shows the peers; importing torch again and again takes its time.
        for kind in subjects if workload == WORKLOADS[0] else subjects[:1]:
            measure(results, workload, kind.name)
    return results


def measure(results: Results, workload: str, name: str) -> None:
    options = results.options
    facts: dict[str, Any] = {"workload": workload, "page_size": PAGE}
    found = [_in_new_process(options, workload, name, "resident") for _ in range(_ROUNDS)]
    facts |= {key: found[0][key] for key in ("unique_tokens", "nodes") if found[0][key]}
    tokens, nodes = found[0]["unique_tokens"], found[0]["nodes"]
    resident = [row["bytes"] / tokens for row in found]
    results.add(f"resident bytes a token, {workload}", name, resident, "byte", **facts)
    if name != OURS:
        return
    traced = _in_new_process(options, workload, name, "traced")["bytes"]
    payload = 4 * tokens + 4 * tokens // PAGE
    results.add(f"traced bytes a token, {workload}", name, [traced / tokens], "byte", **facts)
    beyond = [(traced - payload) / nodes]
    results.add(f"bytes a node beyond payload, {workload}", name, beyond, "byte", **facts)


def _in_new_process(options: Options, workload: str, name: str, way: str) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "bench.memory", "--child", name, workload, way,
        "--seed", str(options.seed), "--scale", "0.05" if options.fast else "1",
    ]  # fmt: skip
    if options.peers_dir is not None:
        command += ["--peers-dir", str(options.peers_dir)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _fill(cache: Subject, turns: Iterator[Turn]) -> None:
    for turn in turns:
        # numpy keeps a note of every buffer view with the array: give arrays that go away.
        prompt = cache.key(turn.prompt.copy())
        full = cache.fullkey(prompt, turn.full.copy(), len(turn.prompt))
        request = cache.begin(prompt)
        handle = cache.match(request)
        token = cache.lock(handle)
        cache.insert(cache.encode(full, handle, request), handle, request)
        cache.unlock(token)


def _resident() -> int:
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(_STATM.read_text(encoding="ascii").split()[1]) * 4096


def _child(arguments: argparse.Namespace) -> None:
    name, workload, way = arguments.child
    only = (name.split()[0],)
    peers = [] if name == OURS else find_peers(arguments.peers_dir, lambda why: None, only)
    kinds: list[type[Subject]] = [Ours, *peers]
    kind = next(kind for kind in kinds if kind.name == name)
    turns = make_workload(workload, arguments.scale, arguments.seed, Path())
    assert turns is not None
    tokens = unique_tokens(turns, PAGE)
    Vllm.pool_tokens = tokens * 21 // 20 + 2 * max(len(turn.full) for turn in turns)
    _fill(kind(PAGE, None), iter(turns[:3]))
    if way == "traced":
        gc.collect()
        tracemalloc.start()
        cache = kind(PAGE, None)
        _fill(cache, iter(turns))
        gc.collect()
        made = tracemalloc.take_snapshot().filter_traces(_OF_THE_CACHE)
        grown = sum(row.size for row in made.statistics("filename"))
    else:
        before = _resident()
        cache = kind(PAGE, None)
        _fill(cache, iter(turns))
        grown = _resident() - before
    count = getattr(cache, "nodes", lambda: None)()
    print(json.dumps({"bytes": grown, "unique_tokens": tokens, "nodes": count}))


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", nargs=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--peers-dir", type=Path)
    arguments, _ = parser.parse_known_args()
    if arguments.child:
        _child(arguments)
    else:
        run(parse_options("memory")).save()


if __name__ == "__main__":
    _main()
