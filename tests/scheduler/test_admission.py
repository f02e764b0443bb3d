"""The one predicate."""

from __future__ import annotations

import pytest

from radixcache import PrefixKey
from scheduler.admission import Supply, pages_of_request, refusal_of
from scheduler.request import Request, RequestState


def state(prompt: int, most: int, page_size: int, sampled: int = 0) -> RequestState:
    request = Request(
        rid="r", key=PrefixKey([1] * prompt), prompt_tokens=prompt, max_new_tokens=most
    )
    made = RequestState(request, arrival_seq=0, page_size=page_size, submitted_s=0.0)
    made.outputs.extend([1] * sampled)
    made.prefill_tokens += sampled
    return made


@pytest.mark.parametrize(
    ("prompt", "most", "page_size", "ratio", "pages"),
    [
        (16, 1, 16, 1.0, 1),  # the last token sampled has no KV
        (16, 2, 16, 1.0, 2),
        (16, 2, 16, 0.0, 1),
        (16, 0, 16, 1.0, 1),
        (50, 14, 16, 1.0, 4),
        (4, 100, 1, 0.5, 53),
    ],
)
def test_pages_of_a_request(
    prompt: int, most: int, page_size: int, ratio: float, pages: int
) -> None:
    assert pages_of_request(state(prompt, most, page_size), ratio) == pages


def test_a_retracted_request_needs_its_output_again_and_what_is_left() -> None:
    assert pages_of_request(state(4, 10, 1, sampled=3), 1.0) == 4 + 10 - 1
    assert pages_of_request(state(4, 10, 1, sampled=3), 0.0) == 4 + 3


def test_a_hit_is_supply_only_once() -> None:
    supply = Supply(free_pages=0, evictable_pages=5, reserved_pages=0)
    assert refusal_of("r", 6, 2, 2, supply) == ("r", 4, 3)
    assert refusal_of("r", 5, 2, 2, supply) is None
    # A hit that others pin already takes nothing away.
    assert refusal_of("r", 7, 2, 0, supply) is None


def test_what_is_promised_to_others_is_not_available() -> None:
    assert refusal_of("r", 3, 0, 0, Supply(4, 0, 2)) == ("r", 3, 2)
