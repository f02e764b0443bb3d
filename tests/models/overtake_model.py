"""The overtake guard, said plainly: lists of admissions, summed anew for every question."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, inf

__all__ = ["Arrived", "OvertakeModel"]


@dataclass(slots=True, eq=False)
class Arrived:
    arrival_seq: int
    weight: int
    rank: int = 0
    waiting: bool = True
    bound: float = inf
    overtakers: list[int] = field(default_factory=list)

    @property
    def place(self) -> tuple[int, int]:
        return self.rank, self.arrival_seq

    @property
    def overtaken(self) -> int:
        return sum(self.overtakers)


class OvertakeModel:
    def __init__(self, base_tokens: float, kappa: float) -> None:
        self.base_tokens = base_tokens
        self.kappa = kappa
        self.alive: list[Arrived] = []

    def arrive(self, state: Arrived, backlog_tokens: int) -> None:
        state.bound = self.base_tokens
        if self.base_tokens < inf:
            state.bound += floor(Fraction(self.kappa) * backlog_tokens)
        self.alive.append(state)

    def before(self, state: Arrived) -> list[Arrived]:
        return sorted(
            (r for r in self.alive if r.waiting and r.place < state.place), key=lambda r: r.place
        )

    def tight(self, state: Arrived, weight: int) -> Arrived | None:
        return next((r for r in self.before(state) if r.bound - r.overtaken < weight), None)

    def admitted(self, state: Arrived, weight: int) -> None:
        for r in self.before(state):
            r.overtakers.append(weight)
        state.waiting = False

    def returned(self, state: Arrived) -> None:
        state.waiting = True

    def removed(self, state: Arrived) -> None:
        self.alive.remove(state)

    @property
    def waiting(self) -> list[Arrived]:
        return [r for r in self.alive if r.waiting]
