"""Observers: who is told of changes, and the telling."""

from __future__ import annotations

from radixcache.errors import InvalidInputError
from radixcache.key import Namespace
from radixcache.protocol import ResidencyObserver

__all__ = ["Observers"]


class Observers:
    """The observers of one cache, told in the order they came.

    The cache tells each of ``active`` itself what was stored or removed: that is often.
    """

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: list[ResidencyObserver] = []

    def add(self, observer: ResidencyObserver) -> None:
        """Tell it from now on."""
        self.active.append(observer)

    def remove(self, observer: ResidencyObserver) -> None:
        """Tell it no longer."""
        for position, known in enumerate(self.active):
            if known is observer:
                del self.active[position]
                return
        raise InvalidInputError(f"{observer!r} does not observe this cache")

    def cleared(self, namespace: Namespace | None) -> None:
        """Tell that nothing of a namespace, or at all, is cached."""
        for observer in self.active:
            observer.on_cleared(namespace)
