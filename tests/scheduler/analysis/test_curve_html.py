"""The report of a capacity curve: its numbers are the curve's, also of one with nothing to hit."""

from __future__ import annotations

import pytest

from radixcache import PrefixKey
from scheduler.analysis.curve_html import curve_page
from scheduler.analysis.curve_report import CurveReport, curve_report
from scheduler.analysis.touches import TouchRule
from scheduler.report.html.page import render_html
from scheduler.request import Request
from tests.models.report_reading import pictures, read_page

RULE = TouchRule(4, last_token=True, cached_outputs=False)


def prompts(shared: int, count: int = 40) -> list[Request]:
    """Return prompts of 40 tokens of which some are shared by every third."""
    made = []
    for i in range(count):
        tokens = [
            *range(1000 * (i % 3), 1000 * (i % 3) + shared),
            *range(10_000 + 40 * i, 10_040 + 40 * i),
        ]
        key = PrefixKey(tokens[:40])
        made.append(Request(rid=str(i), key=key, prompt_tokens=40, max_new_tokens=1))
    return made  # fmt: skip


def report(shared: int = 24, **options: object) -> CurveReport:
    return curve_report(prompts(shared), RULE, title="<prompts>", **options)  # type: ignore[arg-type]


def page(of: CurveReport) -> str:
    return render_html(curve_page(of, subject="<prompts>", command="radixcache curve", version="1"))


REPORTS = {
    "exact": report(),
    "memory": report(kv_bytes_per_token=131_072.0),
    "no optimum": report(optimum=False),
    "capacities": report(capacities=[3, 17]),
    "nothing shared": report(shared=0),
    "sampled": report(sample_rate=0.5),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_well_formed_and_the_same_again(name: str) -> None:
    html = page(REPORTS[name])
    read = read_page(html)
    assert read.unclosed == []
    assert read.requests == []
    assert html == page(REPORTS[name])
    (figure,) = curve_page(REPORTS[name], subject="", command="", version="").sections[0].figures
    assert len(pictures(figure)) == 2


@pytest.mark.parametrize("name", REPORTS)
def test_every_tabled_capacity_has_the_curves_own_hit_rate(name: str) -> None:
    curve = REPORTS[name].curve
    rows = read_page(page(REPORTS[name])).tables["Hit rate by KV memory"]
    place = rows[0].index("LRU %")
    for row in rows[1:]:
        if row[place] != "–":
            pages = int(row[0].replace(",", "")) // 4
            rate = curve.hit_rate(pages)
            assert rate is not None
            assert row[place] == f"{100 * rate:.2f}"


def test_the_optimum_stands_beside_where_it_was_replayed() -> None:
    of = REPORTS["exact"]
    assert of.optimum is not None
    rows = read_page(page(of)).tables["Hit rate by KV memory"]
    tabled = {row[0]: row[2] for row in rows[1:] if row[2] != "–"}
    for point in of.optimum.points:
        assert point.hit_rate is not None
        assert tabled[f"{4 * point.capacity_pages:,}"] == f"{100 * point.hit_rate:.2f}"


def test_the_numbers_are_those_of_the_rows() -> None:
    rows = read_page(page(REPORTS["memory"])).tables["Hit rates by KV memory"]
    assert rows[0][:3] == ["KV memory tokens", "pages", "KV memory GiB"]
    for shown, row in zip(rows[1:], REPORTS["memory"].rows(), strict=True):
        assert shown[1] == (
            "unbounded" if row.capacity_pages is None else f"{row.capacity_pages:,}"
        )
        assert row.lru_hit_rate is not None
        assert shown[3] == f"{100 * row.lru_hit_rate:.2f}"


def test_findings_name_the_knee_or_that_nothing_is_hit() -> None:
    text = " ".join(read_page(page(REPORTS["exact"])).text.split())
    knee = REPORTS["exact"].curve.knee()
    assert knee is not None
    assert f"The knee, where more memory begins to pay less, is at {4 * knee} tokens" in text
    assert "Nothing is hit at any capacity" in read_page(page(REPORTS["nothing shared"])).text


def test_a_sample_has_a_band_and_an_error() -> None:
    (figure,) = (
        curve_page(REPORTS["sampled"], subject="", command="", version="").sections[0].figures
    )
    for svg in pictures(figure):
        assert [n for n in svg.iter("polygon") if n.attrib["class"].startswith("band")]
    assert "standard errors" in figure.caption
