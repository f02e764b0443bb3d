from __future__ import annotations

import pytest

from radixcache import PrefixKey
from radixcache.errors import InvalidInputError
from scheduler.request import Request
from scheduler.samples import fan_out
from tests.models.scheduler_driver import SchedulerDriver


def asked(samples: int, prompt_tokens: int = 10, **fields: object) -> Request:
    return Request(
        rid="r",
        key=PrefixKey(range(prompt_tokens)),
        prompt_tokens=prompt_tokens,
        max_new_tokens=4,
        samples=samples,
        recorded_output_ids=(90, 91, 92),
        **fields,  # type: ignore[arg-type]
    )


def test_each_sample_is_a_request_of_its_own() -> None:
    first, *others = fan_out(asked(3))
    assert [r.rid for r in (first, *others)] == ["r", "r#2", "r#3"]
    assert first.recorded_output_ids == (90, 91, 92)
    assert {r.recorded_output_ids for r in others} == {None}
    assert {r.recorded_output_tokens for r in others} == {3}
    assert {r.samples for r in (first, *others)} == {1}
    assert all(r.key is first.key for r in others)


def test_one_sample_is_the_request_itself() -> None:
    request = asked(1)
    assert fan_out(request) == (request,)
    assert fan_out(request)[0] is request


def test_a_scheduler_takes_one_sample_at_a_time() -> None:
    driver = SchedulerDriver(32)
    with pytest.raises(InvalidInputError, match=r"fan_out\(request\)"):
        driver.scheduler.submit(asked(2), 0.0)
    assert driver.scheduler.is_idle


@pytest.mark.parametrize("prompt_tokens", [7, 8, 9, 10])
@pytest.mark.parametrize("config", [{"hold": "stop"}, {"hold": "off", "publish": "schedule"}])
def test_the_prompt_is_computed_once_but_for_the_last_page(
    prompt_tokens: int, config: dict[str, object]
) -> None:
    driver = SchedulerDriver(64, page_size=4, **config)
    for sample in fan_out(asked(4, prompt_tokens)):
        driver.scheduler.submit(sample, 0.0)
        driver.states[sample.rid] = driver.scheduler.state_of(sample.rid)
    prefilled = 0
    while not driver.scheduler.is_idle:
        prefilled += driver.step().prefill_tokens
    tail = prompt_tokens - (prompt_tokens - 1) // 4 * 4
    # The ideal computes the prompt once; the others add their last page, up to 4 tokens each.
    assert prefilled == prompt_tokens + 3 * tail
    assert [s.hit_tokens for s in driver.states.values()] == [0, *[prompt_tokens - tail] * 3]
    assert driver.all_back


def test_a_prompt_with_log_probabilities_matches_nothing_and_is_cached() -> None:
    driver = SchedulerDriver(64, page_size=4)
    driver.serve("warm", range(12))
    assert driver.serve("probabilities", range(12), max_match_tokens=0) == 12
    assert driver.states["probabilities"].hit_tokens == 0
    assert driver.serve("again", range(12)) == 4
    assert driver.all_back
