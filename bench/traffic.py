"""Requests of a workload in each subject's own form, and one engine-like pass over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.peer_vllm import Vllm
from bench.runner import Options
from bench.subjects import Subject
from bench.workloads import Turn, make_workload, unique_tokens

__all__ = [
    "PAGE_OF",
    "Prepared",
    "Traffic",
    "hit_tokens",
    "load_traffic",
    "prepare",
    "serve_all",
    "time_calls",
]

PAGE_OF: Mapping[str, int] = {"W1": 16, "W2": 16, "W3": 16, "W4": 16, "W5": 16, "W6": 1}
"""Page size in tokens: a block id of the trace is a page of its own."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A workload, its page size, and the capacity that makes evictions go on."""

    name: str
    turns: list[Turn]
    page_size: int
    unique_tokens: int

    @property
    def capacity_tokens(self) -> int:
        """A quarter of the unique tokens, and at least the longest request."""
        longest = max(len(turn.full) for turn in self.turns)
        least = max(self.unique_tokens // 4, longest + 64)
        return least // self.page_size * self.page_size


@dataclass(frozen=True, slots=True)
class Prepared:
    """The keys of all requests, as one subject has them."""

    subject: type[Subject]
    prompts: Sequence[Any]
    fulls: Sequence[Any]


def load_traffic(name: str, scale: float, options: Options) -> Traffic | None:
    """Return a workload, or None where its trace is absent."""
    turns = make_workload(name, scale * (0.02 if options.fast else 1), options.seed,
                          options.traces_dir)  # fmt: skip
    if turns is None:
        return None
    page_size = PAGE_OF[name]
    return Traffic(name, turns, page_size, unique_tokens(turns, page_size))


def prepare(subject: type[Subject], traffic: Traffic) -> Prepared:
    """Make every key once."""
    Vllm.pool_tokens = sum(len(t.full) - len(t.prompt) for t in traffic.turns)
    Vllm.pool_tokens += traffic.unique_tokens * 5 // 4 + 200_000
    maker = subject(traffic.page_size, traffic.capacity_tokens)
    prompts = [maker.key(turn.prompt) for turn in traffic.turns]
    fulls = [
        maker.fullkey(key, turn.full, len(turn.prompt))
        for key, turn in zip(prompts, traffic.turns, strict=True)
    ]
    return Prepared(subject, prompts, fulls)


def hit_tokens(prepared: Prepared, traffic: Traffic) -> int:
    """Serve all requests as ``serve_all`` does, and return what they found."""
    handles: list[Any] = []
    cache = _serve(prepared, traffic, handles)[1]
    return sum(cache.matched(handle) for handle in handles)


def serve_all(prepared: Prepared, traffic: Traffic) -> float:
    """Serve all requests within the capacity; return seconds a request.

    Each is taken in, matched, pinned, cached with its output and unpinned; then what is
    above the capacity is evicted.
    """
    return _serve(prepared, traffic, None)[0] / len(prepared.prompts)


def _serve(
    prepared: Prepared, traffic: Traffic, handles: list[Any] | None
) -> tuple[float, Subject]:
    capacity = traffic.capacity_tokens
    cache = prepared.subject(traffic.page_size, capacity)
    begin, match, lock, encode = cache.begin, cache.match, cache.lock, cache.encode
    insert, unlock, size, evict = cache.insert, cache.unlock, cache.size, cache.evict
    kind = prepared.subject
    evicting = not cache.self_evicting
    # A call that does nothing in a cache is not made at all.
    hashing, pinning = kind.begin is not Subject.begin, kind.lock is not Subject.lock
    encoding = kind.encode is not Subject.encode
    clock = kind.clock
    start = clock()
    for prompt, full in zip(prepared.prompts, prepared.fulls, strict=True):
        request = begin(prompt) if hashing else prompt
        handle = match(request)
        token = lock(handle) if pinning else handle
        if encoding:
            full = encode(full, handle, request)  # noqa: PLW2901
        insert(full, handle, request)
        unlock(token)
        if evicting:
            over = size() - capacity
            if over > 0:
                evict(over)
        if handles is not None:
            handles.append(handle)
    return clock() - start, cache


def time_calls(prepared: Prepared, traffic: Traffic) -> dict[str, float]:
    """Serve all requests without a capacity; return seconds a call of each kind.

    A match includes the hashing it needs, an insert the making of its event. ``rematch`` is
    a match of every prompt, hashed already, after everything is cached.
    """
    cache = prepared.subject(traffic.page_size, None)
    clock = prepared.subject.clock
    spent = dict.fromkeys(("hash", "match", "lock", "encode", "insert", "unlock"), 0.0)
    again = 0.0
    for prompt, full in zip(prepared.prompts, prepared.fulls, strict=True):
        t0 = clock()
        request = cache.begin(prompt)
        t1 = clock()
        handle = cache.match(request)
        t2 = clock()
        token = cache.lock(handle)
        t3 = clock()
        done = cache.encode(full, handle, request)
        t4 = clock()
        cache.insert(done, handle, request)
        t5 = clock()
        cache.unlock(token)
        t6 = clock()
        for name, seconds in zip(spent, (t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4, t6 - t5),
                                 strict=True):  # fmt: skip
            spent[name] += seconds
    for prompt in prepared.prompts:
        request = cache.begin(prompt)
        t0 = clock()
        cache.match(request)
        again += clock() - t0
    cost = clock_cost(prepared.subject)
    calls = len(prepared.prompts)
    each = {name: max(seconds / calls - cost, 1e-9) for name, seconds in spent.items()}
    each["rematch"] = max(again / calls - cost, 1e-9)
    kept = _own_calls(prepared.subject)
    if "hash" in kept:
        each["match"] += each["hash"]
    if "encode" in kept:
        each["insert"] += each["encode"]
    return {name: seconds for name, seconds in each.items() if name in kept}


def _own_calls(subject: type[Subject]) -> set[str]:
    """Return the calls that do something in this subject."""
    kept = {"match", "insert", "rematch"}
    if subject.begin is not Subject.begin:
        kept.add("hash")
    if subject.encode is not Subject.encode:
        kept.add("encode")
    if subject.lock is not Subject.lock:
        kept.add("lock")
    if subject.unlock is not Subject.unlock:
        kept.add("unlock")
    return kept


def clock_cost(subject: type[Subject]) -> float:
    """Return what one pair of clock reads takes."""
    clock = subject.clock
    gaps = sorted(-(clock() - clock()) for _ in range(2_001))
    return gaps[len(gaps) // 2]
