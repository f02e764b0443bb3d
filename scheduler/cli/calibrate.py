"""`radixcache calibrate`: a cost model from a server's log, and how well it predicts that log."""

from __future__ import annotations

import argparse
import json
from typing import Any

from radixcache.errors import ConfigError
from scheduler.analysis.calibration import Calibration, calibrate, format_calibration
from scheduler.analysis.step_log import StepLog, read_steps
from scheduler.cli.measured_ttft import ttft_errors
from scheduler.cli.output import check_writable, emit, say
from scheduler.cli.parsing import command_line
from scheduler.cli.progress import counted, progress_bar
from scheduler.cli.version import installed_version
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
    record = _record(arguments, log, fit, [_percentile(p) for p in ttft], reason)
    if arguments.output is not None:
        document = {**cost.as_dict(), "calibration": record}
        emit(arguments.output, json.dumps(document, sort_keys=True, indent=2) + "\n")
        capacity = log.facts.capacity_tokens
        memory = "" if capacity is None else f" --capacity-tokens {capacity}"
        say([f"{arguments.output}: use it with --cost-model {arguments.output}{memory}"])
    if arguments.json:
        text = json.dumps(record, sort_keys=True, indent=2, allow_nan=False) + "\n"
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


def _percentile(error: Any) -> dict[str, float | int | None]:
    return {
        "percentile": error.percentile,
        "measured_s": error.measured_s,
        "predicted_s": error.predicted_s,
        "error_share": error.error_share,
    }


def _record(
    arguments: argparse.Namespace,
    log: StepLog,
    fit: Calibration,
    ttft: list[dict[str, float | int | None]],
    reason: str | None,
) -> dict[str, Any]:
    """Return the record of the fit, for JSON."""
    return {
        "command": command_line(arguments),
        "version": installed_version(),
        "engine": log.engine,
        "capacity_tokens": log.facts.capacity_tokens,
        "page_size": log.facts.page_size,
        "coefficients": fit.coefficients,
        "fitted": {name: list(span) for name, span in sorted(fit.fitted.items())},
        "fitted_rows": fit.fitted_rows,
        "held_out_rows": fit.held_out_rows,
        "outlier_rows": fit.outliers,
        "r_squared": fit.r_squared,
        "step_times": [_percentile(error) for error in fit.step_times],
        "ttft": ttft or None,
        "ttft_missing": reason,
        "left_out": dict(sorted(log.left_out.items())),
        "notes": [*fit.notes, *sorted(log.notes)],
    }
