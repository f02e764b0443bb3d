"""The door: what a request and a configuration must be like; and who is never admitted."""

from __future__ import annotations

from radixcache import KeyKind
from radixcache.errors import ConfigError, InvalidInputError, RequestTooLargeError
from scheduler.admission import Supply, refusal_of
from scheduler.config import MOST_TOKENS, SchedulerConfig
from scheduler.overtake_guard import OvertakeGuard
from scheduler.policies import SchedulePolicy
from scheduler.request import Request, RequestState

__all__ = ["check_fits", "check_preemption", "check_request"]


def check_preemption(
    config: SchedulerConfig, policy: SchedulePolicy, guard: OvertakeGuard[RequestState]
) -> None:
    """Verify that preemption for priority has classes to go by.

    Raises:
        ConfigError: the order or the bounded guard knows none.

    """
    if config.preempt_priority_gap is None:
        return
    if not policy.has_classes:
        raise ConfigError(
            f"preempt_priority_gap is {config.preempt_priority_gap}, but the order "
            f"{policy.name!r} knows no priority: use 'priority+{policy.name}'"
        )
    if guard.bounded and not guard.has_classes:
        raise ConfigError(
            "a bounded guard without classes would let a preempted request hold back the one it "
            "made room for: give it class_of=policy.priority_class"
        )


def check_request(request: Request) -> None:
    """Verify the numbers of a request.

    Raises:
        InvalidInputError: a number is out of range, or the key's length does not fit.

    """
    rid = request.rid
    n = request.prompt_tokens
    if type(n) is not int or not 1 <= n < MOST_TOKENS:
        raise InvalidInputError(
            f"{rid!r} has prompt_tokens {n!r}: give a positive int below {MOST_TOKENS}"
        )
    if type(request.priority) is not int:
        raise InvalidInputError(f"{rid!r} has priority {request.priority!r}: give an int")
    for name in ("max_new_tokens", "visible_tokens", "max_match_tokens"):
        value = getattr(request, name)
        if value is None and name != "max_new_tokens":
            continue
        if type(value) is not int or not 0 <= value < 2**63:
            raise InvalidInputError(
                f"{rid!r} has {name} {value!r}: give an int of at least 0 and below 2**63"
            )
    if request.samples != 1:
        raise InvalidInputError(
            f"{rid!r} wants {request.samples!r} samples: submit each request of fan_out(request)"
        )
    if request.cache_output not in {"all", "none", "visible"}:
        raise InvalidInputError(
            f"{rid!r} has cache_output {request.cache_output!r}: use 'all', 'none' or 'visible'"
        )
    length, kind = len(request.key), request.key.kind
    fits = length == n or (kind is KeyKind.WIDE and length == n - 1)  # pairs
    if kind is KeyKind.BLOCKS:
        fits = length <= n
    if not fits:
        raise InvalidInputError(
            f"{rid!r} has a key of {length} tokens for a prompt of {n}: make the key of the prompt"
        )


def check_fits(state: RequestState, total_pages: int, capacity_pages: int) -> None:
    """Apply the admission predicate to an empty pool.

    Raises:
        RequestTooLargeError: not even then it could be admitted.

    """
    refusal = refusal_of(state.rid, total_pages, 0, 0, Supply(capacity_pages, 0, 0))
    if refusal is not None:
        raise RequestTooLargeError(
            f"{state.rid!r} needs {refusal.needed_pages} pages for {state.prompt_tokens} prompt "
            f"and up to {state.request.max_new_tokens} output tokens, the pool has "
            f"{capacity_pages}: enlarge the pool, or ask for less",
            needed_pages=refusal.needed_pages,
            capacity_pages=capacity_pages,
        )
