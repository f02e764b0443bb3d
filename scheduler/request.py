"""Request: what was asked, by a client or by a row of a trace; RequestState: what happened."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from radixcache import KeyKind, PrefixKey

__all__ = ["CacheOutput", "Request", "RequestState", "RequestStatus", "TokenIds"]

CacheOutput = Literal["all", "none", "visible"]

TokenIds: TypeAlias = "array[int]"
"""Output token ids, in an ``array`` as wide as the request's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and what is wanted for it; never changes.

    ``prompt_tokens`` is n of every formula. It equals ``len(key)`` for token keys; a
    block-hash key covers only the full blocks, so there it may be larger.
    """

    rid: str
    key: PrefixKey
    prompt_tokens: int
    max_new_tokens: int
    arrival_s: float = 0.0
    """Seconds after the start of the trace; the scheduler itself reads only ``now``."""
    priority: int = 0
    """Larger runs first under the ``priority`` order; also given to the cache."""
    client_id: str | None = None
    session_id: str | None = None
    cache_output: CacheOutput = "all"
    """How much of the output is published: all of it, none, or the first ``visible_tokens``."""
    visible_tokens: int | None = None
    max_match_tokens: int | None = None
    """A cap on the usable prefix below the last-token rule (prompt log-probabilities)."""
    samples: int = 1
    """Answers wanted. A scheduler takes one a request: submit what ``fan_out`` makes of it."""
    abort_after_s: float | None = None
    """The client gives up so many seconds after the arrival. The scheduler never reads it."""
    abort_after_tokens: int | None = None
    """The client gives up when it has so many tokens. The scheduler never reads it."""
    recorded_output_tokens: int | None = None
    """The true output length, where a trace knows it. The scheduler never reads it."""
    recorded_output_ids: tuple[int, ...] | None = None
    """The true output token ids, where a trace has them. The scheduler never reads them."""


class RequestStatus(Enum):
    """Where a request is in its life; the last two are the ends."""

    WAITING = "waiting"
    PREFILL = "prefill"
    """Admitted; a part of its prompt is not scheduled yet."""
    DECODE = "decode"
    """Its whole prompt is computed or in flight."""
    FINISHED = "finished"
    ABORTED = "aborted"


class RequestState:
    """What happened to one request so far; written by the scheduler only.

    Lengths count tokens, times are the ``now`` of the call they happened in.
    """

    __slots__ = (
        "admitted_s",
        "arrival_seq",
        "bound_s",
        "bound_tokens",
        "cap_tokens",
        "finish_reason",
        "finished_s",
        "first_token_s",
        "hit_tokens",
        "key",
        "outputs",
        "overtaken_tokens",
        "page_size",
        "prefill_tokens",
        "recomputed_tokens",
        "request",
        "resumed_tokens",
        "retracted_tokens",
        "retractions",
        "rid",
        "status",
        "submitted_s",
    )

    def __init__(
        self, request: Request, *, arrival_seq: int, page_size: int, submitted_s: float
    ) -> None:
        self.request = request
        self.rid = request.rid
        self.arrival_seq = arrival_seq
        """Place in the order of arrival, kept for life."""
        self.page_size = page_size
        self.status = RequestStatus.WAITING
        self.key = request.key
        """The prompt, after a retraction followed by the output that may be published."""
        self.outputs: TokenIds = array("I" if request.key.kind is KeyKind.TOKENS else "Q")
        """The token ids sampled so far."""
        self.submitted_s = submitted_s
        self.admitted_s: float | None = None
        """Time of the first admission."""
        self.first_token_s: float | None = None
        self.finished_s: float | None = None
        self.finish_reason: str | None = None
        """"stop", "length", "abort", "capacity", or what the caller gave."""
        self.hit_tokens: int | None = None
        """Prompt tokens found in the cache at the first admission; never its own."""
        self.resumed_tokens = 0
        """Tokens found in the cache at later admissions, after retractions."""
        self.recomputed_tokens = 0
        """Tokens computed once more after retractions."""
        self.retractions = 0
        self.overtaken_tokens = 0
        """Uncached tokens of later arrivals that were admitted while it waited."""
        self.bound_tokens: int | None = None
        """What ``overtaken_tokens`` never exceeds; None without an overtake guard."""
        self.bound_s: float | None = None
        """``bound_tokens`` in seconds of prefill at the configured rate; None without either."""
        self.retracted_tokens = 0
        """Tokens that were computed when it was last retracted."""
        self.prefill_tokens = request.prompt_tokens
        """Tokens to have before the next one can be sampled: n, or n + o once retracted."""
        self.cap_tokens = 0
        """The usable prefix: whole pages, the last token left to compute."""
        self.renew_cap()

    @property
    def prompt_tokens(self) -> int:
        """N of every formula: the length of the prompt as it was asked."""
        return self.request.prompt_tokens

    @property
    def output_tokens(self) -> int:
        """Number of tokens sampled so far."""
        return len(self.outputs)

    @property
    def ended(self) -> bool:
        """Whether it reached its terminal state."""
        return self.finish_reason is not None

    def renew_cap(self) -> None:
        """Set ``cap_tokens`` from the tokens to prefill, the key and the request's own cap."""
        cap = min(self.prefill_tokens - 1, len(self.key))
        if self.request.max_match_tokens is not None:
            cap = min(cap, self.request.max_match_tokens)
        self.cap_tokens = cap // self.page_size * self.page_size

    def _publishable_outputs(self) -> int:
        """Return how many of the leading output tokens may be part of a cached prefix."""
        request = self.request
        if request.cache_output == "none" or request.key.kind is KeyKind.BLOCKS:
            return 0
        if request.cache_output == "visible":
            return min(len(self.outputs), request.visible_tokens or 0)
        return len(self.outputs)

    def publishable_tokens(self) -> int:
        """Return the length of ``publishable_key`` without making it."""
        return len(self.request.key) + self._publishable_outputs()

    def publishable_key(self) -> PrefixKey:
        """Return the key of the prompt and of the output that may be published.

        Cost: O(n) when there is new output, else O(1).
        """
        allowed = self._publishable_outputs()
        held = len(self.key) - len(self.request.key)
        if allowed > held:
            self.key = self.key[:]
            self.key.extend(self.outputs[held:allowed])
        return self.key

    def __repr__(self) -> str:
        return f"RequestState({self.rid!r}, #{self.arrival_seq}, {self.status.value})"
