"""Single operations beside the installed peers, in the same run.

    python -m bench peers --peers-dir PEERS

Nothing is evicted. For each request: match (with the block hashes, where a cache needs them:
``hash`` is their share), lock, insert of prompt and output (with the event, where a cache is fed
by events: ``encode``), unlock; at the end a rematch of every prompt. This project's ``match``
pins at once. A value is CPU seconds a call over one pass, less the cost of reading the clock.

``subjects`` takes any object with this project's contract: see ``contract_subject``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.peer_registry import find_peers
from bench.runner import Options, Results, alternate, parse_options
from bench.subjects import Ours, Subject
from bench.traffic import load_traffic, prepare, time_calls

__all__ = ["run"]

SCALES = {"W1": 0.5, "W2": 0.5, "W3": 0.5, "W4": 1.0, "W5": 0.2, "W6": 0.4}
_SLOW = {("W5", "vLLM xxhash")}


def run(options: Options, subjects: Sequence[type[Subject]] = (Ours,)) -> Results:
    """Measure match, insert, lock and unlock on every workload."""
    results = Results(options)
    peers = find_peers(options.peers_dir, results.skip)
    for name, scale in SCALES.items():
        traffic = load_traffic(name, scale, options)
        if traffic is None:
            results.skip(f"{name}: no mooncake_conversation.jsonl.gz in {options.traces_dir}")
            continue
        able = [
            subject
            for subject in (*subjects, *peers)
            if traffic.page_size in subject.pages
            and (options.everything or (name, subject.name) not in _SLOW)
        ]
        turns = {
            subject.name: partial(time_calls, prepare(subject, traffic), traffic)
            for subject in able
        }
        results.add_group(
            alternate(options.rounds, turns),
            name,
            workload=name,
            page_size=traffic.page_size,
            requests=len(traffic.turns),
        )
    return results


if __name__ == "__main__":
    run(parse_options("peers")).save()
