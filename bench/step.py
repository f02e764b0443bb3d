"""A decode-only step: schedule + complete of 256 running requests, at 4k and at 128k context.

    python -m bench step

Every request has a prompt of its own, computed before the clock starts; nothing waits and
nothing ends. Pages of 16 tokens, so one request in 16 gets a page in a step. A value is CPU
seconds a step, schedule and complete, over 64 steps.
"""

from __future__ import annotations

import random
from functools import partial

from bench.runner import OURS, Options, Results, alternate, cpu_seconds, parse_options
from radixcache import KeyKind, PagePool, PrefixKey, RadixCache
from scheduler import Request, Scheduler, SchedulerConfig

__all__ = ["Decoding", "run"]

PAGE = 16
RUNNING = 256
STEPS = 64
CONTEXTS = (4_096, 131_072)
_MOST_OUTPUT_TOKENS = 4_096


class Decoding:
    """A scheduler whose requests all decode."""

    def __init__(self, running: int, context_tokens: int, seed: int) -> None:
        rng = random.Random(seed)
        pages = running * ((context_tokens + _MOST_OUTPUT_TOKENS) // PAGE + 2)
        config = SchedulerConfig(
            page_size=PAGE, max_running=running, chunk_tokens=running * context_tokens
        )
        self.scheduler = Scheduler(RadixCache(PAGE), PagePool(pages), config)
        for number in range(running):
            data = rng.randbytes(4 * context_tokens)
            request = Request(
                rid=f"r{number}",
                key=PrefixKey.from_packed(data, KeyKind.TOKENS),
                prompt_tokens=context_tokens,
                max_new_tokens=_MOST_OUTPUT_TOKENS,
            )
            self.scheduler.submit(request, 0.0)
        self.now = 0.0
        # Prefill, and one step in which the promised pages settle.
        self.steps(2)

    def steps(self, count: int) -> dict[str, float]:
        """Run some steps; return CPU seconds a step of each half and of both."""
        spent = dict.fromkeys(("schedule", "complete"), 0.0)
        for _ in range(count):
            self.now += 0.008
            start = cpu_seconds()
            batch = self.scheduler.schedule(self.now)
            middle = cpu_seconds()
            results = {rid: ([7], None) for rid in batch.rids}
            between = cpu_seconds()
            self.scheduler.complete(batch, results, self.now)
            spent["complete"] += cpu_seconds() - between
            spent["schedule"] += middle - start
        each = {name: seconds / count for name, seconds in spent.items()}
        return each | {"schedule + complete": sum(each.values())}


def run(options: Options) -> Results:
    """Measure both contexts in turn."""
    results = Results(options)
    running = options.size(RUNNING, 32)
    for context in CONTEXTS:
        decoding = Decoding(running, context, options.seed)
        found = alternate(options.rounds, {OURS: partial(decoding.steps, STEPS)})
        label = f"{running} running at {context:,} tokens"
        results.add_group(found, label, running=running, context_tokens=context)
    return results


if __name__ == "__main__":
    run(parse_options("step")).save()
