"""An explanation as an HTML report: the waterfall, the places, the tree of prefixes, advice."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.analysis.divergence import DivergingPlace
from scheduler.analysis.explanation import WORTH_SAYING, Explanation
from scheduler.analysis.explanation_table import percentages, waterfall_rows
from scheduler.analysis.losses import LossWaterfall
from scheduler.analysis.sharing import SharedPrefix
from scheduler.report.html.charts_losses import LossStep, waterfall_figure
from scheduler.report.html.charts_prefixes import HotPrefix, prefixes_figure
from scheduler.report.html.figure import Column, DataTable, Figure
from scheduler.report.html.page import Fact, HtmlReport, Section
from scheduler.report.html.text import bare_percent, percent, points

__all__ = ["explanation_page"]

_DOCS = {
    "hit": "Whole pages of the prompt that the cache held.",
    "last token": "Whole pages that the cache held too, but for one token of the prompt, which has "
    "to be computed to give logits.",
    "page alignment": "Tokens shared with what is cached that do not fill a page.",
    "in flight": "Pages that another request is computing at that moment.",
    "compulsory": "Tokens that nobody sent before, and the tail that fills no page: they cost the "
    "same in any cache.",
}
_EVICTED = "Pages that were computed before and given up."
_SPLIT = (
    "Evicted pages that the optimal eviction of the same order would have kept.",
    "Evicted pages that even the optimal eviction gives up, since requests come in this order.",
)


def explanation_page(
    explanation: Explanation,
    *,
    subject: str,
    command: str,
    version: str,
    notes: Sequence[str] = (),
) -> HtmlReport:
    """Return the report of an explanation."""
    waterfall = explanation.waterfall
    sections = [
        Section("losses", "Where the prompt tokens went", figures=[_waterfall(waterfall)]),
        _places(explanation),
    ]
    if explanation.prefixes:
        sections.append(
            Section(
                "prefixes",
                "What prompts share",
                figures=[prefixes_figure(_hot(explanation.prefixes))],
            )
        )
    if explanation.suggestions:
        sections.insert(
            1,
            Section(
                "advice",
                "What to do",
                facts=[
                    Fact(f"{item.loss}: {points(item.share)}", item.text)
                    for item in explanation.suggestions
                ],
            ),
        )
    sections.append(Section("counted", "What was counted", facts=_facts(waterfall)))
    return HtmlReport(
        title="Why the hit rate is what it is",
        subject=subject,
        summary=_findings(explanation),
        command=command,
        version=version,
        notes=notes,
        sections=sections,
    )


def _findings(explanation: Explanation) -> list[str]:
    waterfall = explanation.waterfall
    if waterfall.hit_rate is None:
        return ["There is no prompt token to explain."]
    best = waterfall.dfs_optimal_hit_rate
    said = [
        f"{percent(waterfall.hit_rate)} of the prompt tokens were hits: found in the cache and not "
        f"computed again. Of these prompts as they are, no order and no memory hits more than "
        f"{percent(best)}."
    ]
    if explanation.suggestions:
        best_gain = explanation.suggestions[0]
        said.append(f"Worth most, {points(best_gain.share)}: {best_gain.text}.")
    return said


def _waterfall(waterfall: LossWaterfall) -> Figure:
    rows = waterfall_rows(waterfall)
    split = iter(_SPLIT if len(rows) == len(_DOCS) + 2 else (_EVICTED,))
    steps = []
    for (name, tokens), shown in zip(rows, percentages([t for _, t in rows]), strict=True):
        short = name.partition(":")[0]
        kind = {"hit": "hit", "compulsory": "new"}.get(short, "lost")
        doc = _DOCS.get(short) or next(split)
        steps.append(LossStep(_short(name), tokens, doc, kind, shown))
    return waterfall_figure(steps)


def _short(name: str) -> str:
    """Return a name as short as a picture has room for."""
    short, _, rest = name.partition(":")
    if short != "evicted":
        return short
    return (
        "evicted: order"
        if "order" in rest
        else ("evicted: policy" if "optimum" in rest else "evicted")
    )


def _places(explanation: Explanation) -> Section:
    """Return the places where prompts part, or why there are none."""
    title = "Where prompts part for a short span"
    if explanation.places is None:
        said = "They were not looked for."
    elif explanation.block_ids:
        said = "None can be seen: this trace has block ids and no tokens."
    elif not explanation.places:
        said = f"None whose repair would gain {100 * WORTH_SAYING:g} % of the prompt tokens."
    else:
        said = (
            "The text behind each span is the same in many prompts, but the span in front of it "
            "makes it new to the cache. Repaired: the hit rate with the span moved behind that "
            "text."
        )
    tables = [_places_table(explanation.places)] if explanation.places else []
    return Section("places", title, paragraphs=[said], tables=tables)


def _places_table(places: Sequence[DivergingPlace]) -> DataTable:
    return DataTable(
        "Diverging places, the costliest first",
        (
            Column("what stands in the span", words=True),
            Column("at token"),
            Column("length", "tok"),
            Column("prompts"),
            Column("hit now", "%"),
            Column("repaired", "%"),
            Column("text behind", "tok"),
        ),
        [
            (
                ", ".join(place.examples) + (f" after {place.context}" if place.context else ""),
                f"{place.start_tokens:,}",
                _span(place.shortest_tokens, place.longest_tokens),
                f"{place.moved_requests:,}",
                bare_percent(place.hit_rate_before),
                bare_percent(place.hit_rate_after),
                f"{place.text_tokens:,}",
            )
            for place in places
        ],
    )


def _span(shortest: int, longest: int) -> str:
    return f"{shortest}" if shortest == longest else f"{shortest}–{longest}"


def _hot(prefixes: Sequence[SharedPrefix]) -> list[HotPrefix]:
    return [
        HotPrefix(
            opening=prefix.opening,
            start_tokens=prefix.prefix_tokens - prefix.new_tokens,
            stop_tokens=prefix.prefix_tokens,
            requests=prefix.requests,
            repeated_share=prefix.repeated_share,
            parent=prefix.continues,
        )
        for prefix in prefixes
    ]


def _facts(waterfall: LossWaterfall) -> list[Fact]:
    pages = waterfall.capacity_pages
    memory = "unbounded"
    if pages is not None:
        memory = f"{pages:,} pages, {pages * waterfall.page_size:,} tokens"
    return [
        Fact("requests", f"{waterfall.requests:,}"),
        Fact("prompt tokens", f"{waterfall.prompt_tokens:,}"),
        Fact("page size", f"{waterfall.page_size:,} tokens"),
        Fact("KV memory", memory),
        Fact("order", waterfall.order or "arrival, without a queue"),
        Fact("eviction", waterfall.policy),
        Fact("recorded outputs", "cached" if waterfall.cached_outputs else "not cached"),
        Fact("optimum", "exact" if waterfall.exact_optimum else "estimated, within 1.3 points"),
    ]
