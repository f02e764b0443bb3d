"""PrefixMarks: a number for each cached page that names its prefix, so that it outlives it."""

from __future__ import annotations

from collections.abc import Iterable

from radixcache.tree import Node, Root

__all__ = ["PrefixMarks"]


class PrefixMarks:
    """The marks of the cached pages: equal marks, equal prefixes, as far as 64 bits can tell.

    They are only compared, so it does not matter that Python salts its hashes by process. Two
    prefixes of one mark would teach a policy something wrong and do no other harm.
    """

    __slots__ = ("of_page",)

    def __init__(self) -> None:
        self.of_page: dict[int, int] = {}
        """The mark of the prefix that ends with a page."""

    def learn(self, end: Node) -> tuple[list[int], int]:
        """Mark the path that ends at a node; return its pages and how many had a mark.

        Those are the first ones, for pages come below others and go from the end. Cost:
        O(pages on the path) + O(bytes of the new ones).
        """
        nodes: list[Node] = []
        node = end
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        assert type(node) is Root
        mark = hash(node.namespace)
        of_page = self.of_page
        pages: list[int] = []
        known = 0
        for node in reversed(nodes):
            held = node.pages
            pages.extend(held)
            if held[-1] in of_page:
                mark = of_page[held[-1]]
                known = len(pages)
                continue
            width = len(node.edge) // len(held)
            for position, page in enumerate(held):
                if page in of_page:
                    mark = of_page[page]
                    known += 1
                else:
                    start = position * width
                    mark = of_page[page] = hash((mark, node.edge[start : start + width]))
        return pages, known

    def forget(self, pages: Iterable[int]) -> None:
        """Take the marks off pages that leave the cache."""
        for page in pages:
            self.of_page.pop(page, None)
