"""How much memory an admission asks for on behalf of output that is not there yet."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from scheduler.admission import pages_for, pages_of_request
from scheduler.config import AdaptiveRatio, SchedulerConfig
from scheduler.request import RequestState
from scheduler.running import Run, Running

__all__ = ["AdaptiveReserve", "FixedReserve", "OutputReserve", "make_reserve"]


class OutputReserve(Protocol):
    """Pages asked for at admission, pages promised by it, pages others are expected to take."""

    def needed_pages(self, state: RequestState) -> int:
        """Return the pages that must be there for a request to be admitted."""
        ...

    def promised_pages(self, state: RequestState) -> int:
        """Return the pages an admitted request may take without asking again."""
        ...

    def begin_step(self, running: Running) -> None:
        """Start a step."""
        ...

    def joined(self, run: Run) -> None:
        """Learn that the last chunk of a prompt was scheduled in this step."""
        ...

    def expected_pages(self, running: Running) -> int:
        """Return what running requests will take beyond what they were promised."""
        ...

    def decoded(self, running: Running, retracted: int) -> None:
        """Learn that a decode step was planned, and how many it retracted."""
        ...


class FixedReserve:
    """A share of ``max_new_tokens`` is promised at admission; nothing else is expected."""

    __slots__ = ("_ratio",)

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio

    def needed_pages(self, state: RequestState) -> int:
        """Return what is promised."""
        return pages_of_request(state, self._ratio)

    def promised_pages(self, state: RequestState) -> int:
        """Return the pages of the tokens so far and of the share."""
        return pages_of_request(state, self._ratio)

    def begin_step(self, running: Running) -> None:
        """Do nothing."""

    def joined(self, run: Run) -> None:
        """Do nothing."""

    def expected_pages(self, running: Running) -> int:
        """Return 0: who was promised less asks when it needs more."""
        return 0

    def decoded(self, running: Running, retracted: int) -> None:
        """Do nothing."""


class AdaptiveReserve:
    """An estimate that falls with every decode step and rises at a retraction.

    Output is promised to nobody. A waiting request is admitted if its prompt and its whole
    clipped output fit beside the estimated rest of the running ones; those that joined in
    this step count with their whole clipped output.

    Ref: SGLang 0.5.23 ``new_token_ratio_tracker.py``, ``schedule_policy.py`` (PrefillAdder).
    """

    __slots__ = ("_config", "_joined_tokens", "_page_size", "ratio")

    def __init__(self, config: AdaptiveRatio, page_size: int) -> None:
        self._config = config
        self._page_size = page_size
        self._joined_tokens = 0
        self.ratio = config.initial

    def needed_pages(self, state: RequestState) -> int:
        """Return the pages of the tokens so far and of the clipped rest of the output."""
        still = min(state.request.max_new_tokens - state.output_tokens, self._config.clip_tokens)
        return pages_for(state.prefill_tokens + max(still - 1, 0), self._page_size)

    def promised_pages(self, state: RequestState) -> int:
        """Return the pages of the tokens so far."""
        return pages_for(state.prefill_tokens, self._page_size)

    def begin_step(self, running: Running) -> None:
        """Nobody has joined yet; an idle engine starts from the initial ratio again."""
        if not len(running):
            self.ratio = self._config.initial
        self._joined_tokens = 0

    def joined(self, run: Run) -> None:
        """Count the whole clipped output."""
        state = run.state
        still = state.request.max_new_tokens - state.output_tokens
        self._joined_tokens += min(still, self._config.clip_tokens)

    def expected_pages(self, running: Running) -> int:
        """Return the estimate of the whole running batch. Cost: O(running) in numpy."""
        slots = running.view().slots
        rest = running.final_tokens[slots] - running.known_tokens[slots]
        tokens = int(np.minimum(rest, self._config.clip_tokens).sum())
        whole = (1 - self.ratio) * self._joined_tokens
        return math.ceil((self.ratio * tokens + whole) / self._page_size)

    def decoded(self, running: Running, retracted: int) -> None:
        """Let the ratio fall, or set it by the output of those that still run."""
        config = self._config
        if not retracted:
            fall = (config.initial - config.least) / config.decay_steps
            self.ratio = max(self.ratio - fall, config.least)
            return
        runs = running.view().runs
        sampled = sum(run.state.output_tokens for run in runs)
        most = sum(run.state.request.max_new_tokens for run in runs)
        self.ratio = min(1.0, (sampled + config.retract_steps * len(runs)) / (most + 1))


def make_reserve(config: SchedulerConfig) -> OutputReserve:
    """Return the reserve a configuration asks for."""
    ratio = config.output_reserve_ratio
    if isinstance(ratio, AdaptiveRatio):
        return AdaptiveReserve(ratio, config.page_size)
    return FixedReserve(ratio)
