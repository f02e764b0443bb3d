"""The report of an explanation: its parts add up, its texts are quoted, its tree is the trace's."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from radixcache import PrefixKey
from scheduler.analysis.explanation import Explanation, explain
from scheduler.analysis.explanation_html import explanation_page
from scheduler.report.html.page import render_html
from scheduler.request import Request
from tests.models.report_reading import pictures, read_page

SYSTEM = range(1, 41)
HOSTILE = '"<script>alert(1)</script>\u202e"'


def dated(count: int = 30) -> list[Request]:
    """Return prompts with a number of their own in front of a common text."""
    prompts = (
        [7, 8, 1_000 + i, *SYSTEM, *range(5_000 + 9 * i, 5_009 + 9 * i)] for i in range(count)
    )
    return [made(i, prompt) for i, prompt in enumerate(prompts)]


def branching() -> list[Request]:
    """Return three prompts that go on from one text, each sent four times."""
    prompts = [[*SYSTEM, *range(100 * k, 100 * k + 20)] for k in (1, 2, 3)]
    return [made(i, prompts[i % 3]) for i in range(12)]


def blocks() -> list[Request]:
    keys = [PrefixKey.from_block_ids([1, 2, i % 3], 4) for i in range(9)]
    return [
        Request(rid=str(i), key=key, prompt_tokens=12, max_new_tokens=1)
        for i, key in enumerate(keys)
    ]


def made(i: int, prompt: Iterable[int]) -> Request:
    tokens = list(prompt)
    return Request(rid=str(i), key=PrefixKey(tokens), prompt_tokens=len(tokens), max_new_tokens=1)


def explained(requests: list[Request], capacity_pages: int | None = 40) -> Explanation:
    return explain(
        lambda: requests, 4, capacity_pages=capacity_pages, quote=lambda data, kind: HOSTILE
    )


def page(of: Explanation) -> str:
    return render_html(
        explanation_page(of, subject="<trace>", command="radixcache explain", version="1")
    )


CASES = {
    "dated": explained(dated()),
    "branching": explained(branching()),
    "small": explained(branching(), capacity_pages=16),
    "unbounded": explained(branching(), capacity_pages=None),
    "blocks": explained(blocks()),
    "nothing": explained([]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_well_formed_and_the_same_again(name: str) -> None:
    html = page(CASES[name])
    read = read_page(html)
    assert read.unclosed == []
    assert read.requests == []
    assert "<script" not in html
    assert "\u202e" not in html
    assert html == page(CASES[name])
    for section in explanation_page(CASES[name], subject="", command="", version="").sections:
        for figure in section.figures:
            assert len(pictures(figure)) == 2


@pytest.mark.parametrize("name", CASES)
def test_the_waterfall_adds_up_to_all_prompt_tokens(name: str) -> None:
    waterfall = CASES[name].waterfall
    rows = read_page(page(CASES[name])).tables["Prompt tokens by what became of them"][1:]
    tokens = [int(row[1].replace(",", "")) for row in rows]
    assert sum(tokens[:-1]) == tokens[-1] == waterfall.prompt_tokens
    assert tokens[0] == waterfall.hit_tokens
    shares = [row[2].removesuffix("\N{NO-BREAK SPACE}%") for row in rows]
    if waterfall.prompt_tokens:
        hundredths = [round(100 * float(share)) for share in shares]
        assert sum(hundredths[:-1]) == hundredths[-1] == 10_000


def test_every_part_is_defined() -> None:
    (figure,) = (
        explanation_page(CASES["dated"], subject="", command="", version="").sections[0].figures
    )
    assert len(figure.definitions) == len(figure.table.rows) - 1
    assert all(definition.doc for definition in figure.definitions)


def test_a_diverging_place_stands_with_its_gain() -> None:
    (place,) = CASES["dated"].places or ()
    (row,) = read_page(page(CASES["dated"])).tables["Diverging places, the costliest first"][1:]
    assert row[1] == str(place.start_tokens) == "2"
    assert place.hit_rate_after is not None
    assert row[-2] == f"{100 * place.hit_rate_after:.2f}"


def test_the_tree_hangs_what_goes_on_below_what_it_goes_on_from() -> None:
    rows = read_page(page(CASES["branching"])).tables["Shared prefixes, in the order of the tree"][
        1:
    ]
    assert [row[0].startswith("· ") for row in rows] == [False, True, True, True]
    assert [row[1:4] for row in rows] == [["0", "40", "12"], *([["40", "60", "4"]] * 3)]


def test_it_is_said_why_there_are_no_places() -> None:
    assert "block ids and no tokens" in read_page(page(CASES["blocks"])).text
    assert "None whose repair would gain" in read_page(page(CASES["branching"])).text
    assert "There is no prompt token to explain" in read_page(page(CASES["nothing"])).text
