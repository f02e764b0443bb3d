"""Edits of a what-if: what becomes of one request, its namespace, output or prompt.

An edit looks at one request alone and always gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

from radixcache import KeyKind, PrefixKey
from radixcache.errors import ConfigError
from scheduler.analysis.spans import DivergingSpan, moved
from scheduler.request import Request

__all__ = ["DropOutputs", "Edit", "MoveSpans", "Salt", "SaltBy", "StripReasoning", "check_kind"]

SaltBy = Literal["session", "tenant", "none"]


class Edit(Protocol):
    """A change of the requests, one by one."""

    needs_text: ClassVar[bool]
    """Whether it does nothing to block ids, which stand for whole blocks of unknown tokens."""

    @property
    def label(self) -> str:
        """The name of its row."""
        ...

    @property
    def missing(self) -> str:
        """What is wrong, and what to do, where no request has what it is about."""
        ...

    def edited(self, request: Request) -> Request:
        """Return the request as it would be; itself where nothing changes."""
        ...

    def concerns(self, before: Request, after: Request) -> bool:
        """Tell whether a request has what the change is about."""
        ...


def check_kind(edit: Edit, kind: KeyKind) -> None:
    """Raise ConfigError for block ids that an edit cannot change."""
    if edit.needs_text and kind is KeyKind.BLOCKS:
        raise ConfigError(
            f"{edit.label}: this trace has ids of whole blocks and no tokens, so its prompts and "
            "outputs cannot be changed: leave it out"
        )


@dataclass(frozen=True, slots=True)
class Salt:
    """Requests of different sessions, or tenants, share nothing; or nobody is kept apart.

    It takes the place of the salt that a request has; model and adapter stay apart anyway. A
    request without a session is one of its own, those without a tenant are one tenant.
    """

    by: SaltBy
    needs_text: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The name of its row."""
        return "no salt" if self.by == "none" else f"salt by {self.by}"

    @property
    def missing(self) -> str:
        """What to do where no request names a session, or a tenant."""
        name = "session (session_id)" if self.by == "session" else "tenant (client, user)"
        return f"salt by {self.by}: no request of this trace names its {name}: leave it out"

    def concerns(self, before: Request, after: Request) -> bool:
        """Tell whether the request says whose it is."""
        if self.by == "session":
            return before.session_id is not None
        return self.by == "none" or before.client_id is not None

    def edited(self, request: Request) -> Request:
        """Return the request in the namespace of its salt."""
        salt = None
        if self.by == "session":
            name = request.session_id
            salt = f"request {request.rid}" if name is None else f"session {name}"
        elif self.by == "tenant" and request.client_id is not None:
            salt = f"tenant {request.client_id}"
        namespace = request.key.namespace
        if salt == namespace.cache_salt:
            return request
        key = request.key[:]
        key.namespace = namespace._replace(cache_salt=salt)
        return replace(request, key=key)


@dataclass(frozen=True, slots=True)
class DropOutputs:
    """Only prompts stay cached: an answer's pages are free at once."""

    label: ClassVar[str] = "drop outputs"
    missing: ClassVar[str] = (
        "drop outputs: no request of this trace has recorded output ids, so none is cached: "
        "leave it out"
    )
    needs_text: ClassVar[bool] = True

    def concerns(self, before: Request, after: Request) -> bool:
        """Tell whether the request has an output that was cached."""
        return after is not before

    def edited(self, request: Request) -> Request:
        """Return the request without a cached output."""
        if request.recorded_output_ids is None or request.cache_output == "none":
            return request
        return replace(request, cache_output="none")


@dataclass(frozen=True, slots=True)
class StripReasoning:
    """Reasoning is left out of later prompts, so nothing behind it is worth caching.

    What stands from a ``start`` mark to the next ``stop`` mark (packed token ids, 4 bytes
    each) is taken out of every prompt. Of an output only what comes before its reasoning
    stays cached; where no mark is in it, its first ``visible_tokens``, if the row says so.
    """

    start: bytes = b""
    stop: bytes = b""
    label: ClassVar[str] = "strip reasoning"
    missing: ClassVar[str] = (
        "strip reasoning: no prompt or output of this trace has the marks of reasoning, and no row "
        "says visible_tokens: give other marks, or leave it out"
    )
    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Reject marks that are no whole tokens."""
        if bool(self.start) != bool(self.stop) or len(self.start) % 4 or len(self.stop) % 4:
            raise ConfigError("reasoning marks are packed token ids, a start and a stop: give both")

    def concerns(self, before: Request, after: Request) -> bool:
        """Tell whether the request had reasoning in it, or says how much is visible."""
        return after is not before

    def edited(self, request: Request) -> Request:
        """Return the request without the reasoning of earlier answers."""
        visible = self._visible_tokens(request)
        if visible is not None and request.cache_output != "none":
            request = replace(request, cache_output="visible", visible_tokens=visible)
        key = request.key
        if not self.start or key.kind is not KeyKind.TOKENS:
            return request
        data = self._stripped(key.data)
        if data is key.data:
            return request
        shorter = PrefixKey.from_packed(data, key.kind, key.namespace)
        return replace(request, key=shorter, prompt_tokens=len(shorter))

    def _visible_tokens(self, request: Request) -> int | None:
        """Return how much of the output comes before reasoning; None where nothing says so."""
        ids = request.recorded_output_ids
        if ids and self.start and request.key.kind is KeyKind.TOKENS:
            data = PrefixKey(ids).data
            start, stop = _found(data, self.start, 0), _found(data, self.stop, 0)
            if stop >= 0 and (start < 0 or stop < start):
                return 0  # the prompt's template began it
            if start >= 0:
                return start // 4
        return None if request.cache_output == "visible" else request.visible_tokens

    def _stripped(self, data: bytes) -> bytes:
        """Return packed tokens without what lies between marks; themselves without any."""
        kept, at = [], 0
        while (start := _found(data, self.start, at)) >= 0:
            stop = _found(data, self.stop, start + len(self.start))
            if stop < 0:
                break
            kept.append(data[at:start])
            at = stop + len(self.stop)
        return b"".join([*kept, data[at:]]) if at else data


def _found(data: bytes, mark: bytes, start: int) -> int:
    """Return where a mark begins with a token, or -1."""
    at = data.find(mark, start)
    while at >= 0 and at % 4:
        at = data.find(mark, at + 1)
    return at


@dataclass(frozen=True, slots=True)
class MoveSpans:
    """Short spans that differ (a date, an id) stand behind the text that all prompts share.

    ``spans`` are those of ``find_spans`` on the same requests.
    """

    spans: tuple[DivergingSpan, ...]
    needs_text: ClassVar[bool] = True
    missing: ClassVar[str] = (
        "move timestamp: no prompts of this trace share a page of text behind a short span that "
        "differs: leave it out"
    )

    @property
    def label(self) -> str:
        """The name of its row."""
        return "move timestamp" if len(self.spans) < 2 else f"move {len(self.spans)} spans"

    def concerns(self, before: Request, after: Request) -> bool:
        """Tell whether the request has one of the spans."""
        return after is not before

    def edited(self, request: Request) -> Request:
        """Return the request with its first span behind the shared text."""
        for span in self.spans:
            after = moved(request, span)
            if after is not request:
                return after
        return request
