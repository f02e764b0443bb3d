"""The waiting queue, said plainly: every question matches every waiting prompt anew."""

from __future__ import annotations

from radixcache import Namespace, PrefixCache, PrefixKey
from scheduler.policies import SchedulePolicy
from scheduler.request import RequestState
from scheduler.waiting_queue import Candidate

__all__ = ["WaitingModel"]

Page = tuple[Namespace, bytes]
"""A page, named by its namespace and the packed prefix that ends with it."""


class WaitingModel:
    def __init__(self, cache: PrefixCache, policy: SchedulePolicy, *, hold: bool) -> None:
        self.cache = cache
        self.policy = policy
        self.hold = hold
        self.size = cache.page_size
        self.width = cache.kind.page_bytes(cache.page_size)
        self.waiting: list[RequestState] = []
        # What admitted requests have yet to publish: (key, first page, stop page).
        self.claims: dict[int, tuple[PrefixKey, int, int]] = {}

    def page(self, key: PrefixKey, pages: int) -> Page:
        return key.namespace, key.data[: pages * self.width]

    def cached_pages(self, key: PrefixKey, pages: int) -> int:
        return self.cache.peek(key, pages * self.size).prefix_tokens // self.size

    def pending(self) -> set[Page]:
        return {
            self.page(key, pages + 1)
            for key, start, stop in self.claims.values()
            for pages in range(start, stop)
        }

    # -- events ------------------------------------------------------------------------

    def add(self, state: RequestState) -> None:
        self.waiting.append(state)

    def remove(self, state: RequestState) -> None:
        self.waiting.remove(state)

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        self.waiting.remove(state)
        start = matched_tokens // self.size
        stop = min(state.prefill_tokens, len(state.key)) // self.size
        if self.hold and stop > start:
            self.claims[state.arrival_seq] = (state.key, start, stop)

    def published(self, state: RequestState, tokens: int) -> None:
        if state.arrival_seq in self.claims:
            key, start, stop = self.claims[state.arrival_seq]
            upto = max(start, min(tokens // self.size, stop))
            self.claims[state.arrival_seq] = (key, upto, stop)
            self.drop_what_hangs_in_the_air()

    def given_up(self, state: RequestState) -> None:
        self.claims.pop(state.arrival_seq, None)

    def drop_what_hangs_in_the_air(self) -> None:
        """Forget claims that are done, or whose first page has no cached page before it."""
        self.claims = {
            seq: (key, start, stop)
            for seq, (key, start, stop) in self.claims.items()
            if start < stop and self.cached_pages(key, start) == start
        }

    # -- questions ---------------------------------------------------------------------

    def ranked(self) -> list[tuple[Candidate, Page]]:
        """Return every candidate in order, with the page its group is named by."""
        pending = self.pending()
        found = []
        for state in self.waiting:
            cap = state.cap_tokens // self.size
            cached = depth = self.cached_pages(state.key, cap)
            while depth < cap and self.page(state.key, depth + 1) in pending:
                depth += 1
            key = self.policy.across(depth * self.size, self.policy.within(state))
            candidate = Candidate(state, cached * self.size, depth > cached)
            found.append((key, candidate, self.page(state.key, depth)))
        found.sort(key=lambda item: item[0])
        return [(candidate, page) for _, candidate, page in found]

    def candidates(self) -> list[Candidate]:
        return [candidate for candidate, _ in self.ranked()]

    def best_of_groups(self) -> list[Candidate]:
        seen: set[Page] = set()
        best = []
        for candidate, page in self.ranked():
            if page not in seen:
                seen.add(page)
                best.append(candidate)
        return best

    @property
    def matched_tokens(self) -> int:
        return sum(candidate.matched_tokens for candidate in self.candidates())

    @property
    def backlog_tokens(self) -> int:
        return sum(state.prefill_tokens for state in self.waiting) - self.matched_tokens

    @property
    def pending_optimal_tokens(self) -> int:
        pending = self.pending()
        needed = {
            self.page(state.key, pages + 1)
            for state in self.waiting
            for pages in range(
                self.cached_pages(state.key, state.cap_tokens // self.size),
                state.cap_tokens // self.size,
            )
        }
        return len(needed - pending) * self.size

    def protected_tokens(self, namespace: Namespace, key_bytes: bytes) -> int:
        needed = {
            self.page(state.key, pages + 1)
            for state in self.waiting
            for pages in range(state.cap_tokens // self.size)
        }
        pages = 0
        while (namespace, key_bytes[: (pages + 1) * self.width]) in needed:
            if (pages + 1) * self.width > len(key_bytes):
                break
            pages += 1
        return pages * self.size
