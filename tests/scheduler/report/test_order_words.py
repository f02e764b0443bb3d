"""What is said of the orders: all of them, also where a preset or a priority stands before."""

from __future__ import annotations

import pytest

from scheduler.registry import SCHEDULE_POLICIES
from scheduler.report.order_words import ORDER_WORDS, words_of


def test_every_built_in_order_has_words_and_no_other() -> None:
    assert set(ORDER_WORDS) == set(SCHEDULE_POLICIES)


def test_a_preset_before_an_order_or_a_guard_behind_it_changes_no_word() -> None:
    assert words_of("vllm:fcfs") == words_of("fcfs") == ORDER_WORDS["fcfs"]
    assert words_of("lpm 32768+0.5") == ORDER_WORDS["lpm"]


def test_a_priority_before_an_order_is_said_first() -> None:
    assert words_of("priority+spf") == f"Larger priority first, then: {ORDER_WORDS['spf']}"
    assert words_of("sglang:low-priority+lpm") == (
        f"Smaller priority first, then: {ORDER_WORDS['lpm']}"
    )


@pytest.mark.parametrize("label", ["", "mine", "priority+mine", "other+lpm", "lpm+"])
def test_of_other_orders_nothing_is_said(label: str) -> None:
    assert words_of(label) is None
