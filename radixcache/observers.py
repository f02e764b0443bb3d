"""Observers: who is told of changes, and the telling."""

from __future__ import annotations

from radixcache.errors import InvalidInputError
from radixcache.key import Namespace
from radixcache.protocol import ResidencyObserver

__all__ = ["Observers"]


class Observers:
    """The observers of one cache, told in the order they came."""

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

    def stored(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        """Tell that the tokens ``[start, stop)`` of a key are cached."""
        for observer in self.active:
            observer.on_stored(namespace, data, start, stop)

    def removed(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        """Tell that they are cached no longer."""
        for observer in self.active:
            observer.on_removed(namespace, data, start, stop)

    def cleared(self, namespace: Namespace | None) -> None:
        """Tell that nothing of a namespace, or at all, is cached."""
        for observer in self.active:
            observer.on_cleared(namespace)
