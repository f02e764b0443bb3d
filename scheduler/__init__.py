"""A cache-aware scheduler. Names are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.admission import AdmissionRefusal
    from scheduler.batch import Batch, PageRemap, PrefillChunk, RowChange, StepRecord
    from scheduler.config import AdaptiveRatio, SchedulerConfig
    from scheduler.events import Admitted, Event, Finished, FirstToken, Retracted
    from scheduler.optimal import OptimalBound, OptimalMeter, optimal_prefill
    from scheduler.orders import (
        DLPM,
        HRRN,
        KLPM,
        LOF,
        CoveredFirstLPM,
        DFSWeight,
        LPMAging,
        PlainLPM,
        Prioritized,
        RandomOrder,
        ThroughputLPM,
    )
    from scheduler.overtake_guard import OvertakeGuard
    from scheduler.page_ledger import Pool
    from scheduler.policies import FCFS, LPM, SPF, SchedulePolicy, SGLangLPM, SortKey
    from scheduler.registry import SCHEDULE_POLICIES, make_schedule_policy
    from scheduler.request import Request, RequestState, RequestStatus
    from scheduler.results import Result
    from scheduler.samples import each_sample, fan_out
    from scheduler.scheduler import Scheduler, Ticket
    from scheduler.scheduler_report import SchedulerReport, Totals
    from scheduler.waiting_queue import Candidate, WaitingQueue
    from scheduler.waiting_tree import WaitingTree

__all__ = [
    "DLPM",
    "FCFS",
    "HRRN",
    "KLPM",
    "LOF",
    "LPM",
    "SCHEDULE_POLICIES",
    "SPF",
    "AdaptiveRatio",
    "AdmissionRefusal",
    "Admitted",
    "Batch",
    "Candidate",
    "CoveredFirstLPM",
    "DFSWeight",
    "Event",
    "Finished",
    "FirstToken",
    "LPMAging",
    "OptimalBound",
    "OptimalMeter",
    "OvertakeGuard",
    "PageRemap",
    "PlainLPM",
    "Pool",
    "PrefillChunk",
    "Prioritized",
    "RandomOrder",
    "Request",
    "RequestState",
    "RequestStatus",
    "Result",
    "Retracted",
    "RowChange",
    "SGLangLPM",
    "SchedulePolicy",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerReport",
    "SortKey",
    "StepRecord",
    "ThroughputLPM",
    "Ticket",
    "Totals",
    "WaitingQueue",
    "WaitingTree",
    "each_sample",
    "fan_out",
    "make_schedule_policy",
    "optimal_prefill",
]

_MODULES = {
    "scheduler.admission": ("AdmissionRefusal",),
    "scheduler.batch": ("Batch", "PageRemap", "PrefillChunk", "RowChange", "StepRecord"),
    "scheduler.config": ("AdaptiveRatio", "SchedulerConfig"),
    "scheduler.events": ("Admitted", "Event", "Finished", "FirstToken", "Retracted"),
    "scheduler.overtake_guard": ("OvertakeGuard",),
    "scheduler.optimal": ("OptimalBound", "OptimalMeter", "optimal_prefill"),
    "scheduler.orders": (
        "DLPM",
        "HRRN",
        "KLPM",
        "LOF",
        "CoveredFirstLPM",
        "DFSWeight",
        "LPMAging",
        "PlainLPM",
        "Prioritized",
        "RandomOrder",
        "ThroughputLPM",
    ),
    "scheduler.page_ledger": ("Pool",),
    "scheduler.policies": ("FCFS", "LPM", "SPF", "SGLangLPM", "SchedulePolicy", "SortKey"),
    "scheduler.registry": ("SCHEDULE_POLICIES", "make_schedule_policy"),
    "scheduler.request": ("Request", "RequestState", "RequestStatus"),
    "scheduler.results": ("Result",),
    "scheduler.samples": ("each_sample", "fan_out"),
    "scheduler.scheduler": ("Scheduler", "Ticket"),
    "scheduler.scheduler_report": ("SchedulerReport", "Totals"),
    "scheduler.waiting_queue": ("Candidate", "WaitingQueue"),
    "scheduler.waiting_tree": ("WaitingTree",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'scheduler' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
