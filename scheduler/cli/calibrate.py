"""`radixcache calibrate`: a cost model from a server's log, and how well it predicts that log."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from radixcache.errors import ConfigError
from scheduler.analysis.calibration import (
    Calibration,
    PercentileError,
    calibrate,
    format_calibration,
)
from scheduler.analysis.step_log import StepLog, read_steps
from scheduler.cli.measured_ttft import ttft_errors
from scheduler.cli.output import check_writable, emit, frame_of, say
from scheduler.cli.progress import counted, progress_bar
from scheduler.report.document import json_text
from scheduler.sim.cost_model import CostModel, FittedRange
from scheduler.trace.server_log import log_lines
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_writable(arguments.output)
    source, summary = Source(arguments.log), TraceSummary()
    with progress_bar("lines", None, quiet=arguments.quiet) as bar:
        log = read_steps(
            counted(log_lines(source, summary), bar),
            decode_log_interval=arguments.decode_log_interval,
        )
    said = [f"{arguments.log}: {_engine(log)}, {len(log.rows)} timed rows"]
    said += [f"note: {line}" for line in log.facts.lines()]
    said += [f"note: left out {count}: {why}" for why, count in sorted(log.left_out.items())]
    said += [f"note: {reason}: {count}" for reason, count in sorted(summary.repaired.items())]
    say(said)
    if not log.rows:
        raise ConfigError(
            f"{arguments.log}: no timed step in it: give a log of vLLM with "
            "--enable-logging-iteration-details, or of SGLang with its batch lines"
        )
    if log.engine == "vllm" and arguments.decode_log_interval is not None:
        raise ConfigError("--decode-log-interval goes with a log of SGLang: leave it out")
    fit = calibrate(log.rows)
    cost = _cost_model(fit)
    ttft, reason = ttft_errors(source, log, cost)
    record = _record(arguments, log, fit, ttft, reason)
    if arguments.output is not None:
        document = {**cost.as_dict(), "calibration": record}
        emit(arguments.output, json_text(document))
        capacity = log.facts.capacity_tokens
        memory = "" if capacity is None else f" --capacity-tokens {capacity}"
        say([f"{arguments.output}: use it with --cost-model {arguments.output}{memory}"])
    if arguments.json:
        text = json_text(record)
    else:
        text = format_calibration(fit, ttft, reason, sorted(log.notes))
    emit(None, text)
    return 0


def _engine(log: StepLog) -> str:
    return {"vllm": "a log of vLLM", "sglang": "a log of SGLang"}.get(log.engine, "a log")


def _cost_model(fit: Calibration) -> CostModel:
    """Return the fit as a cost model. Raises: ConfigError where no step would take time."""
    return CostModel(
        **fit.coefficients,
        calibrated=True,
        fitted=tuple(FittedRange(name, *span) for name, span in sorted(fit.fitted.items())),
    )


def _record(
    arguments: argparse.Namespace,
    log: StepLog,
    fit: Calibration,
    ttft: Sequence[PercentileError],
    reason: str | None,
) -> dict[str, Any]:
    """Return the record of the fit, for JSON."""
    return {
        **frame_of(arguments, arguments.log, [*fit.notes, *sorted(log.notes)]),
        "engine": log.engine,
        "capacity_tokens": log.facts.capacity_tokens,
        "page_size": log.facts.page_size,
        "coefficients": fit.coefficients,
        "fitted": {name: list(span) for name, span in sorted(fit.fitted.items())},
        "fitted_rows": fit.fitted_rows,
        "held_out_rows": fit.held_out_rows,
        "outlier_rows": fit.outliers,
        "r_squared": fit.r_squared,
        "step_times": [error.as_dict() for error in fit.step_times],
        "ttft": [error.as_dict() for error in ttft] or None,
        "ttft_missing": reason,
        "left_out": dict(sorted(log.left_out.items())),
    }
