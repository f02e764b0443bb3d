"""LastTouch: which earlier request touched each page of a path last, in runs of pages."""

from __future__ import annotations

from radixcache import Namespace, common_bytes
from scheduler.analysis.touches import Touch

__all__ = ["LastTouch"]


class _Span:
    """Pages in a row on a path of the trie, last touched by one request."""

    __slots__ = ("children", "data", "toucher")

    def __init__(self, data: bytes, toucher: int) -> None:
        self.data = data
        self.children: dict[bytes, _Span] = {}
        self.toucher = toucher

    def split(self, at: int, page_bytes: int) -> None:
        """Keep data[:at]; one child takes the rest."""
        rest = _Span(self.data[at:], self.toucher)
        rest.children = self.children
        self.data = self.data[:at]
        self.children = {rest.data[:page_bytes]: rest}


class LastTouch:
    """A trie of all pages so far, each with the number of the request that touched it last.

    Compared as packed bytes: no hash can collide.

    Cost: `touch` O(key bytes compared + spans on one path). Memory: the distinct pages, and
    some 400 bytes a span; two requests that diverge make two spans.
    """

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: dict[Namespace, _Span] = {}

    def touch(self, touch: Touch, request: int) -> list[tuple[int, int]]:
        """Touch a path; return its pages that were there as runs of (last toucher, pages).

        From the root on; touchers fall from run to run, since a page is touched whenever one
        behind it is. What the runs do not cover is new.
        """
        data, width = touch.data, touch.page_bytes
        stop = touch.pages * width
        node = self._roots.get(touch.namespace)
        if node is None:
            node = self._roots[touch.namespace] = _Span(b"", request)
        runs: list[tuple[int, int]] = []
        at = first = 0  # where the next span starts, and the current run
        toucher = request
        while at < stop:
            page = data[at : at + width]
            child = node.children.get(page)
            if child is None:
                node.children[page] = _Span(data[at:stop], request)
                break
            edge = child.data
            end = at + len(edge)
            if end > stop or not data.startswith(edge, at):
                shared = common_bytes(edge, data, at, stop, width)
                child.split(shared, width)
                end = at + shared
            if child.toucher != toucher:
                if at > first:
                    runs.append((toucher, (at - first) // width))
                    first = at
                toucher = child.toucher
            child.toucher = request
            at = end
            node = child
        if at > first:
            runs.append((toucher, (at - first) // width))
        return runs
