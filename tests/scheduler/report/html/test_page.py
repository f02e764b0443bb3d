"""The page: every name is text, nothing is fetched, the same data gives the same bytes."""

from __future__ import annotations

import pytest

from scheduler.report.html.page import HtmlReport, render_html
from scheduler.report.metrics import METRICS
from scheduler.report.order_words import ORDER_WORDS
from scheduler.report.table import shown_value
from tests.models.report_pages import PAGES, compared, overloaded, page_named, runs
from tests.models.report_reading import read_page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_fetches_nothing(name: str) -> None:
    html = page_named(name)
    page = read_page(html)
    assert html.startswith("<!DOCTYPE html>\n<html lang=")
    assert page.unclosed == []
    assert page.requests == []
    assert "script" not in page.tags
    assert sorted(page.ids) == sorted(set(page.ids))
    assert page.links
    for link in page.links:
        assert link.startswith("#")
        assert link[1:] in page.ids
    assert page.tags.count("h1") == 1
    assert page.tags.count("main") == 1
    html.encode("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_the_same_data_gives_the_same_bytes(name: str) -> None:
    assert PAGES[name]() == page_named(name)


def test_hostile_names_are_text() -> None:
    html = page_named("hostile")
    assert "<script" not in html
    assert "<img" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "\\u202e{{ 7*7 }}" in read_page(html).text


def test_tables_hold_the_numbers_of_the_summaries() -> None:
    summaries = [overloaded("fcfs"), *runs("lpm")]
    tables = read_page(compared(summaries)).tables
    numbers = {row[0]: row[2:] for row in tables["Every metric of every run"][1:]}
    assert len(numbers) == len(METRICS)
    for item in METRICS:
        assert numbers[item.header] == [shown_value(item, summary) for summary in summaries]
    assert numbers["TTFT p99"][0] == "(over)"
    waits = tables["Time to first token by order, in seconds"]
    details = summaries[1].details
    assert details is not None
    found = dict(details.ttft_quantiles)
    assert waits[2] == ["lpm", *(f"{found[q]:,.3f}" if q in found else "–" for q in
                                 (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0))]  # fmt: skip


def test_every_metric_is_defined_where_it_stands() -> None:
    text = " ".join(read_page(page_named("compare")).text.split())
    for item in METRICS:
        assert item.formula in text
        assert item.doc in text


def test_a_page_says_how_it_was_made() -> None:
    text = read_page(page_named("compare")).text
    assert "radixcache 1.2.3" in text
    assert "radixcache compare" in text
    assert "Uncalibrated cost model" in text


def test_findings_name_the_best_run() -> None:
    text = read_page(page_named("overloaded")).text
    assert "Overloaded, their queues grow without end: fcfs." in text
    assert "lpm has the shortest mean time to first token" in text


def test_orders_are_explained_beside_the_overview() -> None:
    text = " ".join(read_page(page_named("overloaded")).text.split())
    for order in ("fcfs", "lpm"):
        assert ORDER_WORDS[order] in text


def test_it_is_said_at_the_top_that_seconds_are_not_calibrated() -> None:
    text = read_page(page_named("compare")).text
    assert text.index("not calibrated") < text.index("The runs side by side")


def test_a_sweep_names_the_order_that_goes_farthest() -> None:
    text = read_page(page_named("sweep")).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "spf keeps p99 TTFT at or below 5 s up to 3 requests/s, fcfs up to 2." in text


def test_failed_runs_are_counted() -> None:
    assert "failed and are missing here: 1." in read_page(page_named("sweep")).text


def test_a_report_without_sections_is_a_page() -> None:
    html = render_html(HtmlReport("Title", "subject", [], "command", "1.0"))
    assert read_page(html).unclosed == []
