"""Tree of thought: problems whose partial solutions are sampled, chosen and extended."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from radixcache import KeyKind, PrefixKey
from scheduler.request import Request
from scheduler.trace.sessions import OUTPUT_TOKEN_S, merged
from scheduler.trace.workload import Workload, check_sizes, counted, poisson, random_tokens

__all__ = ["tree"]

MAX_THOUGHT = 128
CHOICE_S = 0.1


def tree(
    seed: int,
    *,
    problems: int = 40,
    branches: int = 4,
    beam: int = 4,
    depth: int = 4,
    rate_per_s: float = 1.0,
) -> Workload:
    """Make trees of thought: every kept node is sampled ``branches`` times, ``beam`` are kept.

    1,200 tokens of instructions shared by all problems, a question of 50-200, then levels:
    16 tokens that ask for a step and a thought of 32-128 tokens, both part of every prompt
    below. A level starts when all answers of the one above are there. Raises: ConfigError.
    Ref: Tree of Thoughts with breadth-first search, arXiv 2305.10601.
    """
    sizes = {"problems": problems, "branches": branches, "beam": beam, "depth": depth}
    check_sizes(seed, rate_per_s=rate_per_s, **sizes)
    nodes = sum(branches * width for width in _widths(branches, beam, depth))

    def streams() -> Iterator[tuple[float, Iterator[Request]]]:
        rng = np.random.default_rng(seed)
        shared = random_tokens(rng, 1200)
        asks = [random_tokens(rng, 16) for _ in range(depth)]
        start_s = 0.0
        for index in range(problems):
            start_s += float(rng.exponential(nodes / rate_per_s))
            root = shared + random_tokens(rng, int(rng.integers(50, 201)))
            own = np.random.default_rng([seed, index])
            yield start_s, _levels(own, f"tree {index}", root, asks, branches, beam, start_s)

    return Workload(
        format="tree",
        title=f"{problems} trees of thought, {nodes} thoughts each",
        assumptions=(
            poisson("problems", nodes / rate_per_s),
            f"a level starts {CHOICE_S:g} s after the last answer above it, at "
            f"{OUTPUT_TOKEN_S * 1000:g} ms a token, whatever the replayed server does",
        ),
        make=lambda summary: counted(merged(streams()), summary),
    )


def _widths(branches: int, beam: int, depth: int) -> Iterator[int]:
    """Yield the nodes that are extended on each level."""
    width = 1
    for _ in range(depth):
        yield width
        width = min(beam, width * branches)


def _levels(
    rng: np.random.Generator,
    name: str,
    root: bytes,
    asks: list[bytes],
    branches: int,
    beam: int,
    start_s: float,
) -> Iterator[Request]:
    """Yield the thoughts of one problem, level by level."""
    frontier = [root]
    for level, ask in enumerate(asks):
        children = []
        longest = 0
        for node, path in enumerate(frontier):
            key = PrefixKey.from_packed(path + ask, KeyKind.TOKENS)
            for branch in range(branches):
                length = int(rng.integers(32, MAX_THOUGHT + 1))
                thought = random_tokens(rng, length)
                longest = max(longest, length)
                children.append(path + ask + thought)
                yield Request(
                    rid=f"{name}/{level + 1}.{node * branches + branch + 1}",
                    key=key,
                    prompt_tokens=len(key),
                    max_new_tokens=MAX_THOUGHT,
                    arrival_s=start_s,
                    client_id=name,
                    recorded_output_tokens=length,
                    recorded_output_ids=tuple(np.frombuffer(thought, dtype="<u4").tolist()),
                )
        kept = np.sort(rng.permutation(len(children))[:beam])
        frontier = [children[index] for index in kept]
        start_s += longest * OUTPUT_TOKEN_S + CHOICE_S
