"""An observer that raises: the change is done, everybody is told, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import (
    Namespace,
    NullCache,
    ObserverError,
    PagePool,
    PrefixCache,
    PrefixKey,
    RadixCache,
)
from tests.models.residency_log import ResidencyLog


class Raising:
    """Raises in the calls whose numbers are given."""

    def __init__(self, bad: set[int] | None = None) -> None:
        self.bad = bad
        self.calls = 0

    def _called(self) -> None:
        self.calls += 1
        if self.bad is None or self.calls in self.bad:
            raise LookupError(f"call {self.calls}")

    def on_stored(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        self._called()

    def on_removed(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        self._called()

    def on_cleared(self, namespace: Namespace | None) -> None:
        self._called()


def observed(make: Callable[..., PrefixCache] = RadixCache) -> tuple[PrefixCache, ResidencyLog]:
    """Return a cache with a raising observer before and after one that keeps books."""
    cache = make(1)
    log = ResidencyLog(1, 4)
    for observer in (Raising(), log, Raising()):
        cache.add_observer(observer)
    return cache, log


def test_insert_gives_its_result_with_the_error() -> None:
    cache, log = observed()
    with pytest.raises(ObserverError, match="mend the observer") as caught:
        cache.insert(PrefixKey([1, 2, 3]), [0, 1, 2])
    assert isinstance(caught.value.__cause__, LookupError)
    result: Any = caught.value.result
    assert (result.cached_tokens, list(result.handle.pages)) == (3, [0, 1, 2])
    assert len(log.resident) == 3
    assert cache.size == (0, 3)
    cache.release(result.handle)
    cache.check()
    assert cache.size == (3, 0)
    # Nothing is stored, nobody is told, nobody raises.
    cache.release(cache.insert(PrefixKey([1, 2]), [0, 1]).handle)


def test_evict_gives_the_page_ids_with_the_error() -> None:
    cache, log = observed()
    for tokens, pages in (([1, 2], [0, 1]), ([3, 4], [2, 3])):
        with pytest.raises(ObserverError) as caught:
            cache.insert(PrefixKey(tokens), pages)
        cache.release(caught.value.result.handle)  # type: ignore[attr-defined]
    with pytest.raises(ObserverError) as caught:
        cache.evict(3)
    assert sorted(caught.value.result) == [0, 1, 3]  # type: ignore[call-overload]
    assert log.calls[-2:] == [("removed", 0, 2), ("removed", 1, 2)]
    cache.check()
    assert cache.size == (1, 0)


@pytest.mark.parametrize("make", [RadixCache, NullCache])
def test_reset_and_drop_are_done_although_somebody_raises(
    make: Callable[..., PrefixCache],
) -> None:
    cache, log = observed(make)
    for call in (cache.reset, lambda: cache.drop_namespace(Namespace.of("a"))):
        with pytest.raises(ObserverError) as caught:
            call()
        assert caught.value.result.done  # type: ignore[attr-defined]
    assert [name for name, _, _ in log.calls] == ["cleared", "cleared"]
    assert cache.generation == 1
    cache.check()


@given(
    bad=st.sets(st.integers(1, 30)),
    prompts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=12),
    sizes=st.lists(st.integers(0, 5), min_size=12, max_size=12),
)
def test_no_page_is_lost_whichever_calls_raise(
    bad: set[int], prompts: list[list[int]], sizes: list[int]
) -> None:
    cache, pool = RadixCache(page_size=1), PagePool(capacity_pages=64)
    log = ResidencyLog(1, 4)
    cache.add_observer(Raising(bad))
    cache.add_observer(log)

    def kept(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ObserverError as error:
            return error.result

    for tokens, size in zip(prompts, sizes, strict=False):
        key = PrefixKey(tokens)
        pages = pool.allocate(len(tokens))
        result = kept(lambda key=key, pages=pages: cache.insert(key, pages))
        # What is a duplicate is returned, but a matched page is not handed over twice.
        pool.free(result.duplicate_pages)
        cache.release(result.handle)
        cache.check()
        pool.free(kept(lambda size=size: cache.evict(size)))
        cache.check()
        assert pool.free_pages + cache.size.evictable_pages == 64
        assert len(log.resident) == cache.size.evictable_pages
