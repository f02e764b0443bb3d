"""What a request touches in a cache, and how much of it can count as a hit: two definitions."""

from __future__ import annotations

from typing import NamedTuple

from radixcache import KeyKind, Namespace
from radixcache.errors import ConfigError, KeyKindError
from scheduler.lookup_cache import usable_tokens
from scheduler.optimal import computed_key
from scheduler.request import Request

__all__ = ["Touch", "TouchRule"]


class Touch(NamedTuple):
    """The whole pages on one request's path, from the root on."""

    namespace: Namespace
    data: bytes
    """Packed; its first ``pages`` pages are touched, what is beyond them is not cached."""
    page_bytes: int
    pages: int
    """Pages touched: those of the prompt, and of the answer where it is cached."""
    usable_pages: int
    """Leading pages that this request can hit."""
    usable_tokens: int
    """Tokens that count when all usable pages hit; only the last of them may be partial."""
    prompt_tokens: int
    answered: bool
    """Whether a recorded answer is part of the path."""


class TouchRule:
    """Says what each request touches; a request looks up its prompt, then touches its path.

    With ``last_token`` one token of each prompt has to be computed and a request's own
    ``max_match_tokens`` holds, as in an engine. Without it every page of the key can hit and
    hit tokens are min(page size * pages, prompt tokens), as cache simulators count. With
    ``cached_outputs`` recorded answers are touched too, as each request's ``cache_output``
    says; a token key then goes on behind its prompt.

    Raises: ConfigError for a page size below 1; KeyKindError for mixed kinds of keys.
    """

    __slots__ = ("_layout", "_page_bytes", "cached_outputs", "last_token", "page_size")

    def __init__(
        self, page_size: int, *, last_token: bool = True, cached_outputs: bool = False
    ) -> None:
        if page_size < 1:
            raise ConfigError(f"page_size is {page_size}: give at least 1 token a page")
        self.page_size = page_size
        self.last_token = last_token
        self.cached_outputs = cached_outputs
        self._layout: int | None = None
        self._page_bytes = 0

    def touch(self, request: Request) -> Touch:
        """Return what the request touches. Cost: O(1), O(key bytes) with a cached answer."""
        key, page = request.key, self.page_size
        if key.layout != self._layout:
            self._check_kind(request)
        page_bytes = self._page_bytes
        usable = usable_tokens(request, page, self.last_token)
        whole = computed_key(request) if self.cached_outputs else None
        data = key.data if whole is None else whole.data
        return Touch(
            key.namespace,
            data,
            page_bytes,
            len(data) // page_bytes,
            usable // page if self.last_token else len(key.data) // page_bytes,
            usable,
            request.prompt_tokens,
            whole is not None,
        )

    def _check_kind(self, request: Request) -> None:
        key, page = request.key, self.page_size
        if self._layout is not None:
            raise KeyKindError(
                f"request {request.rid} has a {key.kind.value} key, those before have another "
                "kind: give one kind of keys"
            )
        if key.kind is KeyKind.BLOCKS and key.page_size != page:
            raise KeyKindError(
                f"a key of {key.page_size}-token blocks for pages of {page} tokens: use the page "
                "size of the trace"
            )
        self._layout = key.layout
        self._page_bytes = key.kind.page_bytes(page)
