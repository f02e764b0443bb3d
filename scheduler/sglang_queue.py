"""SGLangQueue: SGLang's ``lpm`` as it ships, with its fallback; a baseline."""

from __future__ import annotations

from collections.abc import Iterator

from radixcache import KeyKind, Namespace, PrefixCache
from radixcache.errors import IntegrityError
from scheduler.policies import FCFS
from scheduler.request import RequestState
from scheduler.waiting_queue import Candidate
from scheduler.waiting_tree import WaitingTree

__all__ = ["SGLangQueue"]

_MOST_MATCHED = 128  # WAITING_QUEUE_PREFIX_MATCH_MAX
_FEW_TOKENS = 32  # IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD, ..._DEPRIORITIZE_THRESHOLD


class SGLangQueue:
    """A list that is sorted in place once a pass, if at most 128 requests wait.

    The pass matches every waiting request for real, which refreshes the ages in the cache,
    and puts longer matches first, ties as they stood. A request that matches at most 32
    tokens, and shares at least 32 with an earlier such request, goes last. Above 128 the
    list stays as it is: what is left of the last order, then the new arrivals. Nothing is
    ever held, and admissions within a pass do not change the order.

    The lengths it reports come from a ``WaitingTree`` beside the list, which SGLang has not.

    Cost: O(waiting) matches a pass, none above 128.

    Ref: SGLang 0.5.23 ``managers/schedule_policy.py`` (``_compute_prefix_matches``,
    ``_sort_by_longest_prefix``, ``_determine_active_policy``).
    """

    __slots__ = ("_cache", "_few_bytes", "_states", "_tree")

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        blocks = cache.kind is KeyKind.BLOCKS
        self._few_bytes = cache.kind.unit_bytes * (
            -(-_FEW_TOKENS // cache.page_size) if blocks else _FEW_TOKENS
        )
        self._states: dict[int, RequestState] = {}
        self._tree = WaitingTree(cache, FCFS(), hold=False)

    def close(self) -> None:
        """Stop watching the cache; the queue is of no use afterwards."""
        self._tree.close()

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, state: object) -> bool:
        return isinstance(state, RequestState) and self._states.get(state.arrival_seq) is state

    def begin_pass(self, now: float) -> None:
        """Match and sort, unless too many wait."""
        if len(self._states) > _MOST_MATCHED:
            return
        ranks: dict[int, float] = {}
        seen: set[tuple[Namespace, bytes]] = set()
        for seq, state in self._states.items():
            handle = self._cache.match(state.key, state.cap_tokens)
            ranks[seq] = -handle.prefix_tokens
            if handle.prefix_tokens <= _FEW_TOKENS:
                start = (state.key.namespace, state.key.data[: self._few_bytes])
                if start in seen:
                    ranks[seq] = float("inf")
                elif len(start[1]) == self._few_bytes:
                    seen.add(start)
            self._cache.release(handle)
        self._states = {
            seq: self._states[seq] for seq in sorted(self._states, key=ranks.__getitem__)
        }

    def prefilled(self, tokens: int) -> None:
        """Do nothing: the order does not age."""

    def add(self, state: RequestState) -> None:
        """Append an arrival, or a request that was retracted."""
        assert state.arrival_seq not in self._states
        self._states[state.arrival_seq] = state
        self._tree.add(state)

    def remove(self, state: RequestState) -> None:
        """Forget a waiting request that was aborted."""
        del self._states[state.arrival_seq]
        self._tree.remove(state)

    def candidates(self) -> Iterator[Candidate]:
        """Yield the waiting requests in the order of the last pass."""
        for state in self._states.values():
            yield self._tree.look(state)

    def look(self, state: RequestState) -> Candidate:
        """Return one waiting request as it is now. Cost: O(h)."""
        return self._tree.look(state)

    @property
    def changes(self) -> int | None:
        """None: every pass may sort anew."""
        return None

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        """Let a request go."""
        self.remove(state)

    def published(self, state: RequestState, tokens: int) -> None:
        """Do nothing: nobody is held."""

    def given_up(self, state: RequestState) -> None:
        """Do nothing: nobody is held."""

    @property
    def backlog_tokens(self) -> int:
        """Uncached tokens of all waiting requests. Cost: O(1)."""
        return self._tree.backlog_tokens

    @property
    def matched_tokens(self) -> int:
        """Cached tokens of all waiting requests. Cost: O(1)."""
        return self._tree.matched_tokens

    @property
    def pending_optimal_tokens(self) -> int:
        """Tokens of the distinct uncached pages that waiting requests need. Cost: O(1)."""
        return self._tree.pending_optimal_tokens

    def check(self) -> None:
        """Verify that the list and the tree hold the same requests, and the tree itself."""
        if len(self._tree) != len(self._states):
            raise IntegrityError(f"{len(self._states)} wait, the tree holds {len(self._tree)}")
        self._tree.check()
