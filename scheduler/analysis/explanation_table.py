"""The tables of an explanation: the waterfall, the diverging places, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from scheduler.analysis.divergence import DivergingPlace
from scheduler.analysis.explanation import WORTH_SAYING, Explanation
from scheduler.analysis.losses import LossWaterfall
from scheduler.report.plain_text import lined_up, percent

__all__ = ["format_explanation", "percentages", "waterfall_rows"]

_WIDTH = 88
_PERCENT = "\u00a0%"
"""No line ends between a number and its unit."""


def waterfall_rows(waterfall: LossWaterfall) -> list[tuple[str, int]]:
    """Return the parts of the prompt tokens with their names; they add up to all of them."""
    policy = waterfall.policy
    evicted = [("evicted: cached before, and given up", waterfall.evicted_tokens)]
    if waterfall.eviction_policy_tokens is not None and waterfall.order_tokens is not None:
        evicted = [
            (f"evicted: {policy} against the optimum", waterfall.eviction_policy_tokens),
            ("evicted: this order against the best", waterfall.order_tokens),
        ]
    return [
        ("hit", waterfall.hit_tokens),
        ("last token: computed again for its logits", waterfall.last_token_tokens),
        ("page alignment: shared, but no whole page", waterfall.alignment_tokens),
        ("in flight: another request is computing it", waterfall.in_flight_tokens),
        *evicted,
        ("compulsory: never seen before, and tails", waterfall.compulsory_tokens),
    ]


def percentages(parts: Sequence[int]) -> list[str]:
    """Return each part's percentage with two decimals, so that they add up to 100.00.

    What rounding leaves over goes to the largest part but the first.

    >>> percentages([1, 1, 1])
    ['33.33', '33.34', '33.33']
    """
    total = sum(parts)
    if not total:
        return ["-"] * len(parts)
    hundredths = [(20_000 * part + total) // (2 * total) for part in parts]
    largest = max(range(1, len(parts)), key=lambda i: parts[i], default=0)
    hundredths[largest] += 10_000 - sum(hundredths)
    return [f"{value // 100}.{value % 100:02d}" for value in hundredths]


def format_explanation(explanation: Explanation) -> str:
    """Return it as plain text."""
    waterfall = explanation.waterfall
    parts = [_waterfall_text(waterfall), _bounds_text(waterfall)]
    if explanation.places is None:
        parts.append("diverging places: leave --policy out to find them\n")
    elif explanation.block_ids:
        parts.append("diverging places: none can be seen, this trace has block ids and no tokens\n")
    elif explanation.places:
        parts.append("diverging places\n" + "".join(map(_place_text, explanation.places)))
    else:
        parts.append(f"diverging places: none whose repair would gain {100 * WORTH_SAYING:g} %\n")
    if explanation.suggestions:
        lines = [
            fill(
                f"{100 * item.share:.2f} %  {item.loss}: {item.text}",
                _WIDTH,
                initial_indent="  ",
                subsequent_indent=" " * 11,
                break_on_hyphens=False,
            )
            for item in explanation.suggestions
        ]
        parts.append("what to do\n" + "\n".join(lines) + "\n")
    return "\n".join(parts).replace(_PERCENT, " %")


def _waterfall_text(waterfall: LossWaterfall) -> str:
    rows = waterfall_rows(waterfall)
    shares = percentages([tokens for _, tokens in rows])
    table = [
        (name, f"{tokens:,}", share) for (name, tokens), share in zip(rows, shares, strict=True)
    ]
    total = sum(tokens for _, tokens in rows)
    table.append(("all prompt tokens", f"{total:,}", "100.00" if total else "-"))
    return lined_up([("where the prompt tokens went", "tokens", "%"), *table])


def _bounds_text(waterfall: LossWaterfall) -> str:
    pages, page_size = waterfall.capacity_pages, waterfall.page_size
    memory = "unbounded memory"
    if pages is not None:
        memory = f"{pages:,} pages of {page_size} ({pages * page_size:,} tokens)"
    outputs = "recorded outputs cached" if waterfall.cached_outputs else "outputs not cached"
    estimated = "" if waterfall.exact_optimum else " (estimated, within 1.3 points)"
    how = "in arrival order, no queue: nothing is in flight"
    optimal = waterfall.share(waterfall.optimal_eviction_hit_tokens)
    beside = f"with the optimal eviction {percent(optimal, _PERCENT)}, "
    if waterfall.order is not None:
        how, beside = f"by {waterfall.order}, each at its first admission", ""
    text = (
        f"{waterfall.requests:,} requests {how}; {memory}, {outputs}. Hit rate "
        f"{percent(waterfall.hit_rate, _PERCENT)}; {beside}in the best order "
        f"{percent(waterfall.dfs_optimal_hit_rate, _PERCENT)}{estimated}."
    )
    return fill(text, _WIDTH) + "\n"


def _place_text(place: DivergingPlace) -> str:
    length = f"{place.shortest_tokens}"
    if place.longest_tokens != place.shortest_tokens:
        length += f"-{place.longest_tokens}"
    texts = f"one of {place.texts} texts" if place.texts > 1 else "a text"
    quoted = ", ".join(place.examples)
    after = f" after {place.context}" if place.context else ""
    better, now = (percent(r, _PERCENT) for r in (place.hit_rate_after, place.hit_rate_before))
    text = (
        f"at token {place.start_tokens:,}, {length} tokens{after}: {quoted}. "
        f"{place.moved_requests:,} prompts have it in front of {texts} of up to "
        f"{place.text_tokens:,} tokens; behind it, the hit rate would be {better} instead of {now}"
    )
    return fill(text, _WIDTH, initial_indent="  ", subsequent_indent="    ") + "\n"
