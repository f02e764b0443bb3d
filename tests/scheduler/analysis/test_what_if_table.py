"""The answer of a what-if as people read it."""

from __future__ import annotations

from dataclasses import replace

from scheduler.analysis.changes import PageSize, Pin, Replicas
from scheduler.analysis.edits import Salt
from scheduler.analysis.pins import PinnedPrefix, Pins
from scheduler.analysis.what_if import what_if
from scheduler.analysis.what_if_table import format_what_if, what_if_csv, what_if_json
from tests.models.optimal_model import Ask
from tests.models.what_if_model import Call, as_requests

CALLS = [Call(Ask((0, 1, 2, number))) for number in range(4)] + [Call(Ask((0, 1)), tenant="a")]
CHANGES = [
    PageSize(2),
    Salt("tenant"),
    Pin(Pins((PinnedPrefix("0", 3),))),
    Replicas(2, "round-robin"),
]
ANSWER = what_if(as_requests(CALLS), CHANGES, page_size=1, capacity_tokens=8)


def test_a_row_is_a_line_and_what_has_no_column_a_sentence() -> None:
    text = format_what_if(ANSWER)
    assert text.startswith("""\
                                 page  hit cold  change  hit warm     hit  evicted  ceiling  optimum
                               tokens         %  points         %  tokens    pages        %        %
as it is                            1     55.56       -     70.00      10        0    55.56    61.11
page size 2                         2     33.33  -22.22     40.00       6        1    33.33    44.44
salt by tenant                      1     50.00   -5.56     60.00       9        1    50.00    50.00
pin 0:3                             1     55.56    0.00     70.00      10        0    55.56    61.11
2 replicas, round-robin             1     38.89  -16.67     70.00       7        0    55.56    61.11
one cache of 2x                     1     55.56    0.00     70.00      10        0    55.56    61.11
all together                        2     22.22  -33.33     40.00       4        0    33.33    33.33
all together, one cache of 2x       2     33.33  -22.22     40.00       6        0    33.33    33.33

salt by tenant: concerns 1 of 5 requests.
pin 0:3: 3 of the 8 pages are kept for pinned prefixes.
2 replicas, round-robin: -16.67 points against one cache of 2x, the busiest replica computes 1.09x
the mean.
""")
    assert text.endswith("best order there is.\n")
    assert "Each cache has 8 tokens (lru eviction)." in text
    assert "~" not in text


def test_an_estimate_is_marked() -> None:
    rough = replace(ANSWER.rows[0], exact=False, ceiling_hit_rate=None)
    text = format_what_if(replace(ANSWER, rows=(rough, *ANSWER.rows[1:])))
    assert "0        -   ~61.11" in text
    assert "~: estimated, within 1.3 points" in text


def test_the_same_answer_gives_the_same_bytes() -> None:
    again = what_if(as_requests(CALLS), CHANGES, page_size=1, capacity_tokens=8)
    assert what_if_json(again, command="c") == what_if_json(ANSWER, command="c")
    assert what_if_csv(again) == what_if_csv(ANSWER)


def test_an_empty_answer_has_dashes() -> None:
    empty = what_if([], [Replicas(2, "prefix")], page_size=1, capacity_tokens=8)
    assert "2 replicas, prefix: -." in format_what_if(empty)
    assert '"cold_hit_rate": null' in what_if_json(empty, command="c")
