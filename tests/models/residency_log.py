"""An observer that folds what it is told into the set of resident pages."""

from __future__ import annotations

from radixcache import Namespace


class ResidencyLog:
    """Resident pages by (namespace, packed key to the page's end); asserts a sane order."""

    def __init__(self, page_size: int, page_bytes: int) -> None:
        self.page_size = page_size
        self.page_bytes = page_bytes
        self.resident: set[tuple[Namespace, bytes]] = set()
        self.calls: list[tuple[str, int, int]] = []

    def _spans(self, data: bytes, start: int, stop: int) -> list[bytes]:
        assert start < stop
        assert start % self.page_size == stop % self.page_size == 0
        first, last = start // self.page_size, stop // self.page_size
        assert len(data) >= last * self.page_bytes
        return [data[: page * self.page_bytes] for page in range(first + 1, last + 1)]

    def on_stored(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        self.calls.append(("stored", start, stop))
        for prefix in self._spans(data, start, stop):
            parent = prefix[: -self.page_bytes]
            assert not parent or (namespace, parent) in self.resident
            assert (namespace, prefix) not in self.resident
            self.resident.add((namespace, prefix))

    def on_removed(self, namespace: Namespace, data: bytes, start: int, stop: int) -> None:
        self.calls.append(("removed", start, stop))
        for prefix in reversed(self._spans(data, start, stop)):
            self.resident.remove((namespace, prefix))
            assert not any(
                s == namespace and p[: -self.page_bytes] == prefix for s, p in self.resident
            )

    def on_cleared(self, namespace: Namespace | None) -> None:
        self.calls.append(("cleared", 0, 0))
        self.resident = {
            place for place in self.resident if namespace is not None and place[0] != namespace
        }
