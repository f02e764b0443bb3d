"""The simulated engine: cost model, arrivals and one reproducible run."""

from scheduler.sim.arrivals import load_time_scale, poisson, rate_time_scale, scaled
from scheduler.sim.cost_model import CostModel, StepLoad
from scheduler.sim.engine import RunObserver, Simulation
from scheduler.sim.run import RunSettings, build_scheduler, check_fits, run_policy
from scheduler.sim.source import OpenLoop, RequestSource

__all__ = [
    "CostModel",
    "OpenLoop",
    "RequestSource",
    "RunObserver",
    "RunSettings",
    "Simulation",
    "StepLoad",
    "build_scheduler",
    "check_fits",
    "load_time_scale",
    "poisson",
    "rate_time_scale",
    "run_policy",
    "scaled",
]
