"""Reports for tests: each kind of page, drawn from synthetic runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from radixcache import PrefixKey
from scheduler.analysis.curve_html import curve_page
from scheduler.analysis.curve_report import curve_report
from scheduler.analysis.explanation import explain
from scheduler.analysis.explanation_html import explanation_page
from scheduler.analysis.touches import TouchRule
from scheduler.report.guard_setting import GuardSetting
from scheduler.report.html.compare_page import compare_report
from scheduler.report.html.page import render_html
from scheduler.report.html.sweep_page import sweep_report
from scheduler.report.recorder import Recorder
from scheduler.report.summary import Summary, summarize
from scheduler.report.sweep import Limit, Sweep, SweepCell
from scheduler.request import Request
from tests.models.recorded_runs import queue_run

__all__ = ["PAGES", "compared", "overloaded", "page_named", "runs"]

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


def curve() -> str:
    requests = [
        Request(
            rid=str(i),
            key=PrefixKey([*range(100 * (i % 5), 100 * (i % 5) + 60), 10_000 + i]),
            prompt_tokens=61,
            max_new_tokens=1,
        )
        for i in range(60)
    ]
    rule = TouchRule(4, last_token=True, cached_outputs=False)
    report = curve_report(requests, rule, title="a trace", kv_bytes_per_token=2.0**20)
    return render_html(
        curve_page(report, subject="a trace", command="radixcache curve", version="1.2.3")
    )


def explanation() -> str:
    """Return an explanation of prompts that branch, with a date in front of some."""
    hot = [*range(40)]
    prompts = [[*hot, *range(100 * (i % 3), 100 * (i % 3) + 30), 5_000 + i] for i in range(30)]
    prompts += [[7, 8, 9_000 + i, *range(600, 640), 8_000 + i] for i in range(30)]
    requests = [
        Request(rid=str(i), key=PrefixKey(p), prompt_tokens=len(p), max_new_tokens=1)
        for i, p in enumerate(prompts)
    ]
    found = explain(
        lambda: requests, 4, capacity_pages=40, quote=lambda data, kind: f"{len(data)} <b>bytes</b>"
    )
    return render_html(
        explanation_page(found, subject="a trace", command="radixcache explain", version="1.2.3")
    )


PAGES: dict[str, Callable[[], str]] = {
    "compare": lambda: compared(runs("fcfs", "lpm")),
    "one run": lambda: compared(runs("fcfs")),
    "no details": lambda: compared([summarize(Recorder(), label="x", page_size=16)]),
    "empty run": lambda: compared([empty("fcfs"), *runs("lpm")]),
    "overloaded": lambda: compared([overloaded("fcfs"), *runs("lpm")]),
    "hostile": lambda: compared(runs(HOSTILE, "lpm"), subject=HOSTILE),
    "sweep": lambda: swept(
        *(cell("fcfs", seed, run, rate=1.0) for seed, run in enumerate(runs("a", "b"))),
        *(cell("fcfs", seed, run, rate=8.0) for seed, run in enumerate(runs("a", "b"))),
        cell("lpm", 0, overloaded("lpm"), rate=8.0),
        cell("lpm", 0, None, rate=1.0, error="ValueError: <b>"),
        cell("fcfs", 0, runs("a")[0], rate=2.0, meets_target=True),
        target_ttft_p99_s=5.0,
        tolerance=0.02,
        limits=[
            Limit(policy="fcfs", capacity_tokens=64, seed=0, rate=2.0),
            Limit(policy="lpm", capacity_tokens=64, seed=0, rate=None),
            Limit(policy="spf", capacity_tokens=64, seed=0, rate=3.0, at_least=True),
        ],
    ),
    "sweep by memory": lambda: swept(
        *(cell("fcfs", 0, runs("a")[0], capacity=c) for c in (64, 4_096))
    ),
    "sweep of guards": lambda: swept(
        *(
            cell("lpm", 0, run, rate=rate, guard=GuardSetting(base, 0.0))
            for rate in (1.0, 2.0)
            for base, run in zip((0, 8_192), runs("a", "b"), strict=True)
        ),
        cell("lpm", 0, overloaded("c"), rate=1.0, guard=GuardSetting(512, 0.5)),
        cell("fcfs", 0, runs("a")[0], rate=1.0),
        cell("lpm", 0, runs("a")[0], rate=3.0, guard=GuardSetting(0, 0.0), meets_target=True),
        target_ttft_p99_s=5.0,
        tolerance=0.02,
        limits=[
            Limit(policy="lpm", capacity_tokens=64, seed=0, rate=rate, guard=GuardSetting(base, 0))
            for base, rate in ((0, 3.0), (8_192, 2.0))
        ],
    ),
    "curve": curve,
    "explanation": explanation,
    "sweep of one place": lambda: swept(cell("fcfs", 0, runs("a")[0])),
}  # fmt: skip


@cache
def page_named(name: str) -> str:
    """Return a page, made once."""
    return PAGES[name]()
