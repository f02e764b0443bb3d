"""StackDistances: how deep in the LRU stack each request finds its pages, in one pass.

A request touches its pages deepest first, so a page is always more recent than what lies behind
it, the least recent page is always a leaf, and a cache of C pages holds the C most recent ones.
A request looks up before it touches, hence

    distance(page) = distinct pages touched since its last touch, itself included,
                     up to the end of the request before
    hit at capacity C  iff  distance(page) <= C and the request may use the page

What one request touched and nobody touched since is one stretch of one path, and in a row in
the stack. So distances are kept for runs of pages, and a Fenwick tree over requests (not pages)
counts what is more recent. A request longer than C leaves its first C pages, as in the replay.

Ref: R. L. Mattson et al., Evaluation techniques for storage hierarchies (1970); B. T. Bennett
and V. J. Kruskal, LRU stack processing (1975).
"""

from __future__ import annotations

from array import array

from scheduler.analysis.last_touch import LastTouch
from scheduler.analysis.touches import TouchRule
from scheduler.request import Request

__all__ = ["PagesByRequest", "StackDistances"]


class PagesByRequest:
    """How many pages each request was the last to touch, with sums over the first of them.

    A Fenwick tree that grows. Cost: O(log requests) a call; 8 bytes a request.
    """

    __slots__ = ("_tree",)

    def __init__(self) -> None:
        self._tree = array("q", [0])

    def append(self, pages: int) -> None:
        """Add the next request."""
        tree = self._tree
        at = len(tree)
        below = at - 1
        last = at & below
        while below > last:
            pages += tree[below]
            below &= below - 1
        tree.append(pages)

    def take(self, request: int, pages: int) -> None:
        """Take pages from a request: somebody else touched them."""
        tree = self._tree
        at, size = request + 1, len(tree)
        while at < size:
            tree[at] -= pages
            at += at & -at

    def up_to(self, request: int) -> int:
        """Return the pages of the requests up to and including this one."""
        tree = self._tree
        at, total = request + 1, 0
        while at:
            total += tree[at]
            at &= at - 1
        return total


class StackDistances:
    """The runs of pages that requests found again, each with its depth in the LRU stack.

    ``rule`` says what a request touches. The ``run_`` arrays are parallel, a place a run, in
    order of arrival and of depth on the path; the other arrays have a place a request.

    Cost: `add` O(key bytes compared + runs * log requests); memory that of `LastTouch`, 40
    bytes a run and 40 bytes a request.
    """

    __slots__ = (
        "_last_touch", "_pages", "answers", "distinct_pages", "prompt_tokens", "rule", "run_above",
        "run_first", "run_pages", "run_request", "run_toucher", "touched_pages", "usable_pages",
        "usable_tokens",
    )  # fmt: skip

    def __init__(self, rule: TouchRule) -> None:
        self.rule = rule
        self.distinct_pages = 0
        self.answers = 0
        """Requests whose recorded answer was touched."""
        self.run_request = array("q")
        self.run_toucher = array("q")
        """The request that touched these pages last."""
        self.run_first = array("q")
        """Place of the run's first page on the path."""
        self.run_pages = array("q")
        self.run_above = array("q")
        """Distance of the run's first page, less 1; each next page is one deeper."""
        self.touched_pages = array("q")
        self.usable_pages = array("q")
        self.usable_tokens = array("q")
        self.prompt_tokens = array("q")
        self._last_touch = LastTouch()
        self._pages = PagesByRequest()

    def __len__(self) -> int:
        return len(self.touched_pages)

    def add(self, request: Request) -> None:
        """Look the next request up and touch its path."""
        touch = self.rule.touch(request)
        number = len(self.touched_pages)
        pages, distinct, first = self._pages, self.distinct_pages, 0
        for toucher, count in self._last_touch.touch(touch, number):
            self.run_request.append(number)
            self.run_toucher.append(toucher)
            self.run_first.append(first)
            self.run_pages.append(count)
            self.run_above.append(distinct - pages.up_to(toucher))
            pages.take(toucher, count)
            first += count
        pages.append(touch.pages)
        self.distinct_pages = distinct + touch.pages - first
        self.answers += touch.answered
        self.touched_pages.append(touch.pages)
        self.usable_pages.append(touch.usable_pages)
        self.usable_tokens.append(touch.usable_tokens)
        self.prompt_tokens.append(touch.prompt_tokens)
