"""Queues of the orders that need more than a static key; all of them on the waiting tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from radixcache import Namespace, PrefixCache
from radixcache.errors import ConfigError
from scheduler.orders import DLPM, HRRN, KLPM, AgedTiesLPM, DFSWeight, LPMAging
from scheduler.policies import SchedulePolicy
from scheduler.request import RequestState
from scheduler.waiting_nodes import UNCACHED, Node
from scheduler.waiting_queue import Candidate
from scheduler.waiting_tree import WaitingTree

__all__ = [
    "AgedTiesQueue",
    "AgingQueue",
    "DFSWeightQueue",
    "DLPMQueue",
    "HRRNQueue",
    "KLPMQueue",
    "make_tree",
]

Unneeded = Callable[[Namespace, bytes], None]


class AgingQueue(WaitingTree):
    """Counts the passes of ``LPMAging``. Cost: as ``WaitingTree``."""

    def __init__(
        self,
        cache: PrefixCache,
        policy: LPMAging,
        *,
        hold: bool = False,
        on_unneeded: Unneeded | None = None,
    ) -> None:
        super().__init__(cache, policy, hold=hold, on_unneeded=on_unneeded)
        self._aging = policy

    def begin_pass(self, now: float) -> None:
        """Let everybody who waits grow older by one pass."""
        self._aging.passes += 1


class AgedTiesQueue(WaitingTree):
    """Counts the prefill tokens of ``AgedTiesLPM``. Cost: as ``WaitingTree``."""

    def __init__(
        self,
        cache: PrefixCache,
        policy: AgedTiesLPM,
        *,
        hold: bool = False,
        on_unneeded: Unneeded | None = None,
    ) -> None:
        super().__init__(cache, policy, hold=hold, on_unneeded=on_unneeded)
        self._aging = policy

    def prefilled(self, tokens: int) -> None:
        """Let everybody who waits have waited for these tokens."""
        self._aging.prefilled_tokens += tokens


class KLPMQueue(WaitingTree):
    """Puts the oldest request in front for every k-th admission. Cost: O(log n) more."""

    def __init__(
        self,
        cache: PrefixCache,
        policy: KLPM,
        *,
        hold: bool = False,
        on_unneeded: Unneeded | None = None,
    ) -> None:
        if policy.k < 1:
            raise ConfigError(f"k is {policy.k}: give at least 1")
        super().__init__(cache, policy, hold=hold, on_unneeded=on_unneeded)
        self._k = policy.k
        self._picks = 0
        self._arrivals: list[int] = []

    def add(self, state: RequestState) -> None:
        """Take in an arrival, or a request that was retracted."""
        super().add(state)
        heappush(self._arrivals, state.arrival_seq)

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        """Let a request go; count the pick."""
        super().admit(state, matched_tokens)
        self._picks += 1

    def candidates(self) -> Iterator[Candidate]:
        """Yield in LPM order, with the oldest in front when its turn has come."""
        if (self._picks + 1) % self._k or not self._members:
            yield from super().candidates()
            return
        while self._arrivals[0] not in self._members:
            heappop(self._arrivals)
        oldest = self._members[self._arrivals[0]][0]
        yield self.look(oldest)
        for candidate in super().candidates():
            if candidate.state is not oldest:
                yield candidate


class HRRNQueue(WaitingTree):
    """Ranks by (prefill tokens processed since the arrival) / (own uncached tokens).

    Tokens count when the step that computes them is planned, chunk by chunk, as in SGLang.
    Cost: O(n) for each first candidate, O(log n) for each further one.
    """

    def __init__(
        self,
        cache: PrefixCache,
        policy: HRRN,
        *,
        hold: bool = False,
        on_unneeded: Unneeded | None = None,
    ) -> None:
        super().__init__(cache, policy, hold=hold, on_unneeded=on_unneeded)
        self._processed = 0
        self._at_arrival: dict[int, int] = {}

    def add(self, state: RequestState) -> None:
        """Take in an arrival, or a request that was retracted."""
        super().add(state)
        self._at_arrival[state.arrival_seq] = self._processed

    def _take(self, state: RequestState, claim_from: int | None) -> None:
        super()._take(state, claim_from)
        del self._at_arrival[state.arrival_seq]

    def prefilled(self, tokens: int) -> None:
        """Let everybody who waits have waited for these tokens."""
        self._processed += tokens
        self._trie.changes += bool(self._members)

    def candidates(self) -> Iterator[Candidate]:
        """Yield the highest ratio first, ties by arrival."""
        ranked = []
        for seq, (state, _) in self._members.items():
            candidate = self.look(state)
            uncached = state.prefill_tokens - candidate.matched_tokens
            waited = self._processed - self._at_arrival[seq]
            ranked.append((-waited / uncached, seq, candidate))
        heapify(ranked)
        while ranked:
            yield heappop(ranked)[2]


class DFSWeightQueue(WaitingTree):
    """Walks the cached part of the trie depth first, children with more requests first.

    A node's own requests follow those below it, by arrival; those that match nothing are
    last. The cache's namespaces are children of one root, as in SGLang; children of equal
    weight stand in the order in which the waiting requests made them.
    Cost: O(children of the nodes passed) for each candidate.
    """

    def candidates(self) -> Iterator[Candidate]:
        """Yield in depth-first order."""
        roots = list(self._trie.roots.values())
        stack = [(node, False) for root in roots for node in self._children(root)]
        stack.sort(key=lambda entry: entry[0].count)
        while stack:
            node, below_done = stack.pop()
            if not below_done:
                stack.append((node, True))
                stack += [(child, False) for child in self._children(node)]
            elif node.best is not None:
                yield from self._group(node)
        matchless = [candidate for root in roots if root.best for candidate in self._group(root)]
        matchless.sort(key=lambda candidate: candidate.state.arrival_seq)
        yield from matchless

    def _children(self, node: Node) -> list[Node]:
        """Return the children that requests match, the heaviest last."""
        found = [c for c in node.children.values() if c.residency is not UNCACHED and c.count]
        found.reverse()
        found.sort(key=lambda child: child.count)
        return found

    def _group(self, node: Node) -> Iterator[Candidate]:
        for group, waiting in self._trie.ranked_in(node):
            yield self._candidate(group, waiting)


class DLPMQueue(WaitingTree):
    """Offers only requests of clients with a positive deficit, in LPM order.

    When no waiting client has one, every non-positive deficit grows by the quantum until
    one has. An admission costs its client the uncached tokens, an output token its weight
    (read when candidates are asked for). Keeps one number for every client seen.
    Cost: O(running + waiting clients) and O(log n) for each request passed over.
    """

    def __init__(
        self,
        cache: PrefixCache,
        policy: DLPM,
        *,
        hold: bool = False,
        on_unneeded: Unneeded | None = None,
    ) -> None:
        if policy.quantum < 1:
            raise ConfigError(f"quantum is {policy.quantum}: give at least 1")
        super().__init__(cache, policy, hold=hold, on_unneeded=on_unneeded)
        self._weights = policy
        self._deficits: dict[str | None, int] = {}
        self._clients: Counter[str | None] = Counter()
        self._running: dict[int, tuple[RequestState, int]] = {}

    @property
    def changes(self) -> int | None:
        """None: every token of a running request counts."""
        return None

    def deficit_of(self, client_id: str | None) -> int:
        """Return what a client may still use before others are preferred."""
        return self._deficits.get(client_id, 0)

    def add(self, state: RequestState) -> None:
        """Take in an arrival, or a request that was retracted."""
        super().add(state)
        client = state.request.client_id
        self._clients[client] += 1
        self._deficits.setdefault(client, 0)

    def _take(self, state: RequestState, claim_from: int | None) -> None:
        super()._take(state, claim_from)
        client = state.request.client_id
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        """Let a request go at its client's cost."""
        super().admit(state, matched_tokens)
        extend = state.prefill_tokens - matched_tokens
        self._deficits[state.request.client_id] -= self._weights.prefill_weight * extend
        self._running[state.arrival_seq] = (state, state.output_tokens)

    def given_up(self, state: RequestState) -> None:
        """Learn that an admitted request has ended or was retracted."""
        super().given_up(state)
        if state.arrival_seq in self._running:
            self._charge(state.arrival_seq)
            del self._running[state.arrival_seq]

    def candidates(self) -> Iterator[Candidate]:
        """Yield the requests of clients with a positive deficit."""
        for seq in self._running:
            self._charge(seq)
        if not any(self._deficits[client] > 0 for client in self._clients):
            self._refill()
        for candidate in super().candidates():
            if self._deficits[candidate.state.request.client_id] > 0:
                yield candidate

    def _charge(self, seq: int) -> None:
        state, charged = self._running[seq]
        fresh = state.output_tokens - charged
        if fresh:
            self._deficits[state.request.client_id] -= self._weights.decode_weight * fresh
            self._running[seq] = (state, state.output_tokens)

    def _refill(self) -> None:
        if not self._clients:
            return
        quantum = self._weights.quantum
        rounds = min(-self._deficits[client] // quantum + 1 for client in self._clients)
        for client, deficit in self._deficits.items():
            if deficit <= 0:
                self._deficits[client] += quantum * min(rounds, -deficit // quantum + 1)


def make_tree(
    policy: SchedulePolicy,
    cache: PrefixCache,
    *,
    hold: bool,
    on_unneeded: Unneeded | None = None,
) -> WaitingTree:
    """Return the waiting tree that serves ``policy`` exactly.

    Any policy of its own with a static ``within`` gets the plain tree.
    """
    if isinstance(policy, LPMAging):
        return AgingQueue(cache, policy, hold=hold, on_unneeded=on_unneeded)
    if isinstance(policy, AgedTiesLPM):
        return AgedTiesQueue(cache, policy, hold=hold, on_unneeded=on_unneeded)
    if isinstance(policy, KLPM):
        return KLPMQueue(cache, policy, hold=hold, on_unneeded=on_unneeded)
    if isinstance(policy, HRRN):
        return HRRNQueue(cache, policy, hold=hold, on_unneeded=on_unneeded)
    if isinstance(policy, DFSWeight):
        return DFSWeightQueue(cache, policy, hold=hold, on_unneeded=on_unneeded)
    if isinstance(policy, DLPM):
        return DLPMQueue(cache, policy, hold=hold, on_unneeded=on_unneeded)
    return WaitingTree(cache, policy, hold=hold, on_unneeded=on_unneeded)
