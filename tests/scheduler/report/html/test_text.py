"""Text of a report: hostile characters show, numbers have three digits and their unit."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.report.html.text import (
    amount,
    percent,
    printable,
    seconds,
    shortened,
    text_width,
)

NBSP = "\N{NO-BREAK SPACE}"


@given(st.text(alphabet=st.characters()))
def test_every_character_shows_and_can_be_written(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character)[0] != "C"
    assert printable(shown) == shown


def test_controls_and_bidi_overrides_are_escaped() -> None:
    assert printable("a\x00b\x1b[31m") == "a\\u0000b\\u001b[31m"
    assert printable("user\u202egnp.exe") == "user\\u202egnp.exe"
    assert printable("\ud800") == "\\ud800"
    assert printable("\U000e0001") == "\\U000e0001"
    assert printable("Grüße, 日本語 🙂") == "Grüße, 日本語 🙂"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 s"),
        (0.00834, "8.34 ms"),
        (0.9999, "1 s"),
        (0.5, "500 ms"),
        (12.345, "12.3 s"),
        (1331.6, "1,332 s"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_seconds_have_three_digits(value: float | None, shown: str) -> None:
    assert seconds(value) == shown.replace(" ", NBSP)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (512, "512"), (65_536, "65.5 k"), (1_048_576, "1.05 M"), (999.6, "1 k"),
     (3e9, "3 G"), (2.5e12, "2.5 T"), (0.25, "0.25"), (None, "–"), (math.nan, "–")],
)  # fmt: skip
def test_amounts_have_a_prefix(value: float | None, shown: str) -> None:
    assert amount(value) == shown.replace(" ", NBSP)


def test_percentages_keep_their_decimals() -> None:
    assert percent(0.8407) == f"84.07{NBSP}%"
    assert percent(1.0, 0) == f"100{NBSP}%"
    assert percent(None) == percent(math.nan) == "–"


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_shortened_text_fits_and_keeps_its_ends(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= most
    if len(text) > most > 2:
        assert short[0] == text[0]
        assert short[-1] == text[-1]


def test_wider_texts_are_taken_for_wider() -> None:
    assert text_width("iii", 12) < text_width("mmm", 12)
    assert text_width("", 12) == 0
