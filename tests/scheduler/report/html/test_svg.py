"""SVG: elements are well-formed whatever text they are given; labels find room."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.report.html.series import marker, series_class, shown_name, spread
from scheduler.report.html.svg import element, number, picture, polyline, text
from scheduler.report.html.text import printable


@given(st.text(alphabet=st.characters()), st.text(alphabet=st.characters()))
def test_any_text_is_kept_as_it_shows(content: str, attribute: str) -> None:
    root = ET.fromstring(element("text", content, class_=attribute))
    assert (root.text or "") == printable(content).replace("\r", "\n")
    assert root.attrib["class"] == printable(attribute).replace("\n", " ").replace("\t", " ")


def test_a_script_is_text() -> None:
    made = text(1, 2, "</text><script>alert(1)</script>")
    assert "<script" not in made
    assert ET.fromstring(made).text == "</text><script>alert(1)</script>"


def test_numbers_are_short_and_finite() -> None:
    assert [number(v) for v in (1.0, 1.25, -0.04, 1e3)] == ["1", "1.2", "0", "1000"]
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="no coordinate"):
            number(value)


def test_a_line_of_one_point_is_a_dot_and_of_none_nothing() -> None:
    assert polyline([[(1, 2)]], "l") == '<path d="M1 2h.01" class="l"/>'
    assert polyline([[(1, 2), (3, 4)], []], "l") == '<path d="M1 2 3 4" class="l"/>'
    assert polyline([], "l") == '<path d="" class="l"/>'


def test_a_picture_is_named_by_its_title_and_description() -> None:
    svg = ET.fromstring(
        picture([], width=10, height=5, name="a", title="Hits & misses", about="<none>")
    )
    assert svg.attrib["role"] == "img"
    title, about = svg
    assert svg.attrib["aria-labelledby"].split() == [title.attrib["id"], about.attrib["id"]]
    assert (title.text, about.text) == ("Hits & misses", "<none>")


@given(st.lists(st.floats(-50, 250), max_size=30), st.floats(1, 30))
def test_spread_labels_keep_their_order_distance_and_room(wanted: list[float], gap: float) -> None:
    places = spread(wanted, gap, 0, 200)
    gap = min(gap, 200 / max(1, len(wanted) - 1))
    assert all(-1e-6 <= place <= 200 + 1e-6 for place in places)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    for a, b in pairwise(order):
        assert places[b] - places[a] >= gap - 1e-6


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([100, 20, 60], 15, 0, 200) == [100, 20, 60]


def test_neighbours_differ_in_more_than_colour() -> None:
    classes = [series_class(i) for i in range(35)]
    assert len(set(classes)) == 35
    for i in range(34):
        assert classes[i].split()[1] != classes[i + 1].split()[1]
    shapes = {marker(i, 0, 0).split(" class")[0] for i in range(5)}
    assert len(shapes) == 5
    assert shown_name("x" * 99) == "x" * 13 + "…" + "x" * 12
