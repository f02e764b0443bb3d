"""RematchQueue: the plain exact queue. Matches every waiting request again after a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from radixcache import Namespace, PrefixCache, PrefixKey
from radixcache.errors import IntegrityError
from scheduler.policies import SchedulePolicy, SortKey
from scheduler.request import RequestState
from scheduler.waiting_queue import Candidate

__all__ = ["RematchQueue"]


class _Leader:
    """An admitted request and the part of its path that is pending."""

    __slots__ = ("end", "key", "start")

    def __init__(self, key: PrefixKey, start: int, end: int) -> None:
        self.key = key
        self.start = start
        self.end = end


class RematchQueue:
    """A ``WaitingQueue`` that is right by construction and slow when many requests wait.

    Every request is peeked again when the cache has changed since the last look. It is held
    if some leader's pending part holds the page right after its cached prefix; with
    ``hold=False`` nothing is ever pending.

    Cost: O(waiting · (one peek + leaders)) at the first look after a change, O(waiting)
    otherwise; the other calls are O(1).
    """

    __slots__ = (
        "_cache",
        "_changed",
        "_hold",
        "_leaders",
        "_on_unneeded",
        "_page_bytes",
        "_page_size",
        "_policy",
        "_ranked",
        "_states",
    )

    def __init__(
        self,
        cache: PrefixCache,
        policy: SchedulePolicy,
        *,
        hold: bool = True,
        on_unneeded: Callable[[Namespace, bytes], None] | None = None,
    ) -> None:
        self._cache = cache
        self._hold = hold
        self._on_unneeded = on_unneeded
        self._policy = policy
        self._page_size = cache.page_size
        self._page_bytes = cache.kind.page_bytes(cache.page_size)
        self._states: dict[int, RequestState] = {}
        self._leaders: dict[int, _Leader] = {}
        self._ranked: list[tuple[SortKey, Candidate, int]] = []
        self._changed = False
        cache.add_observer(self)

    def close(self) -> None:
        """Stop watching the cache; the queue is of no use afterwards."""
        self._cache.remove_observer(self)

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, state: object) -> bool:
        return isinstance(state, RequestState) and self._states.get(state.arrival_seq) is state

    def begin_pass(self, now: float) -> None:
        """Do nothing: the order is made anew after every change."""

    def prefilled(self, tokens: int) -> None:
        """Do nothing: the order does not age."""

    def add(self, state: RequestState) -> None:
        """Take in an arrival, or a request that was retracted."""
        assert state.arrival_seq not in self._states
        self._states[state.arrival_seq] = state
        self._changed = True

    def remove(self, state: RequestState) -> None:
        """Forget a waiting request that was aborted."""
        del self._states[state.arrival_seq]
        self._changed = True
        if self._on_unneeded is not None:
            end = state.cap_tokens // self._page_size * self._page_bytes
            self._on_unneeded(state.key.namespace, state.key.data[:end])

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        """Let a request go; the rest of its path is pending."""
        self.remove(state)
        full = len(state.key) // self._page_size * self._page_size
        end = min(state.prefill_tokens // self._page_size * self._page_size, full)
        if self._hold and matched_tokens < end:
            self._leaders[state.arrival_seq] = _Leader(state.key, matched_tokens, end)

    def protected_tokens(self, namespace: Namespace, key_bytes: bytes) -> int:
        """Return the longest prefix of ``key_bytes``, in tokens, that a waiting request needs.

        Cost: O(waiting) memory comparisons a page of the answer.
        """
        needed = [
            state.key.data[: state.cap_tokens // self._page_size * self._page_bytes]
            for state in self._states.values()
            if state.key.namespace == namespace
        ]
        end = self._page_bytes
        while end <= len(key_bytes) and any(n.startswith(key_bytes[:end]) for n in needed):
            end += self._page_bytes
        return (end // self._page_bytes - 1) * self._page_size

    def published(self, state: RequestState, tokens: int) -> None:
        """Learn that the path of an admitted request is computed up to ``tokens``."""
        leader = self._leaders.get(state.arrival_seq)
        if leader is None:
            return
        self._changed = True
        upto = min(tokens // self._page_size * self._page_size, leader.end)
        leader.start = max(leader.start, upto)
        # A path the cache did not keep is of no use to anybody: nothing hangs in the air.
        if leader.start == leader.end or self._cached(leader.key, leader.start) < leader.start:
            del self._leaders[state.arrival_seq]

    def given_up(self, state: RequestState) -> None:
        """Learn that what is still pending of an admitted request never comes."""
        if self._leaders.pop(state.arrival_seq, None) is not None:
            self._changed = True

    def candidates(self) -> Iterator[Candidate]:
        """Yield the waiting requests, best first, as of now."""
        for _, candidate, _ in self._order():
            yield candidate

    def look(self, state: RequestState) -> Candidate:
        """Return one waiting request as it is now. Cost: O(leaders) and a peek."""
        return self._look(state)[1]

    @property
    def changes(self) -> int | None:
        """None: what changed is not counted."""
        return None

    @property
    def backlog_tokens(self) -> int:
        """Uncached tokens of all waiting requests."""
        return sum(c.state.prefill_tokens - c.matched_tokens for _, c, _ in self._order())

    @property
    def matched_tokens(self) -> int:
        """Cached tokens of all waiting requests."""
        return sum(candidate.matched_tokens for _, candidate, _ in self._order())

    @property
    def pending_optimal_tokens(self) -> int:
        """Tokens of the distinct pages that waiting requests need and nobody computes yet.

        Cost: O(waiting · log waiting) and the keys compared.
        """
        spaces: dict[Namespace, list[tuple[RequestState, int]]] = {}
        for _, candidate, covered in self._order():
            space = spaces.setdefault(candidate.state.key.namespace, [])
            space.append((candidate.state, covered))
        total = 0
        for space in spaces.values():
            space.sort(key=lambda item: item[0].key.data)
            before: PrefixKey | None = None
            counted = 0  # tokens of the path before that are counted or need no counting
            for state, covered in space:
                shared = 0
                if before is not None:
                    shared = state.key.common_prefix_tokens(before, self._page_size)
                known = max(min(shared, counted), covered)
                total += max(state.cap_tokens - known, 0)
                counted = max(state.cap_tokens, known)
                before = state.key
        return total

    def check(self) -> None:
        """Verify that what is remembered is what a look gives now.

        Raises:
            IntegrityError: it is not.

        """
        if self._changed:
            return
        for _, candidate, _ in self._ranked:
            seen = self._cached(candidate.state.key, candidate.state.cap_tokens)
            if seen != candidate.matched_tokens:
                raise IntegrityError(
                    f"{candidate.state!r} is thought to match {candidate.matched_tokens}, "
                    f"not {seen} tokens"
                )
        if [c.state for _, c, _ in self._ranked] != sorted(
            self._states.values(), key=lambda state: self._look(state)[0]
        ):
            raise IntegrityError("the waiting requests are not in the order of the policy")

    # -- the cache's observer ----------------------------------------------------------

    def on_stored(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Note that the cache has changed."""
        self._changed = True

    def on_removed(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Note that the cache has changed."""
        self._changed = True

    def on_cleared(self, namespace: Namespace | None) -> None:
        """Note that the cache has changed; what was built on the cleared part never comes."""
        self._changed = True
        for seq, leader in list(self._leaders.items()):
            if leader.start and namespace in {None, leader.key.namespace}:
                del self._leaders[seq]

    # -- inside ------------------------------------------------------------------------

    def _order(self) -> list[tuple[SortKey, Candidate, int]]:
        if self._changed:
            self._ranked = sorted(map(self._look, self._states.values()), key=lambda item: item[0])
            self._changed = False
        return self._ranked

    def _cached(self, key: PrefixKey, limit_tokens: int) -> int:
        return self._cache.peek(key, limit_tokens).prefix_tokens

    def _look(self, state: RequestState) -> tuple[SortKey, Candidate, int]:
        """Return (rank, candidate, length it will have once leaders are done)."""
        matched = covered = self._cached(state.key, state.cap_tokens)
        held = False
        if matched < state.cap_tokens and self._leaders:
            after = (matched // self._page_size + 1) * self._page_bytes
            start = state.key.data[:after]
            for leader in self._leaders.values():
                if (
                    leader.start <= matched < leader.end
                    and leader.key.namespace == state.key.namespace
                    and leader.key.data.startswith(start)
                ):
                    held = True
                    common = state.key.common_prefix_tokens(leader.key, self._page_size)
                    covered = max(covered, min(common, leader.end, state.cap_tokens))
        rank = self._policy.across(covered, self._policy.within(state))
        return rank, Candidate(state, matched, held), covered
