"""FanOut: a source whose requests for several answers become one request a sample."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

from scheduler.request import Request, RequestState
from scheduler.samples import fan_out
from scheduler.sim.source import RequestSource

__all__ = ["FanOut"]


class _Group:
    """The samples of one request that have not ended."""

    __slots__ = ("first", "followers", "left", "request", "state")

    def __init__(self, request: Request, samples: tuple[Request, ...]) -> None:
        self.request = request
        self.first = samples[0].rid
        self.followers = samples[1:]
        self.left = len(samples)
        self.state: RequestState | None = None
        """How the first sample ended; None as long as it has not, or when it was refused."""


class FanOut:
    """A ``RequestSource`` that sends each sample of a request as a request of its own.

    All at the arrival, or with ``first_alone`` the others only when the first one has its
    first token, so that its prompt is in the cache; a first one that ends without a token
    lets them go as well. The source behind is told of one end, that of the first sample, when
    all have ended. Cost: O(log samples under way) a sample.
    """

    __slots__ = ("_first_alone", "_groups", "_ready", "_sent", "_source")

    def __init__(self, source: RequestSource, *, first_alone: bool) -> None:
        self._source = source
        self._first_alone = first_alone
        self._groups: dict[str, _Group] = {}
        self._ready: list[tuple[float, int, Request]] = []
        self._sent = 0

    def next_arrival_s(self) -> float | None:
        """Return the time of the next sample known so far, or None."""
        arrival_s = self._source.next_arrival_s()
        if not self._ready:
            return arrival_s
        return self._ready[0][0] if arrival_s is None else min(self._ready[0][0], arrival_s)

    def pop(self) -> Request:
        """Return the sample that arrives next."""
        arrival_s = self._source.next_arrival_s()
        if self._ready and (arrival_s is None or self._ready[0][0] <= arrival_s):
            return heappop(self._ready)[2]
        request = self._source.pop()
        if request.samples == 1:
            return request
        samples = fan_out(request)
        group = _Group(request, samples)
        for sample in samples:
            self._groups[sample.rid] = group
        if not self._first_alone:
            self._release(group, request.arrival_s)
        return samples[0]

    def first_token(self, state: RequestState, now: float) -> None:
        """Let the other samples go, now that the prompt is computed."""
        group = self._groups.get(state.rid)
        if group is not None and group.first == state.rid:
            self._release(group, now)
        self._source.first_token(state, now)

    def finished(self, state: RequestState, now: float) -> None:
        """Count a sample; the source learns when it was the last."""
        group = self._groups.pop(state.rid, None)
        if group is None:
            self._source.finished(state, now)
            return
        if state.rid == group.first:
            group.state = state
            self._release(group, now)
        self._ended(group, now)

    def rejected(self, request: Request, now: float) -> None:
        """Count a sample that was refused."""
        group = self._groups.pop(request.rid, None)
        if group is None:
            self._source.rejected(request, now)
            return
        if request.rid == group.first:
            self._release(group, now)
        self._ended(group, now)

    @property
    def expected_requests(self) -> int:
        """What the source expects: samples are not known in advance."""
        return self._source.expected_requests

    def _release(self, group: _Group, now: float) -> None:
        """Send the samples that were kept back; their clients have waited since the arrival."""
        for sample in group.followers:
            patience_s = sample.abort_after_s
            if patience_s is not None:
                patience_s = max(patience_s - (now - sample.arrival_s), 0.0)
            sent = replace(sample, arrival_s=now, abort_after_s=patience_s)
            heappush(self._ready, (now, self._sent, sent))
            self._sent += 1
        group.followers = ()

    def _ended(self, group: _Group, now: float) -> None:
        group.left -= 1
        if group.left:
            return
        if group.state is None:
            self._source.rejected(group.request, now)
        else:
            self._source.finished(group.state, now)
