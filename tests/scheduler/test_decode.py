"""Decode steps: positions are int32, whatever memory and limits are asked for."""

from __future__ import annotations

import pytest

from radixcache import InvalidInputError
from tests.models.scheduler_driver import SchedulerDriver

UNLIMITED = 2**63 - 1


def test_a_pool_may_hold_more_tokens_than_an_int32() -> None:
    d = SchedulerDriver(2**22, page_size=2**10, max_tokens_per_step=4)
    d.submit("r", [1, 2, 3], max_new_tokens=3)
    d.run()
    assert d.ended == {"r": "length"}


@pytest.mark.parametrize(("most", "end"), [(9, "length"), (UNLIMITED, "capacity")])
def test_an_output_without_limit_ends_at_the_capacity(most: int, end: str) -> None:
    d = SchedulerDriver(16, output_reserve_ratio=0.0)
    d.submit("r", [1, 2, 3], max_new_tokens=most)
    d.run()
    assert d.ended == {"r": end}
    assert d.all_back


def test_a_request_longer_than_positions_go_is_refused() -> None:
    d = SchedulerDriver(16)
    with pytest.raises(InvalidInputError, match="max_new_tokens"):
        d.submit("r", [1], max_new_tokens=UNLIMITED + 1)
    with pytest.raises(InvalidInputError, match="prompt_tokens"):
        d.submit("r", [1], prompt_tokens=2**30)
