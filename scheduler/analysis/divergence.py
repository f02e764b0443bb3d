"""Diverging places: what each diverging span of a trace costs, by a replay without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from radixcache import EvictionPolicy, KeyKind, Namespace
from scheduler.analysis.spans import DivergingSpan, moved
from scheduler.lookup import LookupResult, lookup_replay
from scheduler.request import Request

__all__ = ["DivergingPlace", "diverging_places"]


@dataclass(frozen=True, slots=True)
class DivergingPlace:
    """A place where prompts part for a short span, and what moving the span would gain."""

    namespace: Namespace
    start_tokens: int
    """The prompts share so many tokens before it."""
    shortest_tokens: int
    longest_tokens: int
    """How long the span is."""
    requests: int
    """Requests that come to the place, about."""
    moved_requests: int
    """Requests with the span in front of one of the texts."""
    texts: int
    """How many different texts follow it."""
    text_tokens: int
    """Length of the longest of them."""
    context: str
    """What stands right before the span, quoted as far as the text is known; may be empty."""
    examples: tuple[str, ...]
    """What stands in the span, quoted: text, or token ids where the text is not known."""
    hit_rate_before: float | None
    hit_rate_after: float | None
    """With the span behind the text in every prompt; the same replay otherwise."""

    @property
    def gained_share(self) -> float:
        """The prompt tokens that would be hit beyond those that are, as a share."""
        return (self.hit_rate_after or 0.0) - (self.hit_rate_before or 0.0)

    def as_dict(self) -> dict[str, object]:
        """Return the fields for JSON."""
        fields = asdict(self) | {"gained_share": self.gained_share}
        return fields | {"namespace": list(self.namespace), "examples": list(self.examples)}


def diverging_places(
    requests: Callable[[], Iterable[Request]],
    spans: Sequence[DivergingSpan],
    page_size: int,
    *,
    hit_rate: float | None,
    capacity_pages: int | None = None,
    policy: str | EvictionPolicy = "lru",
    cached_outputs: bool = True,
    quote: Callable[[bytes, KeyKind], str],
    context: Callable[[bytes, KeyKind], str] = lambda data, kind: "",
) -> list[DivergingPlace]:
    """Return what moving each span alone would gain, the most first; those that gain nothing not.

    ``requests`` is called for a fresh pass a span; ``hit_rate`` is that of the prompts as they
    are, at the same settings; ``quote`` writes the packed content of a span, ``context`` the
    end of what stands before it.

    Cost: one lookup replay a span.
    """
    places = []
    for span in spans:
        changed = 0

        def repaired(span: DivergingSpan = span) -> Iterable[Request]:
            nonlocal changed
            for request in requests():
                new = moved(request, span)
                changed += new is not request
                yield new

        after: LookupResult = lookup_replay(
            repaired(),
            page_size,
            capacity_pages=capacity_pages,
            policy=policy,
            last_token=True,
            cache_outputs=cached_outputs,
        )
        place = DivergingPlace(
            namespace=span.namespace,
            start_tokens=span.start_tokens,
            shortest_tokens=span.shortest_tokens,
            longest_tokens=span.longest_tokens,
            requests=span.requests,
            moved_requests=changed,
            texts=len(span.shared),
            text_tokens=span.shared_tokens,
            context=context(span.before, span.kind),
            examples=tuple(quote(example, span.kind) for example in span.examples),
            hit_rate_before=hit_rate,
            hit_rate_after=after.cold_hit_rate,
        )
        if place.gained_share > 0:
            places.append(place)
    return sorted(places, key=lambda place: -place.gained_share)
