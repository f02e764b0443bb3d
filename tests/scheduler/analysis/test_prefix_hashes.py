"""Prefix hashes: equal for equal prefixes, and for nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixcache import Namespace, PrefixKey
from scheduler.analysis.prefix_hashes import prefix_hashes

PLAIN = Namespace()
TOKENS = st.lists(st.integers(0, 2), max_size=9)


def hashes(
    tokens: list[int],
    page: int = 1,
    namespace: Namespace = PLAIN,
    seed: int = 0,
    wide: bool = False,
) -> list[int]:
    key = PrefixKey(tokens, namespace, wide=wide)
    found = prefix_hashes(key.data, key.kind.page_bytes(page), len(tokens) // page, namespace, seed)
    values: list[int] = found.tolist()
    return values


@given(TOKENS, TOKENS, st.integers(1, 3), st.booleans())
def test_hashes_agree_exactly_as_far_as_the_prefixes(
    one: list[int], two: list[int], page: int, wide: bool
) -> None:
    pairs = zip(hashes(one, page, wide=wide), hashes(two, page, wide=wide), strict=False)
    for number, (a, b) in enumerate(pairs, start=1):
        assert (a == b) == (one[: number * page] == two[: number * page])


def test_namespaces_and_seeds_have_hashes_of_their_own() -> None:
    tokens = [5, 6, 7]
    others = [
        hashes(tokens),
        hashes(tokens, seed=1),
        hashes(tokens, namespace=Namespace.of(lora="a")),
        hashes(tokens, namespace=Namespace.of(cache_salt="a")),
    ]
    assert len({value for found in others for value in found}) == 12


def test_hashes_are_the_same_in_every_process() -> None:
    assert hashes([1, 2]) == [0x7275C962BA517DF1, 0x7F352B9E489B9789]


def test_hashes_spread_evenly() -> None:
    found = hashes(list(range(10_000)))
    assert 850 < sum(value < 2**64 // 10 for value in found) < 1_150
    assert 4_800 < sum(value & 1 for value in found) < 5_200
