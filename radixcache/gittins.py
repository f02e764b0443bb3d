"""GhostGittins (experimental): evict by the chance of reuse that finished prompts teach."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from radixcache.errors import ConfigError
from radixcache.eviction import EvictionPolicy
from radixcache.prefix_marks import PrefixMarks
from radixcache.tree import Node

__all__ = ["GhostGittins", "ReuseGaps", "gittins_indices"]

_CLASSES = 4
_RERANK_COST = 16
_AGES: tuple[float, ...] = (0.0, *(1.5**step for step in range(34)))
"""Where the bins of ages start, in finished prompts; the last one has no end."""
_PRIOR = 8.0


class GhostGittins(EvictionPolicy):
    """Experimental: first the leaf that promises the fewest hits for the room it takes.

    A prompt *finishes* when the pin at its end is the last to go. The ends of finished
    prompts are remembered, of evicted ones too, each with its turn class: 0, 1, 2 or 3+
    earlier ends on its path. When a later prompt runs through an end, that end was reused;
    its age then, counted in prompts finished since, goes into the histogram of its class,
    and ends not reused yet count as censored. A leaf has the class and age of the prompt
    that used it last, and its rank is the Gittins index of that age: the most reuses for the
    time held that any plan "keep until age b, then evict" can promise. Ties, and everything
    until ``first_finishes`` prompts finished, go least recently used first. What was counted
    weighs half as much after each ``max_ends`` finishes.

    The index of an age may rise or fall as time passes, so time stands still for it: ages
    are read off a clock that is set once in leaves / 16 finishes, when all leaves are ranked
    again, and the histograms are read anew once in ends / 16. Between two settings every
    rank is constant and the order of eviction exact; an age is behind by at most leaves / 16
    finishes.

    It was not below LRU at any capacity on the Mooncake trace, and is no promise: where ages
    tell little, LRU has been ahead by 0.3 points.

    Memory: about 200 bytes for each of the last ``max_ends`` ends, and as much a page.

    Ref: Gittins, Bandit processes and dynamic allocation indices (1979); the histograms are
    life tables, Cutler and Ederer, Maximum utilization of the life table method (1958).
    """

    name = "ghost-gittins"
    rank_can_fall = True

    def __init__(self, max_ends: int = 65_536, first_finishes: int = 100) -> None:
        if max_ends < 1:
            raise ConfigError(f"max_ends is {max_ends}: remember at least 1 end")
        self.max_ends = max_ends
        self.first_finishes = first_finishes
        self.gaps = ReuseGaps()
        self._marks = PrefixMarks()
        self._ends: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._uses: dict[int, tuple[int, int]] = {}
        self._indices: list[list[float]] = []
        self._finishes = 0
        self._clock = 0
        self._learned = 0
        self._started = False

    def start(self, page_size: int) -> None:
        """Serve one cache only."""
        if self._started:
            raise ConfigError(f"{self!r} serves a cache already: make one for each cache")
        self._started = True

    def rank(self, node: Node) -> tuple[float, int]:
        """Return the index of the age by the clock, then the last touch."""
        if not self._indices:
            return 0.0, node.tick
        turn, finish = self._uses[node.pages[-1]]
        return self._indices[turn][_bin_of(self._clock - finish)], node.tick

    def on_release(self, end: Node, leaves: int) -> bool:
        """Note the end of a prompt and the reuse of an earlier one; set the clock if due."""
        pages, _ = self._marks.learn(end)
        self._finishes = now = self._finishes + 1
        turn = self._turn_of(pages, now)
        self._ends[self._marks.of_page[pages[-1]]] = (turn, now)
        if len(self._ends) > self.max_ends:
            _, (old_turn, finish) = self._ends.popitem(last=False)
            self.gaps.lost(old_turn, now - finish)
        self._uses.update(dict.fromkeys(pages, (turn, now)))
        if now % self.max_ends == 0:
            self.gaps.fade()
        if now < self.first_finishes or (now - self._clock) * _RERANK_COST < leaves:
            return False
        if not self._indices or (now - self._learned) * _RERANK_COST >= len(self._ends):
            self._learned = now
            self._indices = self.gaps.indices(
                (old_turn, now - finish) for old_turn, finish in self._ends.values()
            )
        self._clock = now
        return True

    def on_evict(self, leaf: Node, num_pages: int) -> None:
        """Forget the pages; their ends stay known."""
        self._forget(leaf.pages[-num_pages:])

    def on_drop(self, node: Node) -> None:
        """Forget the pages."""
        self._forget(node.pages)

    def _forget(self, pages: Sequence[int]) -> None:
        self._marks.forget(pages)
        for page in pages:
            self._uses.pop(page, None)

    def _turn_of(self, pages: list[int], now: int) -> int:
        """Return the turn class of a path and count the deepest end on it as reused."""
        marks = self._marks.of_page
        for page in reversed(pages):
            known = self._ends.pop(marks[page], None)
            if known is not None:
                turn, finish = known
                self.gaps.reused(turn, now - finish)
                return turn if page == pages[-1] else min(turn + 1, _CLASSES - 1)
        return 0


class ReuseGaps:
    """How old ends were when they were reused, or lost sight of, by turn class."""

    __slots__ = ("_lost", "_reused")

    def __init__(self) -> None:
        self._reused = [[0.0] * len(_AGES) for _ in range(_CLASSES)]
        self._lost = [[0.0] * len(_AGES) for _ in range(_CLASSES)]

    def reused(self, turn: int, age: int) -> None:
        """Count a reuse."""
        self._reused[turn][_bin_of(age)] += 1

    def lost(self, turn: int, age: int) -> None:
        """Count an end that was forgotten before it was reused."""
        self._lost[turn][_bin_of(age)] += 1

    def fade(self) -> None:
        """Let what was counted so far weigh half as much."""
        for counts in (*self._reused, *self._lost):
            counts[:] = [count / 2 for count in counts]

    def indices(self, waiting: Iterable[tuple[int, int]]) -> list[list[float]]:
        """Return the index of each bin by class; ``waiting`` is (class, age) not reused yet.

        A class borrows the chances of all classes together, with the weight of 8 ends.
        Cost: O(ends + bins² · classes).
        """
        lost = [counts[:] for counts in self._lost]
        for turn, age in waiting:
            lost[turn][_bin_of(age)] += 1
        every = _chances(
            [sum(counts) for counts in zip(*self._reused, strict=True)],
            [sum(counts) for counts in zip(*lost, strict=True)],
            [0.0] * len(_AGES),
            0.0,
        )
        return [
            gittins_indices(_chances(reused, gone, every, _PRIOR))
            for reused, gone in zip(self._reused, lost, strict=True)
        ]


def gittins_indices(chances: Sequence[float], ages: Sequence[float] = _AGES) -> list[float]:
    """Return the Gittins index of each bin: its best expected reuses / expected time held.

    ``chances[b]`` is the chance of reuse within bin b, which starts at ``ages[b]``, of what
    was not reused before; a reuse comes in the middle of its bin. The last bin has no end
    and index 0: so old is gone. Cost: O(bins²).
    """
    widths = [after - before for before, after in pairwise(ages)]
    indices = []
    for start in range(len(widths)):
        best = reuses = held = 0.0
        left = 1.0
        for chance, width in zip(chances[start:], widths[start:], strict=False):
            now = left * chance
            reuses += now
            held += (left - now / 2) * width
            left -= now
            best = max(best, reuses / held)
        indices.append(best)
    return [*indices, 0.0]


def _chances(
    reused: Sequence[float], lost: Sequence[float], prior: Sequence[float], weight: float
) -> list[float]:
    """Return the chance of reuse in each bin; what is lost in a bin was at risk for half of it."""
    at_risk = sum(reused) + sum(lost)
    chances = []
    for came, gone, expected in zip(reused, lost, prior, strict=True):
        exposed = at_risk - gone / 2 + weight
        chances.append((came + weight * expected) / exposed if exposed else 0.0)
        at_risk -= came + gone
    return chances


def _bin_of(age: float) -> int:
    """Return the bin of an age; what finished after the clock was set is new."""
    return max(0, bisect_right(_AGES, age) - 1)
