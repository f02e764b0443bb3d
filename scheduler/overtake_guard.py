"""OvertakeGuard: no waiting request is overtaken by more than the bound it got on arrival."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from math import inf
from typing import Generic, Protocol, TypeVar

from sortedcontainers import SortedDict

from radixcache.errors import ConfigError, IntegrityError, UnknownRequestError
from scheduler.config import MOST_BOUND_TOKENS, MOST_KAPPA
from scheduler.slack_tree import SlackTree

__all__ = ["Arrival", "OvertakeGuard"]


class Arrival(Protocol):
    """What the guard reads of a request."""

    @property
    def arrival_seq(self) -> int:
        """Its number in the order of arrival, kept for life."""


R = TypeVar("R", bound=Arrival)


class _Seat(Generic[R]):
    """One request between its arrival and its end."""

    __slots__ = ("bound", "rank", "slack_when_away", "slot", "state")

    def __init__(self, state: R, rank: int, bound: int) -> None:
        self.state = state
        self.rank = rank
        self.bound = bound
        self.slot = 0
        self.slack_when_away: int | None = None


class OvertakeGuard(Generic[R]):
    """Decide which admissions leave every earlier request within its bound.

    A request r that arrives with ``backlog`` uncached tokens waiting may be overtaken by
    ``bound = base_tokens + floor(kappa * backlog)`` tokens of later requests. Order is (class,
    arrival): an admission of weight w takes w from the slack of every waiting request before
    it in that order, that is from earlier arrivals of its class and from all of higher classes.
    ``base_tokens=0, kappa=0`` is first come, first served; ``base_tokens=inf`` bounds nothing
    and only measures.

    Weights are integers (tokens, or whole units of a cost model; bounds are then in those
    units, and the backlog must be too), so slack is exact.

    Guarantee: when every admission passed ``may_admit``, ``overtaken(r) <= bound(r)`` always.

    Calls per request: ``arrive``, then any number of ``admitted`` / ``returned`` pairs, and
    ``removed`` once at its end, whichever way it ends: until then its place is kept.

    Cost: O(log live requests) a call, plus the number of classes.

    Ref: README, How it works: the guard.
    """

    __slots__ = (
        "_base",
        "_class_of",
        "_kappa",
        "_seats",
        "_trees",
        "_waiting",
        "forced_admissions",
        "largest_overtaken",
        "largest_ratio",
    )

    def __init__(
        self,
        *,
        base_tokens: float = inf,
        kappa: float = 0.0,
        class_of: Callable[[R], int] | None = None,
    ) -> None:
        """``class_of`` gives a request's class when it arrives; the smaller goes first."""
        bounded = base_tokens != inf
        if bounded and not (
            0 <= base_tokens <= MOST_BOUND_TOKENS and base_tokens == int(base_tokens)
        ):
            raise ConfigError(
                f"base_tokens is {base_tokens}: give a whole number from 0 to "
                f"{MOST_BOUND_TOKENS}, or inf"
            )
        if not 0 <= kappa <= MOST_KAPPA:
            raise ConfigError(f"kappa is {kappa}: give a number from 0 to {MOST_KAPPA}")
        self._base = int(base_tokens) if bounded else None
        self._kappa = kappa.as_integer_ratio()
        self._class_of = class_of
        self._seats: dict[int, _Seat[R]] = {}
        self._trees: MutableMapping[int, SlackTree[_Seat[R]]] = SortedDict()
        self._waiting = 0
        self.forced_admissions = 0
        """Admissions of a tight request in place of the best candidate."""
        self.largest_ratio = 0.0
        """The largest overtaken / bound among requests that left the queue (0 without bound)."""
        self.largest_overtaken = 0
        """The largest overtaken among requests that left the queue."""

    def __len__(self) -> int:
        """Return how many requests wait here."""
        return self._waiting

    @property
    def bounded(self) -> bool:
        """Tell whether there is a bound at all (``base_tokens`` is finite)."""
        return self._base is not None

    @property
    def has_classes(self) -> bool:
        """Tell whether requests have classes."""
        return self._class_of is not None

    def describe(self) -> str:
        """Say in a few words what the bound is."""
        if self._base is None:
            return "off"
        numerator, denominator = self._kappa
        return f"{self._base} tokens + {numerator / denominator:g} of the backlog at arrival"

    def arrive(self, state: R, backlog_tokens: int) -> int | None:
        """Take a request into the order, last of its class; return its bound (None: no bound)."""
        rank = 0 if self._class_of is None else self._class_of(state)
        numerator, denominator = self._kappa
        bound = 0
        if self._base is not None:
            bound = self._base + backlog_tokens * numerator // denominator
        seat = _Seat(state, rank, bound)
        assert state.arrival_seq not in self._seats
        self._seats[state.arrival_seq] = seat
        tree = self._trees.get(rank)
        if tree is None:
            tree = self._trees[rank] = SlackTree()
        tree.append(seat, bound)
        self._waiting += 1
        return None if self._base is None else bound

    def may_admit(self, state: R, weight: int) -> bool:
        """Tell whether every waiting request before ``state`` has at least ``weight`` slack."""
        return self.tight(state, weight) is None

    def tight(self, state: R, weight: int) -> R | None:
        """Return the first waiting request before ``state`` whose slack is below ``weight``.

        None when ``state`` may be admitted. Ask again with the request that was returned and
        its own weight: it stands earlier each time, and the first of all may always go.
        """
        if self._base is None:
            return None
        seat = self._seat(state)
        for rank, tree in self._trees.items():
            own = rank == seat.rank
            found = tree.first_below(weight, seat.slot if own else None)
            if found is not None:
                return found.state
            if own:
                break
        return None

    def admitted(self, state: R, weight: int, *, forced: bool = False) -> int:
        """Take ``weight`` from the slack of all before ``state``; return its own overtaken.

        ``forced`` says that it went as the tight one, not as the best candidate.
        """
        assert weight >= 0
        assert self.may_admit(state, weight)
        seat = self._seat(state)
        assert seat.slack_when_away is None
        overtaken = self._leave(seat)
        for rank, tree in self._trees.items():
            if rank == seat.rank:
                tree.depart(seat.slot, weight)
                break
            tree.spend_all(weight)
        self.forced_admissions += forced
        return overtaken

    def returned(self, state: R) -> None:
        """Take an admitted request back to its old place, with the slack it had left."""
        seat = self._seat(state)
        assert seat.slack_when_away is not None
        self._trees[seat.rank].assign(seat.slot, seat.slack_when_away)
        seat.slack_when_away = None
        self._waiting += 1

    def removed(self, state: R) -> None:
        """Forget a request that has ended, waiting or not; a second call does nothing."""
        seat = self._seats.pop(state.arrival_seq, None)
        if seat is None:
            return
        if seat.slack_when_away is None:
            self._leave(seat)
        tree = self._trees[seat.rank]
        tree.vacate(seat.slot)
        if not len(tree):
            del self._trees[seat.rank]

    def overtaken(self, state: R) -> int:
        """Return the weight admitted ahead of the request, out of order, while it waited."""
        seat = self._seat(state)
        return seat.bound - self._slack(seat)

    def bound(self, state: R) -> int | None:
        """Return the bound told on arrival (None: no bound)."""
        return None if self._base is None else self._seat(state).bound

    def check(self) -> None:
        """Raise IntegrityError when a bound or a counter is broken. Cost: O(live requests)."""
        for tree in self._trees.values():
            tree.check()
        seats = self._seats.values()
        if sum(seat.slack_when_away is None for seat in seats) != self._waiting:
            raise IntegrityError(f"the guard counts {self._waiting} waiting requests wrongly")
        if sum(map(len, self._trees.values())) != len(seats):
            raise IntegrityError("the guard's classes do not hold its requests")
        for seat in seats:
            if self._base is not None and self._slack(seat) < 0:
                raise IntegrityError(
                    f"arrival {seat.state.arrival_seq} was overtaken beyond its bound {seat.bound}"
                )

    def _seat(self, state: R) -> _Seat[R]:
        seat = self._seats.get(state.arrival_seq)
        if seat is None:
            raise UnknownRequestError(
                f"the guard does not know arrival {state.arrival_seq}: call arrive() first"
            )
        return seat

    def _slack(self, seat: _Seat[R]) -> int:
        if seat.slack_when_away is not None:
            return seat.slack_when_away
        return int(self._trees[seat.rank].value(seat.slot))

    def _leave(self, seat: _Seat[R]) -> int:
        """Note that a waiting request leaves the queue; return its overtaken."""
        slack = self._slack(seat)
        overtaken = seat.bound - slack
        self.largest_overtaken = max(self.largest_overtaken, overtaken)
        if seat.bound > 0:
            self.largest_ratio = max(self.largest_ratio, overtaken / seat.bound)
        seat.slack_when_away = slack
        self._waiting -= 1
        return overtaken
