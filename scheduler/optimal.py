"""The DFS optimum: the least prefill work any order, cache size and eviction can reach.

::

    C* = sum over requests (n mod p)  +  p * sum over pages v max(1, m_v)

v runs over the distinct full-page prefixes of all prompts; m_v counts the prompts that must
compute v themselves: those that end exactly at v (one token has to run to give logits) and
those that may not match as far as v (``max_match_tokens``). Where v holds an output token of
some request, or is held by a warm cache, the 1 is a 0. The hit rate is 1 - C* / sum of n.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from radixcache import KeyKind, Namespace, PrefixKey, common_bytes
from radixcache.errors import ConfigError, KeyKindError
from scheduler.hyperloglog import HyperLogLog
from scheduler.request import Request
from scheduler.samples import each_sample

__all__ = ["OptimalBound", "OptimalMeter", "computed_key", "optimal_prefill"]

DEFAULT_EXACT_LIMIT_BYTES = 256 * 1024 * 1024
_SPAN_BYTES = 400
"""What a span costs beyond its data: the object, its dict and its bytes header."""


@dataclass(frozen=True, slots=True)
class OptimalBound:
    """C* of a set of requests and what it is made from."""

    prefill_tokens: int
    """C*: no order, eviction policy or capacity computes fewer prompt tokens."""
    prompt_tokens: int
    distinct_pages: int
    """Different full pages in all prompts; an estimate when not ``exact``."""
    exact: bool
    """False: counted by HyperLogLog beyond the size limit, hit rate within 1.3 points."""

    @property
    def hit_rate(self) -> float | None:
        """1 - C* / prompt tokens; None without a prompt token."""
        if not self.prompt_tokens:
            return None
        return (self.prompt_tokens - self.prefill_tokens) / self.prompt_tokens


class _Span:
    """Pages in a row, with one history, on the path from a root of the trie."""

    __slots__ = ("asked", "children", "data", "forced", "held")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.children: dict[bytes, _Span] = {}
        self.asked = False  # in some prompt
        self.held = False  # in some computed output, or in the warm cache
        self.forced = 0  # m_v

    def split(self, at: int, page_bytes: int) -> None:
        """Keep data[:at]; one child takes the rest with the same history."""
        rest = _Span(self.data[at:])
        rest.children, rest.asked = self.children, self.asked
        rest.held, rest.forced = self.held, self.forced
        self.data = self.data[:at]
        self.children = {rest.data[:page_bytes]: rest}

    def cost(self) -> int:
        """Return max(1 or 0, m_v) of each of its pages."""
        return max(self.forced, 0 if self.held else 1) if self.asked else 0


class OptimalMeter:
    """Keep C* exact while prompts and outputs come in, in any order.

    Prefixes are spans of packed bytes in a trie, compared as bytes: no hash can collide.
    Once the trie is larger than ``exact_limit_bytes`` it is frozen, and pages outside of it
    are counted by two HyperLogLogs of 16 KB; ``exact`` turns False with the first of them.
    Their standard error is 0.81 % of those pages each, which moves the hit rate by at most
    1.3 points in practice.

    Cost: ``add`` O(key bytes compared + spans on one path) while exact, then one blake2b a
    page outside the trie; reading O(1). Memory: the distinct pages, at most
    ``exact_limit_bytes`` and one key.
    Raises: ConfigError for a page size below 1; KeyKindError for a block-hash key of another
    page size.
    """

    __slots__ = (
        "_bytes", "_covering", "_distinct_pages", "_exact_limit_bytes", "_forced_outside",
        "_own_tokens", "_page_size", "_pages", "_paid", "_prompt_tokens", "_roots", "_seen_outside",
    )  # fmt: skip

    def __init__(
        self, page_size: int, *, exact_limit_bytes: int = DEFAULT_EXACT_LIMIT_BYTES
    ) -> None:
        if page_size < 1:
            raise ConfigError(f"page_size is {page_size}: give at least 1 token a page")
        self._page_size = page_size
        self._exact_limit_bytes = exact_limit_bytes
        self._roots: dict[tuple[Namespace, int], _Span] = {}
        self._bytes = 0
        self._pages = 0  # sum of max(1, m_v) over the trie
        self._distinct_pages = 0
        self._own_tokens = 0
        self._prompt_tokens = 0
        # Outside the trie: pages = M + |asked or held| - |held or forced|, three set sizes
        # that need no intersection.
        self._forced_outside = 0
        self._covering: HyperLogLog | None = None
        self._paid: HyperLogLog | None = None
        self._seen_outside: HyperLogLog | None = None

    def add(
        self,
        key: PrefixKey,
        prompt_tokens: int,
        output_key: PrefixKey | None = None,
        *,
        max_match_tokens: int | None = None,
    ) -> int:
        """Add a prompt, and what a finished request has computed of prompt and output.

        ``prompt_tokens`` may exceed ``len(key)`` for block-hash keys; what the key does not
        cover is always computed. Returns the usable tokens of the prompt that were seen
        before (prompts and outputs): its hit in an unbounded cache served in this order.
        """
        page = self._page_size
        full = min(prompt_tokens, len(key)) // page
        cap = min(max(prompt_tokens - 1, 0) // page, full)
        if max_match_tokens is not None:
            cap = min(cap, max(max_match_tokens, 0) // page)
        self._prompt_tokens += prompt_tokens
        self._own_tokens += prompt_tokens - full * page
        seen = self._mark(key, full, forced_from=cap, asked=True)
        if output_key is not None:
            self.add_output(output_key, min(prompt_tokens, len(key)))
        return min(seen, cap) * page

    def add_output(self, computed: PrefixKey, prompt_tokens: int) -> None:
        """Add the computed prompt + output of a request whose output is cached.

        The first ``prompt_tokens`` of the key are its prompt.
        """
        stop = len(computed) // self._page_size
        self._mark(computed, stop, held_from=min(prompt_tokens // self._page_size, stop))

    def add_warm(self, key: PrefixKey) -> None:
        """Say that a warm cache holds the full pages of this key."""
        self._mark(key, len(key) // self._page_size, held_from=0)

    @property
    def exact(self) -> bool:
        """Tell whether every page so far was counted exactly."""
        return self._covering is None

    @property
    def prompt_tokens(self) -> int:
        """Sum of n."""
        return self._prompt_tokens

    @property
    def distinct_pages(self) -> int:
        """Different full pages in all prompts."""
        outside = self._seen_outside.estimate() if self._seen_outside is not None else 0.0
        return self._distinct_pages + round(outside)

    @property
    def optimal_prefill_tokens(self) -> int:
        """C*."""
        pages = self._pages
        if self._covering is not None and self._paid is not None:
            free = self._covering.estimate() - self._paid.estimate()
            pages += self._forced_outside + max(0, round(free))
        return min(self._own_tokens + self._page_size * pages, self._prompt_tokens)

    @property
    def optimal_hit_rate(self) -> float | None:
        """1 - C* / prompt tokens; None without a prompt token."""
        return self.bound().hit_rate

    def bound(self) -> OptimalBound:
        """Return the numbers of this moment as a record."""
        return OptimalBound(
            prefill_tokens=self.optimal_prefill_tokens,
            prompt_tokens=self._prompt_tokens,
            distinct_pages=self.distinct_pages,
            exact=self.exact,
        )

    def _mark(
        self,
        key: PrefixKey,
        stop: int,
        *,
        forced_from: int | None = None,
        held_from: int | None = None,
        asked: bool = False,
    ) -> int:
        """Walk the first ``stop`` pages, change their history; return the pages known before."""
        width = self._page_bytes(key)
        root = self._roots.get((key.namespace, key.layout))
        if root is None:
            root = self._roots[key.namespace, key.layout] = _Span(b"")
        data = key.data
        first_changed = forced_from if forced_from is not None else held_from or 0
        path, seen = self._path(root, data, stop * width, first_changed * width, width)
        reached = 0
        for span in path:
            pages = len(span.data) // width
            self._pages -= pages * span.cost()
            if asked and not span.asked:
                span.asked = True
                self._distinct_pages += pages
            if reached >= first_changed:
                span.forced += forced_from is not None
                span.held = span.held or held_from is not None
            self._pages += pages * span.cost()
            reached += pages
        if reached < stop:
            self._mark_outside(key, range(reached, stop), first_changed, asked, held_from is None)
        return seen // width

    def _path(
        self, root: _Span, data: bytes, stop: int, cut: int, width: int
    ) -> tuple[list[_Span], int]:
        """Return the spans of data[:stop], split at ``cut``, and the bytes that were there."""
        at, seen, node, path = 0, stop, root, []
        while at < stop:
            first = data[at : at + width]
            child = node.children.get(first)
            if child is None:
                seen = min(seen, at)
                if self._bytes >= self._exact_limit_bytes:
                    break
                end = cut if at < cut < stop else stop
                child = node.children[first] = _Span(data[at:end])
                self._bytes += end - at + _SPAN_BYTES
                shared = end - at
            else:
                shared = common_bytes(child.data, data, at, stop, width)
                if at < cut < at + shared:
                    shared = cut - at
                if shared < len(child.data):
                    child.split(shared, width)
                    self._bytes += _SPAN_BYTES
            path.append(child)
            at += shared
            node = child
        return path, seen

    def _mark_outside(
        self, key: PrefixKey, pages: range, first_changed: int, asked: bool, forced: bool
    ) -> None:
        """Count pages that the frozen trie lacks; a chained hash is their identity."""
        if self._covering is None or self._paid is None or self._seen_outside is None:
            self._covering, self._paid, self._seen_outside = (HyperLogLog() for _ in range(3))
        width = self._page_bytes(key)
        data = key.data
        chain = blake2b(repr((tuple(key.namespace), key.layout)).encode(), digest_size=8)
        chain.update(data[: pages.start * width])
        for page in pages:
            chain.update(data[page * width : (page + 1) * width])
            hash_64 = int.from_bytes(chain.copy().digest(), "little")
            changed = page >= first_changed
            if asked:
                self._seen_outside.add(hash_64)
            if asked or changed:
                self._covering.add(hash_64)
            if changed:
                self._paid.add(hash_64)
                self._forced_outside += forced

    def _page_bytes(self, key: PrefixKey) -> int:
        """Return the packed bytes of one page of a key."""
        if key.kind is KeyKind.BLOCKS and key.page_size != self._page_size:
            raise KeyKindError(
                f"a key of {key.page_size}-token blocks in a meter of {self._page_size}-token "
                "pages: use the page size of the trace"
            )
        return key.kind.page_bytes(self._page_size)


def optimal_prefill(
    requests: Iterable[Request],
    page_size: int,
    *,
    cached_outputs: bool = False,
    warm: Iterable[PrefixKey] = (),
    exact_limit_bytes: int = DEFAULT_EXACT_LIMIT_BYTES,
) -> OptimalBound:
    """Return C* of the requests, every sample one, in one pass, and the DFS-optimal hit rate.

    Reached at a capacity of the longest request by serving one at a time, longest match
    first, fewest uncached tokens on ties, the match pinned before anything is evicted. With
    ``cached_outputs`` (recorded output ids count as cached, as each request's
    ``cache_output`` says) or a warm cache it is reached with unbounded capacity, and is a
    bound below that; so it is where ``max_match_tokens`` caps a request.

    Cost: O(bytes of the keys + spans walked), see `OptimalMeter`.
    """
    meter = OptimalMeter(page_size, exact_limit_bytes=exact_limit_bytes)
    for key in warm:
        meter.add_warm(key)
    for request in each_sample(requests):
        output_key = computed_key(request) if cached_outputs else None
        meter.add(
            request.key,
            request.prompt_tokens,
            output_key,
            max_match_tokens=request.max_match_tokens,
        )
    return meter.bound()


def computed_key(request: Request) -> PrefixKey | None:
    """Return the key of what the request leaves in a cache, prompt and recorded output.

    The last sampled token has no KV yet; ``cache_output`` and ``abort_after_tokens`` cut the
    rest. None when the output ids are unknown, when nothing of it is cached, and for
    block-hash keys.
    """
    ids = request.recorded_output_ids
    if ids is None or request.cache_output == "none" or request.key.kind is KeyKind.BLOCKS:
        return None
    kept = len(ids) - 1
    if request.cache_output == "visible" and request.visible_tokens is not None:
        kept = min(kept, request.visible_tokens)
    if request.abort_after_tokens is not None:
        kept = min(kept, request.abort_after_tokens)
    if kept < 1:
        return None
    whole = request.key[:]
    whole.extend(ids[:kept])
    return whole
