"""Observers: who is told of changes, and the telling."""

from __future__ import annotations

from typing import NoReturn

from radixcache.errors import InvalidInputError, ObserverError
from radixcache.key import Namespace
from radixcache.protocol import ResidencyObserver

__all__ = ["Observers"]


class Observers:
    """The observers of one cache, told in the order they came.

    All are told even if one raises: ``fault`` keeps the first exception until the call that
    changed the cache is through, and ``give_up`` raises it then.
    """

    __slots__ = ("active", "fault")

    def __init__(self) -> None:
        self.active: list[ResidencyObserver] = []
        self.fault: Exception | None = None

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
        """Tell that the pages of ``[start, stop)`` tokens are cached."""
        for observer in self.active:
            try:
                observer.on_stored(namespace, data, start, stop)
            except Exception as error:
                self.fault = self.fault or error

    def removed(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        """Tell that the pages of ``[start, stop)`` tokens are cached no longer."""
        for observer in self.active:
            try:
                observer.on_removed(namespace, data, start, stop)
            except Exception as error:
                self.fault = self.fault or error

    def cleared(self, namespace: Namespace | None, result: object) -> None:
        """Tell that nothing of a namespace, or at all, is cached; raise what was raised."""
        for observer in self.active:
            try:
                observer.on_cleared(namespace)
            except Exception as error:
                self.fault = self.fault or error
        if self.fault is not None:
            self.give_up(result)

    def give_up(self, result: object) -> NoReturn:
        """Raise ObserverError with what the call would have returned."""
        fault, self.fault = self.fault, None
        raise ObserverError(result) from fault
