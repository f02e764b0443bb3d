"""Random events for hours: ``python -m tests.soak_waiting_tree --steps N --seed S``.

Takes the WaitingTree, RadixCache and brute-force model through random events over a tiny
alphabet, compares every answer after every event, and prints the seed to repeat a fault.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter

from tests.models.waiting_world import NAMESPACES, POLICIES, WaitingWorld

__all__ = ["run_episode"]

EPISODE_STEPS = 400


def some_tokens(rng: random.Random) -> list[int]:
    return [rng.choice((1, 1, 1, 2)) for _ in range(rng.choice((1, 3, 6, 9, 12)))]


def step(world: WaitingWorld, rng: random.Random, most_waiting: int) -> str:
    """Make one random event happen; return its name."""
    namespace = rng.choice((NAMESPACES[0], *NAMESPACES))
    waiting, running = world.model.waiting, world.running
    kind = rng.choices(
        ("arrive", "admit", "publish", "finish", "stop", "retract", "abort", "evict", "insert",
         "reset", "force", "drop"),
        (30, 22, 22, 6, 5, 5, 6, 16, 4, 0.5, 0.3, 0.7),
    )[0]  # fmt: skip
    if kind == "arrive" and len(waiting) < most_waiting:
        most = rng.choice((None, None, None, rng.randrange(8)))
        world.arrive(some_tokens(rng), namespace, most)
    elif kind == "admit" and waiting and len(running) < 6:
        order = [candidate.state for candidate in world.tree.candidates()]
        world.admit(order[0] if rng.random() < 0.6 else rng.choice(order))
    elif kind in {"publish", "finish"} and running:
        run = rng.choice(running)
        whole = run.state.prefill_tokens
        world.publish(run, whole if kind == "finish" else rng.randrange(whole + 1))
        if kind == "finish":
            world.stop(run)
    elif kind == "stop" and running:
        world.stop(rng.choice(running))
    elif kind == "retract" and running:
        world.retract(rng.choice(running), [1] * rng.randrange(4))
    elif kind == "abort" and waiting:
        world.abort_waiting(rng.choice(waiting))
    elif kind == "evict":
        world.evict(rng.choice((1, 1, 2, 5, 100)))
    elif kind == "insert":
        world.insert_elsewhere(some_tokens(rng), namespace)
    elif kind in {"reset", "force"}:
        world.reset(force=kind == "force")
    elif kind == "drop":
        world.drop_namespace(namespace)
    else:
        return "nothing"
    return kind


def run_episode(seed: int, page_size: int, policy: str, hold: bool, steps: int) -> Counter[str]:
    """Run one world and compare after every step; return how often each event happened."""
    rng = random.Random(f"{seed} {page_size} {policy} {hold}")
    most_stored = rng.choice((None, None, 0, 4))
    world = WaitingWorld(page_size, policy, hold=hold, most_stored=most_stored)
    most_waiting = rng.choice((4, 10, 25))
    done: Counter[str] = Counter()
    for number in range(steps):
        kind = step(world, rng, most_waiting)
        done[kind] += 1
        try:
            world.compare(some_tokens(rng))
        except BaseException:
            print(f"step {number} ({kind}): {seed=} {page_size=} {policy=} {hold=}")
            raise
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done: Counter[str] = Counter()
    settings = itertools.product(sorted(POLICIES), (1, 2, 3), (True, False))
    for number, (policy, page_size, hold) in enumerate(itertools.cycle(settings)):
        if done.total() >= options.steps:
            break
        steps = min(EPISODE_STEPS, options.steps - done.total())
        done += run_episode(options.seed + number, page_size, policy, hold, steps)
    events = ", ".join(f"{count} {kind}" for kind, count in done.most_common())
    print(f"{done.total()} steps agree (seed {options.seed}): {events}")


if __name__ == "__main__":
    main()
