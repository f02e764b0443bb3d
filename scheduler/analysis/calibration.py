"""Calibration: coefficients of the step time from timed steps, and how far they can be trusted.

The first two thirds of the rows are fitted, the last third is held out: a server is asked to
predict what comes later, and the start of a log has the steps that compile kernels. Rows whose
error is more than ``OUTLIER`` times the median error are set aside and counted, judged by the
fit without them; of the held out rows none is. A feature that never changes cannot be told from
the constant and is left out; of two that rise and fall together only the sum is certain, and a
note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from radixcache.errors import ConfigError
from scheduler.analysis.least_squares import nonnegative_least_squares
from scheduler.analysis.step_log import StepRow

__all__ = [
    "LEAST_ROWS",
    "Calibration",
    "PercentileError",
    "calibrate",
    "format_calibration",
    "percentile_errors",
]

Array = npt.NDArray[np.float64]

LEAST_ROWS = 12
OUTLIER = 8.0
PERCENTILES = (50, 90, 99)
_ALIKE = 0.95
_LEAST_ERROR = 0.001
_ROUNDS = 6
_COEFFICIENTS = ("step_s", "per_prefill_token_s", "per_running_s", "per_context_token_s")
_FEATURES = ("steps", "prefill_tokens", "running", "context_tokens")


@dataclass(frozen=True, slots=True)
class PercentileError:
    """One percentile of something measured and predicted, in seconds."""

    percentile: int
    measured_s: float
    predicted_s: float

    @property
    def error_share(self) -> float | None:
        """Predicted over measured, less 1; None where nothing took time."""
        return self.predicted_s / self.measured_s - 1 if self.measured_s else None

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the fields and the error, for JSON."""
        return asdict(self) | {"error_share": self.error_share}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was fitted, where, and how well it predicts the rows that were held out."""

    coefficients: dict[str, float]
    """By name of ``CostModel``'s fields; what could not be told apart is 0."""
    fitted: dict[str, tuple[float, float]]
    """Least and most of each feature in a step of the fitted rows."""
    fitted_rows: int
    held_out_rows: int
    outliers: int
    """Fitted rows that were set aside."""
    r_squared: float | None
    """On the rows held out; None where all of them took equally long."""
    step_times: tuple[PercentileError, ...]
    """Of the rows held out; a row of several steps counts by its mean step."""
    notes: tuple[str, ...] = ()


def calibrate(rows: Sequence[StepRow]) -> Calibration:
    """Fit the step time to the rows. Cost: O(rows).

    Raises: ConfigError for fewer than ``LEAST_ROWS`` rows.
    """
    if len(rows) < LEAST_ROWS:
        raise ConfigError(
            f"the log has {len(rows)} timed steps, and at least {LEAST_ROWS} are needed: log for "
            "longer, at more than one load (vLLM: --enable-logging-iteration-details)"
        )
    # Where some rows lack the context, none has it.
    with_context = all(row.context_tokens is not None for row in rows)
    features, seconds = _matrix(rows, with_context)
    cut = len(rows) - len(rows) // 3
    solution, kept = _trimmed(features[:cut], seconds[:cut])
    used = [row for row, keep in zip(rows[:cut], kept, strict=True) if keep]
    predicted, held = features[cut:] @ solution, seconds[cut:]
    steps = features[cut:, 0]
    return Calibration(
        coefficients=dict(zip(_COEFFICIENTS, solution.tolist(), strict=True)),
        fitted=_ranges(used, with_context),
        fitted_rows=len(used),
        held_out_rows=len(rows) - cut,
        outliers=cut - len(used),
        r_squared=_r_squared(held, predicted),
        step_times=percentile_errors(held / steps, predicted / steps),
        notes=tuple(_notes(features[:cut][kept], with_context)),
    )


def percentile_errors(measured: Array, predicted: Array) -> tuple[PercentileError, ...]:
    """Return p50, p90 and p99 of both, side by side; nothing for no values."""
    if not len(measured) or not len(predicted):
        return ()
    return tuple(
        PercentileError(p, float(np.percentile(measured, p)), float(np.percentile(predicted, p)))
        for p in PERCENTILES
    )


def _matrix(rows: Sequence[StepRow], with_context: bool) -> tuple[Array, Array]:
    """Return the features (rows, 4) and the seconds."""
    features = np.array(
        [
            (
                row.steps,
                row.prefill_tokens,
                row.running,
                (row.context_tokens or 0.0) if with_context else 0.0,
            )
            for row in rows
        ],
        dtype=np.float64,
    )
    return features, np.array([row.seconds for row in rows], dtype=np.float64)


def _fit(features: Array, seconds: Array) -> Array:
    """Return the coefficients; those of features that say nothing are 0."""
    told = [0] + [i for i in range(1, features.shape[1]) if _varies(features, i)]
    scale = np.sqrt((features[:, told] ** 2).mean(axis=0))
    solution = np.zeros(features.shape[1])
    solution[told] = nonnegative_least_squares(features[:, told] / scale, seconds) / scale
    return solution


def _trimmed(features: Array, seconds: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the coefficients, and which rows they were fitted to: all but the outliers.

    Each round judges every row anew by the fit without the outliers of the round before.
    """
    kept = np.ones(len(seconds), dtype=bool)
    solution = _fit(features, seconds)
    for _ in range(_ROUNDS):
        residual = np.abs(features @ solution - seconds)
        # Residuals of rounding alone set no row aside.
        least = _LEAST_ERROR * float(np.median(seconds))
        near = residual <= OUTLIER * max(float(np.median(residual)), least)
        if (near == kept).all() or near.sum() < LEAST_ROWS // 2:
            break
        kept = near
        solution = _fit(features[kept], seconds[kept])
    return solution, kept


def _varies(features: Array, column: int) -> bool:
    """Tell whether a feature a step differs from row to row."""
    a_step = features[:, column] / features[:, 0]
    return bool(np.ptp(a_step) > 1e-9 * max(float(np.abs(a_step).max()), 1e-300))


def _r_squared(measured: Array, predicted: Array) -> float | None:
    total = float(((measured - measured.mean()) ** 2).sum())
    if total <= 0:
        return None
    return 1 - float(((measured - predicted) ** 2).sum()) / total


def _ranges(rows: Sequence[StepRow], with_context: bool) -> dict[str, tuple[float, float]]:
    """Return where a step of the fitted rows lay, feature by feature."""
    least = (
        0
        if any(_has_decode_only(row) for row in rows)
        else min(row.peak_prefill_tokens for row in rows)
    )
    ranges = {
        "prefill_tokens": (float(least), float(max(row.peak_prefill_tokens for row in rows))),
        "running": (
            min(row.step_running[0] for row in rows),
            max(row.step_running[1] for row in rows),
        ),
    }
    spans = [row.step_context for row in rows if row.step_context is not None]
    if with_context and spans:
        # A shorter context than any seen lies between the constant and the fit: no news.
        ranges["context_tokens"] = 0.0, max(span[1] for span in spans)
    return ranges


def _has_decode_only(row: StepRow) -> bool:
    return row.peak_prefill_tokens == 0 or row.steps > 1


def _notes(features: Array, with_context: bool) -> list[str]:
    """Say what could not be told from the rows."""
    notes = [
        "the attention of prefills is in no log: its time is part of the prefill tokens'",
    ]
    if not with_context:
        notes.append("the log does not tell the context: its time is part of the other terms")
    told = []
    for column in range(1, features.shape[1]):
        name = _FEATURES[column]
        if _varies(features, column):
            told.append(column)
        elif name != "context_tokens" or with_context:
            value = features[0, column] / features[0, 0]
            notes.append(
                f"{name} was always {value:g} a step: its time is part of the constant, and other "
                "values are extrapolated"
            )
    a_step = features / features[:, :1]
    for place, first in enumerate(told):
        for second in told[place + 1 :]:
            alike = float(np.corrcoef(a_step[:, first], a_step[:, second])[0, 1])
            if abs(alike) > _ALIKE:
                notes.append(
                    f"{_FEATURES[first]} and {_FEATURES[second]} rise and fall together "
                    f"(correlation {alike:.2f}): how their time divides is uncertain"
                )
    return notes


def format_calibration(
    fit: Calibration,
    ttft: Sequence[PercentileError],
    no_ttft: str | None,
    notes: Sequence[str] = (),
) -> str:
    """Return it as plain text for people."""
    lines = [f"{'term':<22}{'seconds':>12}  fitted from steps of"]
    for name, feature in zip(_COEFFICIENTS, _FEATURES, strict=True):
        span = fit.fitted.get(feature)
        shown = "every step" if feature == "steps" else "-"
        if span is not None:
            shown = f"{span[0]:,.0f} to {span[1]:,.0f} {feature}"
        lines.append(f"{name:<22}{fit.coefficients[name]:>12.4g}  {shown}")
    r_squared = "-" if fit.r_squared is None else f"{fit.r_squared:.4f}"
    lines += [
        "",
        f"fitted to {fit.fitted_rows} rows ({fit.outliers} outliers set aside), the last "
        f"{fit.held_out_rows} held out: R² {r_squared}",
        "",
        f"{'held out':<14}{'measured':>12}{'predicted':>12}{'error':>10}",
    ]
    for title, errors in (("step", fit.step_times), ("TTFT", ttft)):
        for error in errors:
            share = "-" if error.error_share is None else f"{100 * error.error_share:+.2f} %"
            name = f"{title} p{error.percentile}"
            times = (1000 * error.measured_s, 1000 * error.predicted_s)
            lines.append(f"{name:<14}{times[0]:>9,.2f} ms{times[1]:>9,.2f} ms{share:>10}")
    if no_ttft is not None:
        lines.append(f"no TTFT: {no_ttft}")
    lines.append("")
    lines += [f"note: {note}" for note in (*fit.notes, *notes)]
    return "\n".join(lines) + "\n"
