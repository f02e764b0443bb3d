"""The page: every name is text, nothing is fetched, the same data gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from scheduler.report.html.compare_page import compare_report
from scheduler.report.html.page import HtmlReport, render_html
from scheduler.report.html.sweep_page import sweep_report
from scheduler.report.metrics import METRICS
from scheduler.report.recorder import Recorder
from scheduler.report.summary import Summary, summarize
from scheduler.report.sweep import Limit, Sweep, SweepCell
from scheduler.report.table import shown_value
from tests.models.recorded_runs import queue_run
from tests.models.report_reading import read_page

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e{{ 7*7 }}'


def runs(*labels: str) -> list[Summary]:
    return [
        summarize(
            queue_run([0.5 * i for i in range(200)], lambda rng: rng.randrange(950), seed=seed),
            label=label,
            page_size=16,
            optimal_hit_rate=0.5,
            ceiling_hit_rate=0.4,
            seed=7,
            assumptions={"capacity_tokens": 4_000, "ticks": label},
            details=True,
        )
        for seed, label in enumerate(labels)
    ]


def overloaded(label: str) -> Summary:
    recorder = queue_run([0.2 * i for i in range(400)], lambda rng: 500, seed=0)
    summary = summarize(recorder, label=label, page_size=16, optimal_hit_rate=0.5, details=True)
    assert summary.overloaded
    return summary


def empty(label: str) -> Summary:
    return summarize(Recorder(), label=label, page_size=16, details=True)


def compared(summaries: Sequence[Summary], subject: str = "a trace") -> str:
    return render_html(
        compare_report(summaries, subject=subject, command="radixcache compare", version="1.2.3")
    )


def swept(*cells: SweepCell, **more: object) -> str:
    sweep = Sweep(cells=cells, command="radixcache sweep", version="1.2.3", **more)  # type: ignore[arg-type]
    return render_html(sweep_report(sweep, subject="a trace"))


def cell(policy: str, seed: int, summary: Summary | None, **more: object) -> SweepCell:
    return SweepCell(policy=policy, capacity_tokens=more.pop("capacity", 64), seed=seed,  # type: ignore[arg-type]
                     summary=summary, **more)  # type: ignore[arg-type]  # fmt: skip


PAGES = {
    "compare": lambda: compared(runs("fcfs", "lpm")),
    "one run": lambda: compared(runs("fcfs")),
    "no details": lambda: compared([summarize(Recorder(), label="x", page_size=16)]),
    "empty run": lambda: compared([empty("fcfs"), *runs("lpm")]),
    "overloaded": lambda: compared([overloaded("fcfs"), *runs("lpm")]),
    "hostile": lambda: compared(runs(HOSTILE, "lpm"), subject=HOSTILE),
    "sweep by load": lambda: swept(
        *(cell("fcfs", seed, run, rate=1.0) for seed, run in enumerate(runs("a", "b"))),
        *(cell("fcfs", seed, run, rate=8.0) for seed, run in enumerate(runs("a", "b"))),
        cell("lpm", 0, overloaded("lpm"), rate=8.0),
        cell("lpm", 0, None, rate=1.0, error="ValueError: <b>"),
    ),
    "sweep by memory": lambda: swept(
        *(cell("fcfs", 0, runs("a")[0], capacity=c) for c in (64, 4_096))
    ),
    "sweep of one place": lambda: swept(cell("fcfs", 0, runs("a")[0])),
    "sweep with a target": lambda: swept(
        cell("fcfs", 0, runs("a")[0], rate=2.0, meets_target=True),
        target_ttft_p99_s=5.0,
        tolerance=0.02,
        limits=[
            Limit(policy="fcfs", capacity_tokens=64, seed=0, rate=2.0),
            Limit(policy="lpm", capacity_tokens=64, seed=0, rate=None),
            Limit(policy="spf", capacity_tokens=64, seed=0, rate=3.0, at_least=True),
        ],
    ),
}  # fmt: skip


@cache
def page_named(name: str) -> str:
    return PAGES[name]()


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


def test_a_sweep_names_the_order_that_goes_farthest() -> None:
    text = read_page(page_named("sweep with a target")).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "spf keeps p99 TTFT at or below 5 s up to 3 requests/s, fcfs up to 2." in text


def test_failed_runs_are_counted() -> None:
    assert "1 runs or searches failed" in read_page(page_named("sweep by load")).text


def test_a_report_without_sections_is_a_page() -> None:
    html = render_html(HtmlReport("Title", "subject", [], "command", "1.0"))
    assert read_page(html).unclosed == []
