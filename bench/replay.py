"""Replaying the Mooncake conversation trace in lookup mode: requests and blocks a second.

    python -m bench replay

The trace is read and its keys are packed beforehand; "with packing" makes the keys in the same
pass, "from the file" also reads and checks the file. One block id is a page. The capacity curve
is LRU at every capacity at once, seconds in all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.runner import OURS, Options, Results, alternate, cpu_seconds, parse_options
from bench.workloads import mooncake_ids
from radixcache import PrefixKey
from scheduler.analysis.capacity_curve import capacity_curve
from scheduler.lookup import lookup_replay
from scheduler.request import Request
from scheduler.trace import open_trace

__all__ = ["run"]

BLOCK_TOKENS = 512
CAPACITIES = (1_000, 10_000, 100_000, None)


def requests_of(rows: list[list[int]]) -> list[Request]:
    """Return the requests with their keys packed."""
    return [
        Request(
            rid=str(number),
            key=PrefixKey.from_block_ids(ids, BLOCK_TOKENS),
            prompt_tokens=BLOCK_TOKENS * len(ids),
            max_new_tokens=1,
        )
        for number, ids in enumerate(rows)
    ]


def replay_turn(
    requests: Callable[[], list[Request]], capacity: int | None, policy: str
) -> dict[str, float]:
    """Replay once; return seconds a request."""
    start = cpu_seconds()
    result = lookup_replay(requests(), BLOCK_TOKENS, capacity_pages=capacity, policy=policy)
    return {"lookup a request": (cpu_seconds() - start) / result.requests}


def curve_turn(requests: list[Request]) -> dict[str, float]:
    """Find the hit rate at every capacity; return seconds."""
    start = cpu_seconds()
    curve = capacity_curve(requests, BLOCK_TOKENS, last_token=False)
    spent = cpu_seconds() - start
    assert curve.requests == len(requests)
    return {"curve": spent}


def run(options: Options) -> Results:
    """Measure several capacities with keys ready, then one with everything."""
    results = Results(options)
    rows = mooncake_ids(options.traces_dir)
    if rows is None:
        results.skip(f"replay: no mooncake_conversation.jsonl.gz in {options.traces_dir}")
        return results
    rows = rows[: options.size(len(rows), 500)]
    blocks = sum(map(len, rows))
    requests = requests_of(rows)
    path = options.traces_dir / "mooncake_conversation.jsonl.gz"

    def ready() -> list[Request]:
        return requests

    def packed() -> list[Request]:
        return requests_of(rows)

    def read() -> list[Request]:
        return list(open_trace(path))

    cases = [(f"lru, {size or 'unbounded'} blocks", ready, size, "lru") for size in CAPACITIES]
    cases.append(("optimal, 10000 blocks", ready, 10_000, "optimal"))
    cases.append(("lru, 10000 blocks, with packing", packed, 10_000, "lru"))
    if not options.fast:
        cases.append(("lru, 10000 blocks, from the file", read, 10_000, "lru"))
    for label, source, capacity, policy in cases:
        turn = partial(replay_turn, source, capacity, policy)
        values = alternate(options.rounds, {OURS: turn})[OURS]["lookup a request"]
        row = results.add(
            f"lookup a request, {label}", OURS, values, requests=len(rows), blocks=blocks
        )
        rate = 1 / row.median
        print(f"{'':44s} {rate:,.0f} requests/s, {rate * blocks / len(rows):,.0f} blocks/s")
    values = alternate(options.rounds, {OURS: partial(curve_turn, requests)})[OURS]["curve"]
    results.add("capacity curve, one pass", OURS, values, requests=len(rows), blocks=blocks)
    return results


if __name__ == "__main__":
    run(parse_options("replay")).save()
