"""Single operations of the cache over depth, fan-out, edge length and page size; key packing.

    python -m bench micro

One shape is varied at a time around depth 4 (nodes on a path), fan-out 64, edges of 4 pages,
pages of 16 tokens. A turn builds the chains above the leaves, then times, over 256 keys of one
leaf each: insert of the leaf, peek, match, release, inc_lock_ref + dec_lock_ref, and evict one
leaf a call. Packing is per token.
"""

from __future__ import annotations

import importlib
import random
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from bench.runner import OURS, Options, Results, alternate, cpu_seconds, parse_options, per_call
from radixcache import KeyKind, PrefixHandle, PrefixKey, RadixCache

__all__ = ["Shape", "run", "shape_turn"]

LEAVES = 256
PACKED_TOKENS = (16, 4_096)


class Shape(NamedTuple):
    """The tree that the operations meet."""

    depth_nodes: int = 4
    fan_out: int = 64
    edge_pages: int = 4
    page_size: int = 16

    @property
    def label(self) -> str:
        return (
            f"depth {self.depth_nodes}, fan-out {self.fan_out}, "
            f"edge {self.edge_pages}, page {self.page_size}"
        )


def shapes() -> Iterator[Shape]:
    """Yield the base shape and each variation once."""
    base = Shape()
    seen = set()
    for field, values in (
        ("depth_nodes", (1, 4, 16, 64)),
        ("fan_out", (1, 16, 64, 256)),
        ("edge_pages", (1, 4, 64, 512)),
        ("page_size", (1, 16, 64, 256)),
    ):
        for value in values:
            shape = base._replace(**{field: value})
            if shape not in seen:
                seen.add(shape)
                yield shape


def leaf_keys(shape: Shape, seed: int) -> list[list[PrefixKey]]:
    """Return for each chain its keys: the chain, grown node by node, then its leaves."""
    rng = random.Random(seed)
    edge_bytes = 4 * shape.page_size * shape.edge_pages
    chains = []
    for _ in range(max(1, LEAVES // shape.fan_out)):
        chain = [rng.randbytes(edge_bytes * (shape.depth_nodes - 1))]
        keys = [chain[0][: edge_bytes * (node + 1)] for node in range(shape.depth_nodes - 1)]
        keys += [chain[0] + rng.randbytes(edge_bytes) for _ in range(shape.fan_out)]
        chains.append([PrefixKey.from_packed(data, KeyKind.TOKENS) for data in keys])
    return chains


def shape_turn(shape: Shape, chains: list[list[PrefixKey]]) -> dict[str, float]:
    """Build the tree and time each operation on it."""
    cache = RadixCache(shape.page_size)
    table = array("i", range(shape.depth_nodes * shape.edge_pages))
    inner = shape.depth_nodes - 1
    for chain in chains:
        for key in chain[:inner]:
            cache.release(cache.insert(key, table).handle)
    leaves = [(key,) for chain in chains for key in chain[inner:]]
    spent = {}
    handles: list[PrefixHandle] = []
    start = cpu_seconds()
    for (key,) in leaves:
        handles.append(cache.insert(key, table).handle)
    spent["insert"] = (cpu_seconds() - start) / len(leaves)
    for handle in handles:
        cache.release(handle)
    spent["peek"] = per_call(cache.peek, leaves)
    start = cpu_seconds()
    handles = [cache.match(key) for (key,) in leaves]
    spent["match"] = (cpu_seconds() - start) / len(leaves)
    spent["release"] = per_call(cache.release, [(handle,) for handle in handles])
    nodes = [(cache.match_prefix(key).last_node,) for (key,) in leaves]
    spent["inc_lock_ref"] = per_call(cache.inc_lock_ref, nodes)
    spent["dec_lock_ref"] = per_call(cache.dec_lock_ref, nodes)
    spent["evict a leaf"] = per_call(cache.evict, [(shape.edge_pages,)] * len(leaves))
    return spent


def token_forms(tokens: list[int]) -> Iterator[tuple[str, Any]]:
    """Yield the forms in which an engine may hold token ids."""
    yield "list", tokens
    yield "tuple", tuple(tokens)
    yield "array('q')", array("q", tokens)
    yield "array('I')", array("I", tokens)
    numpy = importlib.import_module("numpy")
    yield "numpy int64", numpy.array(tokens, numpy.int64)
    yield "numpy int32", numpy.array(tokens, numpy.int32)
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return
    yield "torch int64", torch.tensor(tokens)


def run(options: Options) -> Results:
    """Measure the shapes, then the packing."""
    results = Results(options)
    for shape in shapes():
        turn = partial(shape_turn, shape, leaf_keys(shape, options.seed))
        found = alternate(options.rounds, {OURS: turn})
        results.add_group(found, shape.label, **shape._asdict())
    rng = random.Random(options.seed)
    for count in PACKED_TOKENS:
        forms = list(token_forms([rng.randrange(128_000) for _ in range(count)]))
        if not any(name.startswith("torch") for name, _ in forms):
            results.skip("packing from torch: it is not installed")
        for name, tokens in forms:
            pack = partial(per_call, PrefixKey, [(tokens,)] * max(4, 200_000 // count))
            found = alternate(options.rounds, {OURS: partial(_per_token, pack, count)})
            results.add_group(found, f"{name}, {count} tokens", form=name, tokens=count)
    return results


def _per_token(pack: Callable[[], float], count: int) -> dict[str, float]:
    return {"pack a token": pack() / count}


if __name__ == "__main__":
    run(parse_options("micro")).save()
