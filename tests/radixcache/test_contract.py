"""What every PrefixCache keeps, whatever it caches: one suite over all implementations."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
import pytest

from radixcache import (
    ConfigError,
    HandleError,
    InvalidInputError,
    KeyKind,
    KeyKindError,
    Namespace,
    NullCache,
    PageError,
    PrefixCache,
    PrefixKey,
    RadixCache,
)
from tests.models.residency_log import ResidencyLog

IMPLEMENTATIONS: list[Callable[..., PrefixCache]] = [RadixCache, NullCache]


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda made: made.__name__)
def make(request: pytest.FixtureRequest) -> Callable[..., PrefixCache]:
    return request.param


def key(*tokens: int) -> PrefixKey:
    return PrefixKey(tokens)


def test_an_empty_cache_finds_nothing(make: Callable[..., PrefixCache]) -> None:
    cache = make(4)
    assert cache.peek(key(*range(9))) == (0, 0)
    handle = cache.match(key(*range(9)))
    assert handle.prefix_tokens == 0
    assert list(handle.pages) == []
    assert cache.size == (0, 0)
    assert list(cache.evict(5)) == []
    cache.release(handle)
    cache.check()


def test_lengths_are_whole_pages(make: Callable[..., PrefixCache]) -> None:
    cache = make(4)
    result = cache.insert(key(*range(11)), [0, 1])
    assert result.cached_tokens == result.handle.prefix_tokens
    assert result.cached_tokens in (0, 8)
    for length in range(12):
        handle = cache.match(key(*range(length)))
        assert handle.prefix_tokens % 4 == 0
        assert handle.prefix_tokens <= length
        assert len(handle.pages) * 4 == handle.prefix_tokens
        assert cache.peek(key(*range(length))).prefix_tokens == handle.prefix_tokens
    cache.check()


def test_a_limit_is_floored_and_a_negative_one_refused(make: Callable[..., PrefixCache]) -> None:
    cache = make(4)
    result = cache.insert(key(*range(12)), [0, 1], limit_tokens=11)
    assert result.cached_tokens in (0, 8)
    for limit, at_most in ((0, 0), (3, 0), (7, 4), (8, 8), (100, 8)):
        assert cache.match(key(*range(12)), limit).prefix_tokens in (0, at_most)
        assert cache.peek(key(*range(12)), limit).prefix_tokens in (0, at_most)
    for call in (cache.peek, cache.match):
        with pytest.raises(InvalidInputError, match="limit_tokens is -1"):
            call(key(1), -1)
    with pytest.raises(InvalidInputError, match="limit_tokens is -1"):
        cache.insert(key(1), [], -1)


def test_a_key_below_a_page_caches_nothing(make: Callable[..., PrefixCache]) -> None:
    cache = make(4)
    result = cache.insert(key(1, 2, 3), [])
    assert result.cached_tokens == 0
    assert cache.size == (0, 0)
    cache.release(result.handle)
    cache.check()


def test_no_page_is_lost(make: Callable[..., PrefixCache]) -> None:
    cache = make(2)
    held = {10, 11, 12}
    result = cache.insert(key(*range(6)), [10, 11, 12])
    kept = set([10, 11, 12][: result.cached_tokens // 2])
    again = cache.insert(key(*range(4)), [20, 21])
    returned = set(again.duplicate_pages) | set([20, 21][again.cached_tokens // 2 :])
    assert returned == {20, 21}
    cache.release(result.handle)
    cache.release(again.handle)
    assert set(cache.evict(100)) == kept
    assert kept <= held


def test_release_is_idempotent_and_a_foreign_handle_an_error(
    make: Callable[..., PrefixCache],
) -> None:
    cache, other = make(1), make(1)
    handle = cache.insert(key(1, 2), [0, 1]).handle
    with pytest.raises(HandleError, match="another cache"):
        other.release(handle)
    assert not handle.released
    with pytest.raises(HandleError, match="no handle"):
        cache.release(None)
    cache.release(handle)
    cache.release(handle)
    assert handle.released
    with pytest.raises(HandleError, match="released"):
        handle.pages
    assert "released" in repr(handle)
    cache.check()


def test_wrong_keys_pages_and_counts_change_nothing(make: Callable[..., PrefixCache]) -> None:
    cache = make(2)
    cache.insert(key(1, 2, 3, 4), [0, 1])
    before = cache.size
    wide = PrefixKey([1, 2, 3, 4], wide=True)
    for bad in (wide, PrefixKey.from_block_ids([1], 2), [1, 2]):
        for call in (cache.peek, cache.match, lambda k: cache.insert(k, [0, 1])):
            with pytest.raises(KeyKindError):
                call(bad)
    for pages in (
        [5],
        b"ab",
        [5, -1],
        [5, 2**31],
        [5, 1.5],
        [5, True],
        [5, "x"],
        array("i", [5, -1]),
    ):
        with pytest.raises(PageError):
            cache.insert(key(9, 9, 9, 9), pages)
    for count in (-1, 1.5, True):
        with pytest.raises(InvalidInputError):
            cache.evict(count)
    for limit in (-1, 1.5, float("nan"), True, "2"):
        for call in (cache.peek, cache.match, lambda k, limit: cache.insert(k, [5], limit)):
            with pytest.raises(InvalidInputError, match="limit_tokens"):
                call(key(9, 9), limit)
    with pytest.raises(InvalidInputError):
        cache.insert(key(9, 9), [5], None, "high")
    for space in (None, "x", ("x", None, None)):
        with pytest.raises(InvalidInputError, match="namespace"):
            cache.drop_namespace(space)
    assert cache.size == before
    cache.check()


@pytest.mark.parametrize(
    "pages", [[3, 4], (3, 4), array("i", [3, 4]), array("q", [3, 4]), np.array([3, 4])]
)
def test_page_ids_come_in_any_sequence(make: Callable[..., PrefixCache], pages: object) -> None:
    handle = make(1).insert(key(1, 2), pages).handle
    assert list(handle.pages) == [3, 4][: handle.prefix_tokens]


@pytest.mark.parametrize("kind", list(KeyKind))
def test_a_cache_holds_one_kind_of_key(make: Callable[..., PrefixCache], kind: KeyKind) -> None:
    keys = {
        KeyKind.TOKENS: PrefixKey([1, 2, 3, 4]),
        KeyKind.WIDE: PrefixKey([1, 2, 3, 4], wide=True),
        KeyKind.BLOCKS: PrefixKey.from_block_ids([1, 2], 2),
    }
    cache = make(2, kind=kind)
    assert cache.kind is kind
    assert cache.page_size == 2
    for other, made in keys.items():
        if other is kind:
            assert cache.insert(made, [0, 1]).cached_tokens in (0, 4)
            assert cache.match(made).prefix_tokens in (0, 4)
        else:
            with pytest.raises(KeyKindError, match=kind.value):
                cache.match(made)
    if kind is KeyKind.BLOCKS:
        with pytest.raises(KeyKindError, match="page size 4"):
            cache.match(PrefixKey.from_block_ids([1], 4))
    cache.check()


def test_reset_and_drop_tell_one_clear_each(make: Callable[..., PrefixCache]) -> None:
    cache = make(2)
    log = ResidencyLog(2, 8)
    cache.add_observer(log)
    cache.release(cache.insert(key(1, 2), [0]).handle)
    log.calls.clear()
    assert cache.drop_namespace(Namespace.of("other")).done
    assert cache.generation == 0
    assert cache.reset().done
    assert cache.generation == 1
    assert [call[0] for call in log.calls] == ["cleared", "cleared"]
    cache.remove_observer(log)
    cache.reset()
    assert len(log.calls) == 2
    with pytest.raises(InvalidInputError, match="does not observe"):
        cache.remove_observer(log)


def test_a_handle_of_an_older_generation_releases_to_nothing(
    make: Callable[..., PrefixCache],
) -> None:
    cache = make(1)
    old = cache.insert(key(1, 2), [0, 1]).handle
    cache.reset(force=True)
    new = cache.insert(key(1, 2), [2, 3]).handle
    with pytest.raises(HandleError, match="reset"):
        old.pages
    cache.release(old)
    cache.check()
    assert len(new.pages) == new.prefix_tokens


@pytest.mark.parametrize("page_size", [0, -1, 1.5, True, "4", None])
def test_a_page_size_is_a_positive_int(make: Callable[..., PrefixCache], page_size: object) -> None:
    with pytest.raises(ConfigError, match="page_size"):
        make(page_size)
    with pytest.raises(ConfigError, match="kind"):
        make(1, kind="tokens")
