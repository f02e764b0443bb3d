"""The simulated engine: cost model, arrivals and one reproducible run."""

from scheduler.sim.arrivals import load_time_scale, poisson, rate_time_scale, scaled
from scheduler.sim.cost_model import CostModel, FittedRange, StepCost, StepLoad
from scheduler.sim.engine import RunObserver, Simulation
from scheduler.sim.roofline import RooflineModel
from scheduler.sim.run import RunSettings, build_scheduler, check_fits, run_policy
from scheduler.sim.source import OpenLoop, RequestSource
from scheduler.sim.watched_cost import WatchedCost

__all__ = [
    "CostModel",
    "FittedRange",
    "OpenLoop",
    "RequestSource",
    "RooflineModel",
    "RunObserver",
    "RunSettings",
    "Simulation",
    "StepCost",
    "StepLoad",
    "WatchedCost",
    "build_scheduler",
    "check_fits",
    "load_time_scale",
    "poisson",
    "rate_time_scale",
    "run_policy",
    "scaled",
]
