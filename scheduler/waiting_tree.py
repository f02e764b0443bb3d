"""WaitingTree: the waiting requests in the exact order of a policy, kept incrementally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from radixcache import Namespace, PrefixCache
from radixcache.errors import IntegrityError
from scheduler.policies import SchedulePolicy
from scheduler.request import RequestState
from scheduler.waiting_check import check_trie
from scheduler.waiting_nodes import CACHED, PENDING, UNCACHED, Node, Waiting
from scheduler.waiting_queue import Candidate
from scheduler.waiting_trie import PromptTrie

__all__ = ["WaitingTree"]


class _Claim:
    """What an admitted request has yet to publish: from the end of ``anchor`` to ``end``.

    It lasts as long as the anchor is CACHED: without it the rest is of no use to others.
    """

    __slots__ = ("anchor", "end", "namespace")

    def __init__(self, namespace: Namespace, anchor: Node, end: Node) -> None:
        self.namespace = namespace
        self.anchor = anchor
        self.end = end


class WaitingTree:
    """A ``WaitingQueue`` whose order equals matching every waiting prompt anew, at any length.

    Waiting prompts, cut at their cap, share a trie for each namespace. A node is CACHED,
    PENDING (an admitted request is computing it) or UNCACHED. ``add`` and ``admit`` peek
    once, only where the trie does not reach; afterwards the cache's observer calls tell
    every change. A request is held when the page right after its cached prefix is PENDING;
    it is ranked by the length it will have. With ``hold=False`` nothing is ever PENDING.

    ``on_unneeded(namespace, key_bytes)`` is told when the cached prefix ``key_bytes`` is
    needed to its end by no waiting request any more.

    Any order ``across(matched, within(state))`` with a static ``within`` is exact.

    Cost: O(h log n) an event, h the nodes on one path and n the waiting requests. Storing
    or evicting a prefix touches none of the requests below it.

    Ref: README, How it works: the queue.
    """

    __slots__ = (
        "_cache",
        "_claims",
        "_hold",
        "_members",
        "_on_unneeded",
        "_page_bytes",
        "_page_size",
        "_policy",
        "_prefill_tokens",
        "_trie",
    )

    def __init__(
        self,
        cache: PrefixCache,
        policy: SchedulePolicy,
        *,
        hold: bool = True,
        on_unneeded: Callable[[Namespace, bytes], None] | None = None,
    ) -> None:
        """Watch ``cache`` from now on; call ``close`` when the cache outlives the queue."""
        self._cache = cache
        self._policy = policy
        self._hold = hold
        self._on_unneeded = on_unneeded
        self._page_size = cache.page_size
        self._page_bytes = cache.kind.page_bytes(cache.page_size)
        self._trie = PromptTrie(self._page_size, self._page_bytes, policy)
        self._members: dict[int, tuple[RequestState, Waiting]] = {}
        self._claims: dict[int, _Claim] = {}
        self._prefill_tokens = 0
        cache.add_observer(self)

    def close(self) -> None:
        """Stop watching the cache; the queue is of no use afterwards."""
        self._cache.remove_observer(self)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, state: object) -> bool:
        if not isinstance(state, RequestState):
            return False
        member = self._members.get(state.arrival_seq)
        return member is not None and member[0] is state

    @property
    def backlog_tokens(self) -> int:
        """Uncached tokens of all waiting requests. Cost: O(1)."""
        return self._prefill_tokens - self.matched_tokens

    @property
    def matched_tokens(self) -> int:
        """Cached tokens of all waiting requests. Cost: O(1)."""
        return self._trie.matched_pages * self._page_size

    @property
    def pending_optimal_tokens(self) -> int:
        """Tokens of the distinct pages that waiting requests need and nobody computes yet.

        Cost: O(1).
        """
        return self._trie.open_pages * self._page_size

    @property
    def changes(self) -> int | None:
        """A number that is another one when ``candidates`` may yield anything else. Cost: O(1)."""
        return self._trie.changes

    def begin_pass(self, now: float) -> None:
        """Do nothing: the order is right at all times."""

    def prefilled(self, tokens: int) -> None:
        """Do nothing: the order does not age."""

    def add(self, state: RequestState) -> None:
        """Take in an arrival, or a request that was retracted. Cost: O(h log n), one peek."""
        assert state.arrival_seq not in self._members
        key = state.key
        pages = state.cap_tokens // self._page_size
        root = self._trie.root(key.namespace)
        node = self._trie.path_to(root, key.data, pages, lambda: self._cached(state, pages))
        within = self._policy.within(state)
        waiting = Waiting(state.arrival_seq, node, key.data, state.prefill_tokens, within)
        self._members[state.arrival_seq] = (state, waiting)
        self._prefill_tokens += waiting.tokens
        self._trie.hang(waiting)

    def remove(self, state: RequestState) -> None:
        """Forget a waiting request that was aborted. Cost: O(h log n)."""
        self._take(state, None)

    def admit(self, state: RequestState, matched_tokens: int) -> None:
        """Let a request go; its path from ``matched_tokens`` to its last full page is PENDING.

        Call it when the matched prefix is pinned. Cost: O(h log n), one peek.
        """
        self._take(state, matched_tokens // self._page_size if self._hold else None)

    def published(self, state: RequestState, tokens: int) -> None:
        """Learn that an admitted request has published its path up to ``tokens``.

        Call it after the insert. What the cache did not keep is UNCACHED again, and then so
        is the rest of the path. Cost: O(h log n).
        """
        claim = self._claims.get(state.arrival_seq)
        if claim is None:
            return
        upto = min(tokens // self._page_size, claim.end.depth)
        if upto <= claim.anchor.depth:
            return
        released = [node for node in self._claimed(claim, upto) if node.depth <= upto]
        claim.anchor.anchors -= 1
        claim.anchor = released[-1]
        claim.anchor.anchors += 1
        self._disown(released)
        if claim.anchor is claim.end or claim.anchor.residency is not CACHED:
            self._drop_claims([state.arrival_seq])
        self._trie.tidy(claim.end, claim.namespace)

    def given_up(self, state: RequestState) -> None:
        """Learn that what is still PENDING of an admitted request never comes.

        Does nothing when nothing is. Cost: O(h log n).
        """
        claim = self._claims.get(state.arrival_seq)
        if claim is not None:
            self._drop_claims([state.arrival_seq])
            self._trie.tidy(claim.end, claim.namespace)

    # -- asking ------------------------------------------------------------------------

    def candidates(self) -> Iterator[Candidate]:
        """Yield the waiting requests, best first; nothing may change while it runs.

        Cost: O(1) for the first, O(log n) amortised for each further one.
        """
        group = self._trie.groups.top()
        if group is None:
            return
        assert type(group) is Node
        assert group.best is not None
        yield self._candidate(group, group.best)
        for group, waiting in islice(self._trie.ranked(), 1, None):
            yield self._candidate(group, waiting)

    def best_of_groups(self) -> Iterator[Candidate]:
        """Yield the best request of each group, best first. Cost: as ``candidates``."""
        for group in self._trie.ranked_groups():
            assert group.best is not None
            yield self._candidate(group, group.best)

    def look(self, state: RequestState) -> Candidate:
        """Return one waiting request as the queue sees it now. Cost: O(h)."""
        _, waiting = self._members[state.arrival_seq]
        node = waiting.node
        while node.residency is UNCACHED:
            assert node.parent is not None
            node = node.parent
        return self._candidate(node, waiting)

    def protected_tokens(self, namespace: Namespace, key_bytes: bytes) -> int:
        """Return the longest prefix of ``key_bytes``, in tokens, that a waiting request needs.

        Cost: O(h) and one memory comparison of the prefix.
        """
        node = self._trie.roots.get(namespace)
        pages = len(key_bytes) // self._page_bytes
        depth = 0
        while node is not None and depth == node.depth < pages:
            step = self._trie.follow(node, key_bytes, pages)
            if step is None or not step[0].count:
                break
            node, depth = step
        return depth * self._page_size

    def check(self) -> None:
        """Walk everything and raise IntegrityError on a broken invariant.

        Cost: O(nodes + waiting requests), one peek for each of these.
        """
        members = {seq: waiting for seq, (_, waiting) in self._members.items()}
        claims = [(claim.anchor, claim.end) for claim in self._claims.values()]
        check_trie(self._trie, members, claims)
        for state, waiting in self._members.values():
            cached = self._cached(state, waiting.node.depth) * self._page_size
            seen = self.look(state).matched_tokens
            if seen != cached:
                raise IntegrityError(f"{state!r} is thought to match {seen}, not {cached} tokens")
        if self._prefill_tokens != sum(waiting.tokens for waiting in members.values()):
            raise IntegrityError(f"{self._prefill_tokens} waiting tokens are counted wrongly")

    # -- the cache's observer ----------------------------------------------------------

    def on_stored(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Make the path CACHED up to ``stop_tokens``. Cost: O(h log n)."""
        trie, stop = self._trie, stop_tokens // self._page_size
        node = trie.roots.get(namespace)
        chain: list[Node] = []
        while node is not None and node.depth < stop:
            step = trie.follow(node, key_bytes, stop)
            if step is None:
                break
            child, depth = step
            whole = depth == child.depth
            if child.residency is not CACHED:
                chain.append(child if whole else trie.split(child, depth))
            if not whole:
                break
            node = child
        if chain:
            trie.strengthen(chain, CACHED)
            trie.tidy(chain[-1], namespace)

    def on_removed(
        self, namespace: Namespace, key_bytes: bytes, start_tokens: int, stop_tokens: int
    ) -> None:
        """Make the path from ``start_tokens`` on CACHED no longer. Cost: O(h log n)."""
        trie, stop = self._trie, stop_tokens // self._page_size
        start = start_tokens // self._page_size
        node = trie.roots.get(namespace)
        chain: list[Node] = []
        while node is not None and node.depth < stop:
            step = trie.follow(node, key_bytes, stop)
            if step is None or step[0].residency is not CACHED:
                break
            child, depth = step
            if depth > start:
                if node.depth < start:
                    trie.split(child, start)
                chain.append(child)
            if depth < child.depth:
                break
            node = child
        if not chain:
            return
        ends: list[Node] = []
        if any(node.anchors for node in chain):
            ends = self._drop_claims([q for q, c in self._claims.items() if c.anchor in chain])
        trie.weaken(chain)
        for node in (*ends, chain[-1]):
            trie.tidy(node, namespace)

    def on_cleared(self, namespace: Namespace | None) -> None:
        """Make everything of the namespace (None: of all) CACHED no longer.

        A request that had nothing cached before it still computes its whole path; what
        others have yet to publish hangs in the air, so it is PENDING no longer.
        Cost: O(its nodes · log n).
        """
        for space in [namespace] if namespace is not None else list(self._trie.roots):
            root = self._trie.roots.get(space)
            if root is None:
                continue
            nodes = _cached_below(root)
            gone = set(nodes)
            ends = self._drop_claims([q for q, c in self._claims.items() if c.anchor in gone])
            for node in reversed(nodes):
                self._trie.weaken([node])
            for node in reversed(nodes):
                self._trie.tidy_one(node)
            for node in ends:
                self._trie.tidy(node, space)

    # -- inside ------------------------------------------------------------------------

    def _cached(self, state: RequestState, pages: int) -> int:
        """Return how many of the first ``pages`` pages of a request the cache holds."""
        found = self._cache.peek(state.key, pages * self._page_size)
        return found.prefix_tokens // self._page_size

    def _candidate(self, group: Node, waiting: Waiting) -> Candidate:
        node = group
        while node.residency is PENDING:
            assert node.parent is not None
            node = node.parent
        state = self._members[waiting.seq][0]
        return Candidate(state, node.depth * self._page_size, node is not group)

    def _take(self, state: RequestState, claim_from: int | None) -> None:
        """Take a request out, and let it own its path from page ``claim_from`` on."""
        _, waiting = self._members.pop(state.arrival_seq)
        self._prefill_tokens -= waiting.tokens
        frontier = self._trie.take(waiting)
        unneeded = b""
        if not frontier.count and self._on_unneeded is not None:
            unneeded = waiting.data[: frontier.depth * self._page_bytes]
        waiting.retire()
        if claim_from is not None:
            self._claim(state, waiting.node, claim_from)
        namespace = state.key.namespace
        self._trie.tidy(waiting.node, namespace)
        if unneeded and self._on_unneeded is not None:
            self._on_unneeded(namespace, unneeded)

    def _claim(self, state: RequestState, node: Node, start: int) -> None:
        """Own the path of a request, ``node`` on it, from page ``start`` to its last full page."""
        key = state.key
        last = min(state.prefill_tokens, len(key)) // self._page_size
        if last <= start:
            return
        end = self._trie.path_to(node, key.data, last, lambda: self._cached(state, last))
        end.ends += 1
        nodes = self._trie.path_from(end, start, start)
        for owned in nodes:
            owned.owners += 1
        anchor = nodes[0].parent
        assert anchor is not None
        anchor.anchors += 1
        self._claims[state.arrival_seq] = _Claim(key.namespace, anchor, end)
        self._trie.strengthen([owned for owned in nodes if owned.residency is UNCACHED], PENDING)

    def _claimed(self, claim: _Claim, cut: int) -> list[Node]:
        return self._trie.path_from(claim.end, claim.anchor.depth, cut)

    def _drop_claims(self, seqs: Iterable[int]) -> list[Node]:
        """End claims; return their last nodes, which are not tidied yet."""
        ends = []
        for seq in seqs:
            claim = self._claims.pop(seq)
            claim.end.ends -= 1
            claim.anchor.anchors -= 1
            self._disown(self._claimed(claim, 0))
            ends.append(claim.end)
        return ends

    def _disown(self, nodes: Sequence[Node]) -> None:
        """Take one owner off each node of a chain."""
        for node in nodes:
            node.owners -= 1
        self._trie.weaken([node for node in nodes if node.residency is PENDING and not node.owners])


def _cached_below(root: Node) -> list[Node]:
    """Return the CACHED nodes below ``root``, parents first."""
    nodes: list[Node] = []
    unseen = [root]
    while unseen:
        found = [n for n in unseen.pop().children.values() if n.residency is CACHED]
        nodes += found
        unseen += found
    return nodes
