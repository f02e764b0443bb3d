from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.workloads import SHAPES, Turn, make_workload, unique_tokens

NOWHERE = Path("/nonexistent")


@pytest.mark.parametrize("name", SHAPES)
def test_the_seed_makes_the_workload(name: str) -> None:
    first, again, other = (make_workload(name, 0.02, seed, NOWHERE) for seed in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert other is not None
    assert all(np.array_equal(a.full, b.full) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a.full, b.full) for a, b in zip(first, other, strict=False))


@pytest.mark.parametrize("name", SHAPES)
def test_a_prompt_starts_its_full_sequence(name: str) -> None:
    for turn in make_workload(name, 0.02, 1, NOWHERE) or ():
        assert np.array_equal(turn.full[: len(turn.prompt)], turn.prompt)
        assert len(turn.full) > len(turn.prompt)


def test_chats_go_on_where_they_ended() -> None:
    turns = make_workload("W2", 0.01, 1, NOWHERE) or []
    assert len(turns) == 5 * 8
    starts = {turn.full.tobytes() for turn in turns}
    going_on = sum(
        any(turn.prompt.tobytes().startswith(start) for start in starts) for turn in turns
    )
    assert going_on == 5 * 7


def test_an_absent_trace_is_no_workload() -> None:
    assert make_workload("W6", 1.0, 1, NOWHERE) is None


def test_unique_tokens_are_those_of_a_trie_of_pages() -> None:
    rows = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [9, 9], [1, 2], [7]]
    turns = [Turn(np.array(row), np.array(row)) for row in rows]
    assert unique_tokens(turns, 1) == 4 + 2 + 2 + 1
    assert unique_tokens(turns, 2) == 4 + 2 + 2
