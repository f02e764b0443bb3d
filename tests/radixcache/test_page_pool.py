"""PagePool: every id is free or in use, and freed once."""

from __future__ import annotations

import pytest

from radixcache import ConfigError, IntegrityError, OutOfPagesError, PageError, PagePool


def test_ids_go_out_in_order_and_the_last_freed_first() -> None:
    pool = PagePool(5)
    pages = pool.allocate(4)
    assert (list(pages), pages.typecode) == ([0, 1, 2, 3], "i")
    pool.free(pages[:2])
    assert list(pool.allocate(3)) == [0, 1, 4]
    pool.check()


def test_memory_follows_use_and_not_capacity() -> None:
    pool = PagePool(2**31 - 1)
    assert list(pool.allocate(2)) == [0, 1]
    assert pool.free_pages == 2**31 - 3
    pool.free([0])
    pool.check()
    assert list(pool.allocate(2)) == [0, 2]


def test_too_many_are_refused_whole() -> None:
    pool = PagePool(3)
    pool.allocate(1)
    with pytest.raises(OutOfPagesError, match="3 pages were asked for and 2 of 3 are free"):
        pool.allocate(3)
    assert pool.free_pages == 2
    assert list(pool.allocate(0)) == []
    for wrong in (-1, 1.5, True):
        with pytest.raises(PageError, match="num_pages"):
            pool.allocate(wrong)


@pytest.mark.parametrize("pages", [[0, 0], [0, 3], [2], [-1], [0, 99]])
def test_a_wrong_free_changes_nothing(pages: list[int]) -> None:
    pool = PagePool(4)
    pool.allocate(2)
    with pytest.raises(PageError):
        pool.free(pages)
    assert pool.in_use() == {0, 1}
    assert pool.free_pages == 2
    pool.check()


def test_a_double_free_is_found() -> None:
    pool = PagePool(2)
    pages = pool.allocate(2)
    pool.free(pages)
    with pytest.raises(PageError, match="not in use"):
        pool.free(pages)


@pytest.mark.parametrize("capacity", [0, -1, 1.0, True, 2**31, None])
def test_a_capacity_is_a_positive_int(capacity: object) -> None:
    with pytest.raises(ConfigError, match="capacity_pages"):
        PagePool(capacity)


def test_check_finds_a_lost_page() -> None:
    pool = PagePool(2)
    pool.allocate(1)
    pool._in_use.clear()
    with pytest.raises(IntegrityError):
        pool.check()
