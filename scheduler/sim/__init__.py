"""The simulated engine: cost model, arrivals and one reproducible run."""

from __future__ import annotations

__all__ = ()
