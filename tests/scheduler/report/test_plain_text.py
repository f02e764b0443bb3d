"""Percentages and columns of plain text."""

from __future__ import annotations

from scheduler.report.plain_text import columns, labelled, percent


def test_a_share_has_two_decimals() -> None:
    assert percent(0.12345) == "12.35"
    assert percent(1.0, " %") == "100.00 %"
    assert percent(None, " %") == "-"


def test_numbers_stand_at_the_right_and_names_at_the_left() -> None:
    assert columns([["name", "n", ""], ["a", "100", "x"]]) == "name    n\na     100  x\n"
    assert columns([["1", "ab"], ["10", "c"]], left=(1,)) == " 1  ab\n10  c\n"


def test_nothing_has_no_lines() -> None:
    assert columns([]) == ""


def test_what_is_said_lines_up_behind_the_longest_name() -> None:
    assert labelled([("a", "one two"), ("long", "x")]) == "a     one two\nlong  x\n"
