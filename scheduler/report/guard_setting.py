"""GuardSetting: how far later requests may go before an earlier one, as one value of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

__all__ = ["UNBOUNDED", "GuardSetting"]


@dataclass(frozen=True, slots=True, order=True)
class GuardSetting:
    """The bound of an overtake guard: ``base_tokens`` + ``kappa`` x backlog at arrival.

    Ordered by base, then by kappa: the largest is taken for the loosest.
    """

    base_tokens: float
    """A whole number, or ``inf``: nothing is bounded, and ``kappa`` is 0."""
    kappa: float

    @property
    def bounded(self) -> bool:
        """Tell whether there is a bound."""
        return self.base_tokens != inf

    @property
    def label(self) -> str:
        """What stands behind the order's name in a table: ``32768+0.5``, or ``inf``."""
        return (
            f"{self.base_tokens:.0f}+{self.kappa!r}".removesuffix(".0") if self.bounded else "inf"
        )

    def __str__(self) -> str:
        """Return the setting as it is given on the command line."""
        return f"{self.base_tokens:.0f}:{self.kappa!r}".removesuffix(".0")


UNBOUNDED = GuardSetting(inf, 0.0)
"""No guard."""
