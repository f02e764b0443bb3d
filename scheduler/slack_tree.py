"""SlackTree: the slack of every waiting request, by arrival; prefix add and first-below."""

from __future__ import annotations

from math import inf
from typing import Generic, Protocol, TypeVar

from radixcache.errors import IntegrityError

__all__ = ["Seat", "SlackTree"]

_SMALLEST = 16


class Seat(Protocol):
    """What takes a place in the tree: the tree tells it its slot, also when that changes."""

    slot: int


S = TypeVar("S", bound=Seat)


class SlackTree(Generic[S]):
    """A segment tree over slots in order of arrival, holding numbers and their minima.

    A seat gets the slot after the newest one and keeps its place in the order until it is
    vacated; an absent seat (``inf``) keeps its place but is never found. When the slots run
    out, or few of them are still taken, all are numbered anew, so the memory follows the
    seats alive and not the arrivals ever seen. Finite numbers stay exact integers.

    ``_low[i]`` is the least number below node i, without what was added to its ancestors;
    ``_add[i]`` is what was added to everything below node i (and is inside ``_low[i]``).

    Cost: O(log seats) a call, ``append`` and ``vacate`` amortised.
    """

    __slots__ = ("_add", "_low", "_next", "_seats", "_size", "_taken")

    def __init__(self) -> None:
        self._seats: list[S | None] = []
        self._taken = 0
        self._start(_SMALLEST)

    def __len__(self) -> int:
        return self._taken

    @property
    def slots(self) -> int:
        """How many slots the tree has room for (its memory)."""
        return self._size

    def append(self, seat: S, value: float) -> None:
        """Give ``seat`` the slot after all others."""
        if self._next == self._size:
            self._renumber()
        seat.slot = self._next
        self._seats[self._next] = seat
        self._next += 1
        self._taken += 1
        self.assign(seat.slot, value)

    def vacate(self, slot: int) -> None:
        """Free the slot for good."""
        if self._low[slot + self._size] < inf:
            self.assign(slot, inf)
        self._seats[slot] = None
        self._taken -= 1
        if self._taken * 8 <= self._size and self._size > _SMALLEST:
            self._renumber()

    def value(self, slot: int) -> float:
        """Return the number in the slot."""
        node = slot + self._size
        value = self._low[node]
        while node > 1:
            node >>= 1
            value += self._add[node]
        return value

    def assign(self, slot: int, value: float) -> None:
        """Put a number, or ``inf`` for an absent seat, into the slot."""
        low, add = self._low, self._add
        leaf = node = slot + self._size
        added = 0
        while node > 1:
            node >>= 1
            added += add[node]
        low[leaf] = value - added
        node = leaf
        while node > 1:
            node >>= 1
            left, right = low[2 * node], low[2 * node + 1]
            least = (left if left < right else right) + add[node]
            if low[node] == least:
                return
            low[node] = least

    def spend_all(self, amount: int) -> None:
        """Take ``amount`` from every slot. Cost: O(1)."""
        self._low[1] -= amount
        self._add[1] -= amount

    def depart(self, slot: int, amount: int) -> None:
        """Make the seat in ``slot`` absent, and take ``amount`` from every slot before it."""
        low, add = self._low, self._add
        node = slot + self._size
        low[node] = inf
        while node > 1:
            if node & 1:
                low[node - 1] -= amount
                add[node - 1] -= amount
            node >>= 1
            left, right = low[2 * node], low[2 * node + 1]
            low[node] = (left if left < right else right) + add[node]

    def first_below(self, amount: int, before: int | None = None) -> S | None:
        """Return the first seat (before slot ``before``) whose number is less than ``amount``."""
        low, add, size = self._low, self._add, self._size
        if low[1] >= amount:
            return None
        node, above = 1, 0
        if before is not None:
            for level in range(size.bit_length() - 2, -1, -1):
                above += add[node]
                node *= 2
                if before >> level & 1:
                    if low[node] + above < amount:
                        break
                    node += 1
            else:
                return None
        while node < size:
            above += add[node]
            node *= 2
            if low[node] + above >= amount:
                node += 1
        return self._seats[node - size]

    def check(self) -> None:
        """Raise IntegrityError when a minimum or a slot is wrong. Cost: O(slots)."""
        for node in range(1, self._size):
            least = min(self._low[2 * node], self._low[2 * node + 1]) + self._add[node]
            if self._low[node] != least:
                raise IntegrityError(f"slack tree node {node} holds {self._low[node]}, not {least}")
        taken = 0
        for slot, seat in enumerate(self._seats):
            taken += seat is not None
            if seat is not None and seat.slot != slot:
                raise IntegrityError(f"the seat in slot {slot} believes it is in {seat.slot}")
        if taken != self._taken:
            raise IntegrityError(f"{taken} seats are taken, {self._taken} were counted")

    def _renumber(self) -> None:
        """Close the gaps, with room for as many seats again as there are."""
        kept = [(seat, self.value(seat.slot)) for seat in self._seats if seat is not None]
        size = _SMALLEST
        while size < 2 * len(kept):
            size *= 2
        self._start(size)
        low = self._low
        for slot, (seat, value) in enumerate(kept):
            seat.slot = slot
            self._seats[slot] = seat
            low[size + slot] = value
        self._next = len(kept)
        for node in range(size - 1, 0, -1):
            left, right = low[2 * node], low[2 * node + 1]
            low[node] = left if left < right else right

    def _start(self, size: int) -> None:
        self._size = size
        self._low: list[float] = [inf] * (2 * size)
        self._add = [0] * (2 * size)
        self._seats = [None] * size
        self._next = 0
