"""Explanation: why the hit rate of a trace is what it is, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from radixcache import EvictionPolicy, KeyKind
from scheduler.analysis.divergence import DivergingPlace, diverging_places
from scheduler.analysis.losses import LossWaterfall, loss_waterfall
from scheduler.analysis.prefix_trie import DEFAULT_LIMIT_BYTES, PrefixTrie
from scheduler.analysis.sharing import SharedPrefix, shared_prefixes
from scheduler.analysis.spans import spans_of
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["WORTH_SAYING", "Explanation", "Suggestion", "explain", "suggestions"]

WORTH_SAYING = 0.005
"""A loss, or a gain, below this share of the prompt tokens needs no word."""
MOST_PLACES = 3


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One thing to do about one loss."""

    loss: str
    """What it is about: a part of the waterfall, or a diverging place."""
    share: float
    """How much of the prompt tokens is at stake."""
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The waterfall of a trace, the places where its prompts part for no good reason, advice."""

    waterfall: LossWaterfall
    places: tuple[DivergingPlace, ...] | None
    """None: they were not looked for."""
    block_ids: bool
    """Whether the trace has block ids only, in which no diverging place can be seen."""
    suggestions: tuple[Suggestion, ...]
    prefixes: tuple[SharedPrefix, ...] = ()
    """The prefixes that most of the repeated work lies in; none of block ids."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields for JSON."""
        return {
            "waterfall": self.waterfall.as_dict(),
            "diverging_places": None
            if self.places is None
            else [place.as_dict() for place in self.places],
            "suggestions": [
                {"loss": item.loss, "share": item.share, "text": item.text}
                for item in self.suggestions
            ],
            "shared_prefixes": [prefix.as_dict() for prefix in self.prefixes],
        }


def explain(
    requests: Callable[[], Iterable[Request]],
    page_size: int,
    *,
    capacity_pages: int | None = None,
    policy: str | EvictionPolicy = "lru",
    cached_outputs: bool = True,
    quote: Callable[[bytes, KeyKind], str],
    context: Callable[[bytes, KeyKind], str] = lambda data, kind: "",
    most_places: int = MOST_PLACES,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Explanation:
    """Say where the prompt tokens of a trace go when it is looked up in the order given.

    ``requests`` is called for each pass over the trace: one for the waterfall, one for each of
    the ``most_places`` diverging places that seem to cost most. ``quote`` writes packed tokens,
    ``context`` the end of what stands before a place.

    Cost: see `loss_waterfall`, and a lookup replay a place. Memory: as `loss_waterfall`, and up
    to ``limit_bytes`` for the prefixes.
    """
    trie = PrefixTrie(limit_bytes=limit_bytes)

    def watched() -> Iterator[Request]:
        for request in each_sample(requests()):
            if request.key.kind is not KeyKind.BLOCKS:
                trie.add(request.key)
            yield request

    waterfall = loss_waterfall(
        watched(),
        page_size,
        capacity_pages=capacity_pages,
        policy=policy,
        cached_outputs=cached_outputs,
    )
    block_ids = bool(waterfall.requests) and not trie.roots
    found = diverging_places(
        requests,
        spans_of(trie, page_size)[:most_places],
        page_size,
        hit_rate=waterfall.hit_rate,
        capacity_pages=capacity_pages,
        policy=policy,
        cached_outputs=cached_outputs,
        quote=quote,
        context=context,
    )
    places = tuple(place for place in found if place.gained_share >= WORTH_SAYING)
    return Explanation(
        waterfall,
        places,
        block_ids,
        suggestions(waterfall, places),
        shared_prefixes(trie, waterfall.prompt_tokens, quote) if trie.roots else (),
    )


def suggestions(
    waterfall: LossWaterfall, places: Iterable[DivergingPlace]
) -> tuple[Suggestion, ...]:
    """Return what to do about the losses that matter, the largest first."""
    found = [
        Suggestion(
            "diverging place",
            place.gained_share,
            f"move {_named(place)} at token {place.start_tokens:,} behind the "
            f"{place.text_tokens:,} tokens that follow it: hit rate "
            f"{100 * (place.hit_rate_before or 0):.2f} -> {100 * (place.hit_rate_after or 0):.2f} %"
            " (whatif --move-timestamp)",
        )
        for place in places
    ]
    losses = (
        (
            "last_token",
            waterfall.last_token_tokens,
            "a whole page is computed for the one token that must be: a smaller page loses less "
            "(whatif --page-size)",
        ),
        (
            "alignment",
            waterfall.alignment_tokens,
            "prompts share it, but no whole page of it: a smaller page hits more "
            "(whatif --page-size)",
        ),
        (
            "in flight",
            waterfall.in_flight_tokens,
            "requests compute at the same time what one could for all: hold the followers back "
            "(--hold stop), or publish as it is scheduled (--publish schedule)",
        ),
        (
            "evicted",
            None if waterfall.order is None else waterfall.evicted_tokens,
            "it was cached before and given up: more memory (curve), another --eviction or order "
            "(compare); without --policy, this says which",
        ),
        (
            "eviction policy",
            waterfall.eviction_policy_tokens,
            f"{waterfall.policy} evicted it before it came again, the optimal eviction would not: "
            "more memory (curve), or another --eviction, e.g. ghost-gittins",
        ),
        (
            "order",
            waterfall.order_tokens,
            "in this order it cannot be kept until it comes again: more memory (curve), or an "
            "order that brings equal prompts together (compare)",
        ),
    )
    for name, tokens, text in losses:
        share = waterfall.share(tokens) or 0.0
        if share >= WORTH_SAYING:
            found.append(Suggestion(name, share, text))
    return tuple(sorted(found, key=lambda item: -item.share))


def _named(place: DivergingPlace) -> str:
    """Return what varies, by its first example."""
    example = place.examples[0] if place.examples else "what differs"
    return f"{example} (after {place.context})" if place.context else example
