"""Print every batch and event of one random run as JSON; run by a test in several processes."""

from __future__ import annotations

import json
import random
import sys

from radixcache import Namespace
from scheduler.events import Event
from tests.models.scheduler_driver import SchedulerDriver

__all__ = ["dump"]


def dump(seed: int) -> str:
    rng = random.Random(seed)
    d = SchedulerDriver(
        40,
        page_size=2,
        chunk_tokens=10,
        max_running=4,
        max_in_flight=2,
        output_reserve_ratio=0.0,
        max_tokens_per_step=2,
        policy=("lpm", "spf", "sglang-lpm")[seed % 3],
    )
    lines: list[object] = []
    flights = []
    count = 0
    while count < 40 or not d.scheduler.is_idle:
        if count < 40 and rng.random() < 0.7:
            tokens = [rng.randrange(2) for _ in range(rng.randint(1, 20))]
            space = Namespace.of(extra_key=rng.choice(["a", "b"]))
            d.submit(f"r{count}", tokens, rng.randint(1, 9), namespace=space)
            count += 1
        if rng.random() < 0.05 and d.ended.keys() != d.states.keys():
            rid = next(rid for rid in d.states if rid not in d.ended)
            d.ended[d.scheduler.abort(rid).state.rid] = "abort"
        if len(flights) < 2:
            batch = d.schedule()
            if not batch.is_empty:
                flights.append(batch)
            rows = [d.row(batch, rid) for rid in batch.rids]
            lines.append([batch.rids, batch.chunks, rows, batch.lengths.tolist()])
            lines.append([told(event) for event in batch.events])
        if flights and (len(flights) == 2 or rng.random() < 0.5):
            batch = flights.pop(0)
            last = [chunk.rid for chunk in batch.chunks if chunk.last]
            results = {
                rid: ([7] * rng.randint(0, 1 if rid in last else 2), None)
                for rid in (*last, *batch.decode_rids)
            }
            lines.append([told(event) for event in d.complete(batch, results)])
    return json.dumps(lines)


def told(event: Event) -> list[object]:
    return [type(event).__name__, event.state.rid, *event[1:]]


if __name__ == "__main__":
    sys.stdout.write(dump(int(sys.argv[1])))
