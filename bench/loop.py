"""The whole request: match, pin, insert prompt and output, unpin, evict what is too much.

    python -m bench loop --peers-dir PEERS

The capacity is a quarter of the unique tokens; page 16, one token for W6. Keys are ready. A
value is CPU seconds a request over one pass of the workload from an empty cache. "radixcache,
observed" has its own namespace and an observer that hears every event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.peer_registry import find_peers
from bench.runner import Options, Results, alternate, parse_options
from bench.subjects import Observed, Ours, Subject
from bench.traffic import Prepared, Traffic, hit_tokens, load_traffic, prepare, serve_all

__all__ = ["run"]

SCALES = {"W1": 1.0, "W2": 1.0, "W3": 1.0, "W4": 1.0, "W5": 0.5, "W6": 1.0}
_SLOW = {("W5", "vLLM xxhash")}


def run(options: Options) -> Results:
    """Measure every workload with every subject that has a whole request."""
    results = Results(options)
    peers = [peer for peer in find_peers(options.peers_dir, results.skip) if peer.has_loop]
    for name, scale in SCALES.items():
        traffic = load_traffic(name, scale, options)
        if traffic is None:
            results.skip(f"{name}: no mooncake_conversation.jsonl.gz in {options.traces_dir}")
            continue
        subjects: list[type[Subject]] = [Ours, Observed]
        for peer in peers:
            if (name, peer.name) in _SLOW and not options.everything:
                results.skip(f"{peer.name} on {name}: 5 ms a request; --everything runs it")
            else:
                subjects.append(peer)
        measure(results, traffic, subjects)
    return results


def measure(results: Results, traffic: Traffic, subjects: Sequence[type[Subject]]) -> None:
    ready = [prepare(subject, traffic) for subject in subjects]
    hits = [hit_tokens(one, traffic) for one in ready]
    for one, tokens in zip(ready, hits, strict=True):
        # Orders of eviction differ in ties; more than that would be another workload.
        if abs(tokens - hits[0]) > 0.02 * hits[0] + 1:
            print(f"note: {one.subject.name} hits {tokens} tokens, not {hits[0]}")
    turns: dict[str, Callable[[], dict[str, float]]] = {
        one.subject.name: partial(_turn, one, traffic) for one in ready
    }
    found = alternate(results.options.rounds, turns)
    results.add_group(
        found,
        traffic.name,
        workload=traffic.name,
        page_size=traffic.page_size,
        requests=len(traffic.turns),
        capacity_tokens=traffic.capacity_tokens,
    )


def _turn(prepared: Prepared, traffic: Traffic) -> dict[str, float]:
    return {"request": serve_all(prepared, traffic)}


if __name__ == "__main__":
    run(parse_options("loop")).save()
