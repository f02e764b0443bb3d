import math

import numpy as np
import pytest

from radixcache import PrefixKey
from radixcache.errors import ConfigError
from scheduler.request import Request
from scheduler.sim import arrivals


def requests(*times):
    return [
        Request(
            rid=str(i),
            key=PrefixKey([1, 2, 3]),
            prompt_tokens=3,
            max_new_tokens=1,
            arrival_s=t,
        )
        for i, t in enumerate(times)
    ]


def test_rate_scale_gives_the_mean_rate():
    rows = requests(10, 11, 14)
    scaled = arrivals.scaled(rows, arrivals.rate_time_scale(rows, 4))
    assert [r.arrival_s for r in scaled] == pytest.approx([0, 0.125, 0.5])


def test_load_scale_makes_the_optimum_busy_that_share_of_the_span():
    rows = requests(0, 100)
    factor = arrivals.load_time_scale(rows, 0.5, optimal_prefill_tokens=1000, tokens_per_s=20)
    assert factor * 100 == pytest.approx((1000 / 20) / 0.5)


def test_one_moment_has_no_scale():
    rows = requests(5, 5)
    with pytest.raises(ConfigError, match="Poisson"):
        arrivals.rate_time_scale(rows, 1)
    with pytest.raises(ConfigError, match="Poisson"):
        arrivals.load_time_scale(rows, 1, 10, 10)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_rates_and_loads_must_be_positive(bad):
    rows = requests(0, 1)
    with pytest.raises(ConfigError, match="above 0"):
        arrivals.rate_time_scale(rows, bad)
    with pytest.raises(ConfigError, match="above 0"):
        arrivals.load_time_scale(rows, bad, 10, 10)
    with pytest.raises(ConfigError, match="above 0"):
        arrivals.poisson(rows, bad, np.random.default_rng(0))


def test_poisson_keeps_order_and_repeats_with_its_seed():
    rows = requests(*[0.0] * 500)
    one = arrivals.poisson(rows, 8, np.random.default_rng(3))
    two = arrivals.poisson(rows, 8, np.random.default_rng(3))
    assert [r.arrival_s for r in one] == [r.arrival_s for r in two]
    assert [r.rid for r in one] == [r.rid for r in rows]
    assert sorted(r.arrival_s for r in one) == [r.arrival_s for r in one]
    assert one[-1].arrival_s == pytest.approx(500 / 8, rel=0.2)


def test_no_requests_scale_to_none():
    assert arrivals.scaled([], 2.0) == []
    assert arrivals.recorded_span_s([]) == 0
