"""JSON and CSV of a result."""

from __future__ import annotations

import json
import math

import pytest

from scheduler.report.document import csv_text, json_text


def test_keys_are_sorted_and_numbers_share_a_line() -> None:
    text = json_text({"b": [1, 2.5, -3e-7], "a": ["[\n 1]", None]})
    assert text == '{\n  "a": [\n    "[\\n 1]",\n    null\n  ],\n  "b": [ 1, 2.5, -3e-07 ]\n}\n'
    assert json.loads(text) == {"b": [1, 2.5, -3e-7], "a": ["[\n 1]", None]}


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text({"rate": math.nan})


def test_a_missing_value_is_an_empty_cell() -> None:
    assert csv_text(["a", "b", "c"], [[None, True, 0.5], ["x,y", False, 1]]) == (
        'a,b,c\n,true,0.5\n"x,y",false,1\n'
    )
