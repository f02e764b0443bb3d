"""Timed steps from a server's log: what each computed, and how many seconds it took.

vLLM with ``--enable-logging-iteration-details`` prints each iteration with its milliseconds.
Newer versions add the share of KV memory in use; times the capacity of the startup line that
is the context. SGLang prints no step times. What can be known: a ``Decode batch`` line comes
every ``decode_log_interval`` decode steps (40), with the tokens per second since the one
before; so the seconds between two of them are ``interval * running / throughput``, or the
difference of their times where these are finer than a second. All prefills between them are
in that time, so one row is one such interval. An interval in which a prefill found nothing
running is left out: the server may have been idle. Requests that share a prefix count its
tokens once in both logs' context, and neither says how long the prompts of a prefill are with
their cached part, so that the attention of prefills cannot be told from their tokens.

Ref: vLLM 0.33 ``v1/metrics/loggers.py`` (_log_iteration_details), ``v1/engine/core.py`` of older
versions; SGLang 0.5.23 ``managers/scheduler_components/metrics_reporter.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.trace.server_log import ServerFacts, precise_moment

__all__ = ["DECODE_LOG_INTERVAL", "StepLog", "StepRow", "read_steps"]

DECODE_LOG_INTERVAL = 40
"""SGLang's default of ``--decode-log-interval``."""

_ITERATION = re.compile(
    r"Iteration\(\d+\): (\d{1,9}) context requests, (\d{1,9}) context tokens, "
    r"(\d{1,9}) generation requests, (\d{1,9}) generation tokens, "
    r"iteration elapsed time: (\d{1,12}(?:\.\d{1,6})?) ms( \(dummy\))?"
    r"(?:, \w+ KV cache usage: (\d{1,3}(?:\.\d{1,6})?)%)?"
)
_BATCH = re.compile(r"(Prefill|Decode) batch(?: \[\d+\])?[.,] (.{0,2000})")
_NUMBER = re.compile(r"#?([a-z][a-z -]{0,30}?(?: \(token/s\))?): (-?\d{1,15}(?:\.\d{1,9})?)\b")
_RANK = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?([ A-Z0-9_]{0,40})\]")
_MOST_CHANGE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step, or several that were timed together; amounts are sums over its steps."""

    line: int
    seconds: float
    steps: int
    prefill_tokens: int
    running: float
    context_tokens: float | None
    peak_prefill_tokens: int
    """Of its largest step; the least is 0 where ``steps`` has a step without prefill."""
    step_running: tuple[float, float]
    """Least and most running requests of a step."""
    step_context: tuple[float, float] | None


@dataclass(slots=True)
class StepLog:
    """All rows of a log, what the server said of itself, and what was left out."""

    engine: str = "unknown"
    rows: list[StepRow] = field(default_factory=list)
    facts: ServerFacts = field(default_factory=ServerFacts)
    left_out: Counter[str] = field(default_factory=Counter)
    """Lines or intervals that gave no row, by reason."""
    notes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Interval:
    """What one SGLang scheduler printed since its latest decode line."""

    running: float
    context: float | None
    moment_s: float | None
    prefills: int = 0
    prefill_tokens: int = 0
    peak_prefill_tokens: int = 0
    new_requests: int = 0
    idle: bool = False


def read_steps(lines: Iterable[tuple[int, str]], *, decode_log_interval: int | None) -> StepLog:
    """Read the timed steps of a vLLM or SGLang log.

    ``decode_log_interval`` None takes what the log says, else 40. Cost: O(log), memory O(rows).
    """
    log = StepLog()
    latest: dict[str, _Interval] = {}
    for number, text in lines:
        log.facts.see(text)
        for found in _ITERATION.finditer(text):
            log.engine = "vllm"
            _iteration(log, number, found)
        if "Iteration(" in text and _ITERATION.search(text) is None:
            log.left_out["an iteration line that is cut or mixed with another"] += 1
        batch = _BATCH.search(text)
        if batch is not None and log.engine != "vllm":
            log.engine = "sglang"
            rank = _RANK.search(text)
            interval = decode_log_interval or log.facts.decode_log_interval or DECODE_LOG_INTERVAL
            _batch(log, number, text, batch, latest, rank[1] if rank else "", interval)
    return log


def _iteration(log: StepLog, line: int, found: re.Match[str]) -> None:
    prompts, tokens, decodes, made = (int(found[i]) for i in range(1, 5))
    seconds = float(found[5]) / 1000
    if found[6] is not None:
        log.left_out["a dummy step of an idle engine"] += 1
        return
    if seconds <= 0 or prompts + decodes == 0:
        log.left_out["a step without requests or without time"] += 1
        return
    if made > decodes:
        log.notes.add("decodes give several tokens a step (speculative decoding): counted as one")
    context = None
    if found[7] is not None and log.facts.capacity_tokens is not None:
        context = float(found[7]) / 100 * log.facts.capacity_tokens
    running = float(prompts + decodes)
    log.rows.append(
        StepRow(
            line=line,
            seconds=seconds,
            steps=1,
            prefill_tokens=tokens,
            running=running,
            context_tokens=context,
            peak_prefill_tokens=tokens,
            step_running=(running, running),
            step_context=None if context is None else (context, context),
        )
    )


def _batch(
    log: StepLog,
    line: int,
    text: str,
    found: re.Match[str],
    latest: dict[str, _Interval],
    rank: str,
    steps: int,
) -> None:
    numbers = {name.strip(): float(value) for name, value in _NUMBER.findall(found[2])}
    running = numbers.get("running-req")
    if found[1] == "Prefill":
        before = latest.get(rank)
        tokens, requests = numbers.get("new-token"), numbers.get("new-seq")
        if tokens is None or requests is None or running is None:
            log.left_out["a batch line that is cut or mixed with another"] += 1
            if before is not None:
                before.idle = True
        elif before is not None:
            before.prefills += 1
            before.prefill_tokens += int(tokens)
            before.peak_prefill_tokens = max(before.peak_prefill_tokens, int(tokens))
            before.new_requests += int(requests)
            before.idle = before.idle or running == 0
        return
    rate = numbers.get("gen throughput (token/s)")
    if running is None or rate is None:
        log.left_out["a batch line that is cut or mixed with another"] += 1
        latest.pop(rank, None)
        return
    context = numbers.get("token", numbers.get("full token"))
    now = _Interval(running, context, precise_moment(text))
    before = latest.get(rank)
    latest[rank] = now
    if before is not None:
        accepted = numbers.get("accept len", 1.0)
        _interval(log, line, before, now, steps, rate / max(accepted, 1.0))


def _interval(
    log: StepLog, line: int, before: _Interval, now: _Interval, steps: int, rate: float
) -> None:
    """Add the row between two decode lines, or count why there is none."""
    mean = (before.running + now.running) / 2
    if before.idle or min(before.running, now.running) <= 0 or rate <= 0:
        log.left_out["an interval in which the server may have been idle"] += 1
        return
    seconds = steps * mean / rate
    if before.moment_s is not None and now.moment_s is not None:
        seconds = now.moment_s - before.moment_s
    elif abs(before.running - now.running) > _MOST_CHANGE * mean:
        log.left_out["an interval whose running requests changed too much to know its time"] += 1
        return
    if seconds <= 0:
        log.left_out["a step without requests or without time"] += 1
        return
    context = span = None
    if before.context is not None and now.context is not None:
        context = steps * (before.context + now.context) / 2
        span = min(before.context, now.context), max(before.context, now.context)
    least = min(before.running, now.running)
    log.rows.append(
        StepRow(
            line=line,
            seconds=seconds,
            steps=steps + before.prefills,
            prefill_tokens=before.prefill_tokens,
            running=steps * mean + before.new_requests,
            context_tokens=context,
            peak_prefill_tokens=before.peak_prefill_tokens,
            step_running=(
                min(least, 1.0) if before.prefills else least,
                max(before.running, now.running),
            ),
            step_context=span,
        )
    )
