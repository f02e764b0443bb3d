"""run_policy: one policy on one list of requests, from settings to the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from radixcache import EvictionPolicy, KeyKind, NullCache, PagePool, PrefixCache, RadixCache
from radixcache.errors import ConfigError
from scheduler.config import SchedulerConfig
from scheduler.policies import SchedulePolicy
from scheduler.request import Request, RequestState
from scheduler.reserve import make_reserve
from scheduler.scheduler import Scheduler
from scheduler.sim.cost_model import CostModel, StepCost
from scheduler.sim.engine import RunObserver, Simulation
from scheduler.sim.fan_out import FanOut
from scheduler.sim.source import OpenLoop, RequestSource

__all__ = ["RunSettings", "build_scheduler", "check_fits", "run_policy", "with_oracle_length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run needs beside its requests; `scheduler` holds the engine's own settings."""

    capacity_tokens: int
    """KV memory in tokens; floored to whole pages."""
    scheduler: SchedulerConfig
    kind: KeyKind = KeyKind.TOKENS
    eviction: str | type[EvictionPolicy] | EvictionPolicy = "lru"
    """Name or class of the eviction policy, or "none" for no reuse at all.

    An instance may have learned: give each run one of its own.
    """
    cost: StepCost = field(default_factory=CostModel)

    def __post_init__(self) -> None:
        page_size = self.scheduler.page_size
        if type(self.capacity_tokens) is not int or self.capacity_pages < 1:
            raise ConfigError(
                f"capacity_tokens is {self.capacity_tokens!r}: give at least one page of "
                f"{page_size} tokens"
            )
        if self.capacity_pages >= 2**31:
            raise ConfigError(
                f"capacity_tokens is {self.capacity_tokens}: give less than 2**31 pages of "
                f"{page_size} tokens"
            )

    @property
    def capacity_pages(self) -> int:
        """Whole pages of KV memory."""
        return self.capacity_tokens // self.scheduler.page_size


def with_oracle_length(request: Request) -> Request:
    """Return the request asking for exactly the output it will give, as no client can."""
    if request.recorded_output_tokens is None:
        return request
    return replace(request, max_new_tokens=max(1, request.recorded_output_tokens))


def check_fits(requests: Iterable[Request], runs: Sequence[RunSettings]) -> None:
    """Refuse a capacity that the largest request could never be admitted to, in some run.

    Raises: ConfigError with the request, its pages and the capacity that would do.
    """
    largest: list[tuple[int, Request] | None] = [None] * len(runs)
    reserves = [make_reserve(run.scheduler) for run in runs]
    for request in requests:
        for place, (run, reserve) in enumerate(zip(runs, reserves, strict=True)):
            page_size = run.scheduler.page_size
            state = RequestState(request, arrival_seq=0, page_size=page_size, submitted_s=0)
            pages = reserve.promised_pages(state)
            worst = largest[place]
            if worst is None or pages > worst[0]:
                largest[place] = pages, request
    for run, worst in zip(runs, largest, strict=True):
        if worst is None or worst[0] <= run.capacity_pages:
            continue
        pages, request = worst
        least = pages * run.scheduler.page_size
        raise ConfigError(
            f"capacity is {run.capacity_tokens} tokens, but request {request.rid!r} needs "
            f"{least} to be admitted ({request.prompt_tokens} of prompt, and what is reserved "
            f"of up to {request.max_new_tokens} of output): give at least {least} tokens"
        )


def build_scheduler(
    settings: RunSettings, policy: SchedulePolicy | str, cache: PrefixCache | None = None
) -> Scheduler:
    """Return a fresh scheduler on a fresh pool and cache, or on an empty one that is given.

    Bounds are told in seconds by the cost model's rate, unless the configuration has its own.
    """
    pool = PagePool(settings.capacity_pages)
    config = settings.scheduler
    if config.prefill_tokens_per_s is None and settings.cost.prefill_tokens_per_s < inf:
        config = replace(config, prefill_tokens_per_s=settings.cost.prefill_tokens_per_s)
    return Scheduler(
        _fresh_cache(settings) if cache is None else cache, pool, config, policy=policy
    )


def _fresh_cache(settings: RunSettings) -> PrefixCache:
    page_size = settings.scheduler.page_size
    if settings.eviction == "none":
        return NullCache(page_size, kind=settings.kind)
    return RadixCache(page_size, kind=settings.kind, policy=settings.eviction)


def run_policy(
    requests: Sequence[Request] | RequestSource,
    policy: SchedulePolicy | str,
    settings: RunSettings,
    observer: RunObserver,
    *,
    on_progress: Callable[[int], None] | None = None,
    check_every_step: bool = False,
    cache: PrefixCache | None = None,
) -> Scheduler:
    """Run one policy to the end of the requests; return its scheduler, for its report.

    ``cache`` is an empty one to run on instead of what the settings ask for.

    Each sample of a request runs as a request of its own. All are sent at once where the
    others wait for the pages of the first, or find them as it is scheduled; else the first
    goes ahead until its prompt is computed.

    Cost: a few microseconds a step and running request. The same inputs give the same run.
    """
    source = OpenLoop(requests) if isinstance(requests, Sequence) else requests
    scheduler = build_scheduler(settings, policy, cache)
    shares_early = scheduler.hold != "off" or settings.scheduler.publish == "schedule"
    Simulation(
        scheduler,
        FanOut(source, first_alone=not shares_early),
        settings.cost,
        observer,
        check_every_step=check_every_step,
        on_progress=on_progress,
    ).run()
    return scheduler
