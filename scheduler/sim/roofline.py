"""RooflineModel: the seconds of a step from a model's size and a GPU's data sheet.

::

    step = constant + max(FLOPs / (gpus * peak * 0.5), bytes / (gpus * bandwidth * 0.7))

    FLOPs = 2 * active parameters * (new tokens + decoding requests)
            + pair FLOPs * (query-key pairs of the prefill + context tokens of the decodes)
    bytes = weights that the step touches, once
            + KV bytes a token * (context read by the decodes + keys read by the prefill + written)

Of a mixture of experts a step of t tokens touches, under uniform routing, the share
1 - (1 - used/count)^t of all experts. The prefill reads its keys once a step. Not modelled:
communication between GPUs, the pipeline's bubbles, kernels that do not overlap, activations.
Layers with a window or a state cost their weights alone. A step with prefills counts all running
requests but one as decoding. Nothing here was measured: the seconds stay uncalibrated.

Ref: S. Williams et al., Roofline (CACM 2009); the efficiencies are assumptions of ours, near
what dense matrix products and memory copies of a serving engine reach.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixcache.errors import ConfigError
from scheduler.models import Gpu, ModelShape
from scheduler.sim.cost_model import FittedRange, StepLoad

__all__ = ["RooflineModel"]

_REFERENCE_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineModel:
    """A cost model with the interface of ``CostModel``. Cost: O(1) a step.

    Raises: ConfigError where the weights are unknown or do not fit into the GPUs.
    """

    shape: ModelShape
    gpu: Gpu
    gpus: int = 1
    """Cards that share each layer."""
    kv_dtype: str | None = None
    compute_efficiency: float = 0.5
    bandwidth_efficiency: float = 0.7
    step_s: float = 0.005
    """What a step takes beside: scheduling, kernel launches, sampling."""

    def __post_init__(self) -> None:
        if self.shape.params is None:
            raise ConfigError(
                f"model {self.shape.name}: its configuration does not tell how many weights it "
                "has: give a model of the catalogue, or a measured --cost-model"
            )
        for name in ("compute_efficiency", "bandwidth_efficiency"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ConfigError(f"{name} is {value!r}: give a number above 0 and at most 1")
        if self.gpus < 1 or self.step_s < 0:
            raise ConfigError(f"gpus is {self.gpus}, step_s {self.step_s}: give at least 1 and 0")
        have = self.gpus * self.gpu.memory_gb * 1e9
        if self.weight_bytes > have:
            least = int(-(-self.weight_bytes // (self.gpu.memory_gb * 1e9)))
            raise ConfigError(
                f"the weights of {self.shape.name} take {self.weight_bytes / 1e9:.0f} GB, "
                f"{self.gpus} x {self.gpu.name} hold {have / 1e9:.0f}: give at least --gpus {least}"
            )

    @property
    def calibrated(self) -> bool:
        """Never: it comes from data sheets."""
        return False

    @property
    def fitted(self) -> tuple[FittedRange, ...]:
        """No range: nothing was measured."""
        return ()

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights."""
        assert self.shape.params is not None
        known = self.shape.weight_bytes
        return 2 * self.shape.params if known is None else known

    @property
    def prefill_tokens_per_s(self) -> float:
        """The rate of long prefill steps of 8,192 tokens, attention apart."""
        load = StepLoad(_REFERENCE_TOKENS, 0.0, 0, 0)
        return _REFERENCE_TOKENS / (self.step_seconds(load) - self.step_s)

    def step_seconds(self, load: StepLoad) -> float:
        """Return the seconds a step with this load takes."""
        decoding = load.running if not load.prefill_tokens else max(load.running - 1, 0)
        tokens = load.prefill_tokens + decoding
        compute, memory = self._flops(load, tokens), self._bytes(load, tokens)
        peak = self.gpus * self.gpu.tflops * 1e12 * self.compute_efficiency
        bandwidth = self.gpus * self.gpu.bandwidth_gb_s * 1e9 * self.bandwidth_efficiency
        return self.step_s + max(compute / peak, memory / bandwidth)

    def _flops(self, load: StepLoad, tokens: int) -> float:
        active = self.shape.active_params or self.shape.params
        assert active is not None
        pairs = load.attention_tokens2 + load.context_tokens
        return 2 * active * tokens + self.shape.pair_flops() * pairs

    def _bytes(self, load: StepLoad, tokens: int) -> float:
        keys: float = load.context_tokens + tokens
        if load.prefill_tokens:
            keys += load.attention_tokens2 / load.prefill_tokens
        return self._touched(tokens) + self.shape.kv_bytes_per_token(self.kv_dtype) * keys

    def _touched(self, tokens: int) -> float:
        """Return the bytes of the weights that so many tokens pass."""
        shape = self.shape
        if shape.experts is None or shape.active_params is None or shape.params is None:
            return self.weight_bytes
        used = shape.experts.used / shape.experts.count
        # params = dense + experts, active = dense + used * experts
        experts = min((shape.params - shape.active_params) / (1 - used), shape.params)
        seen = 1 - (1 - used) ** min(tokens, 1_000_000)
        return self.weight_bytes * (1 - (1 - seen) * experts / shape.params)

    def describe(self) -> str:
        """Return one line for a report's list of assumptions."""
        cards = self.gpu.name if self.gpus == 1 else f"{self.gpus} x {self.gpu.name}"
        return (
            f"roofline (uncalibrated): {self.shape.name} on {cards}, "
            f"{self.weight_bytes / 1e9:.1f} GB of weights, peak {self.gpu.tflops:g} TFLOP/s x "
            f"{self.compute_efficiency:g}, {self.gpu.bandwidth_gb_s:g} GB/s x "
            f"{self.bandwidth_efficiency:g}, step_s={self.step_s:g}"
        )
