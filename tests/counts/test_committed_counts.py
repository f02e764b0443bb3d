"""The Python run by fixed workloads stays within a tenth of the committed count."""

from __future__ import annotations

import json

import pytest

from bench.counts import COUNTS_FILE, WORKLOADS, count_all, python_name

COMMITTED = json.loads(COUNTS_FILE.read_text(encoding="utf-8"))
MOST = 1.10


def test_nothing_runs_a_tenth_more_than_was_committed() -> None:
    if COMMITTED["python"] != python_name():
        pytest.skip(f"bench/counts.json is of {COMMITTED['python']}, this is {python_name()}")
    grown = [
        f"{name}: {value} {kind}, {COMMITTED['counts'][name][kind]} were committed"
        for name, kinds in count_all().items()
        for kind, value in kinds.items()
        if value > MOST * COMMITTED["counts"][name][kind]
    ]
    assert not grown, (
        f"make it cheaper, or say why and run `python -m bench.counts --write`: {grown}"
    )


def test_every_workload_has_a_committed_count() -> None:
    assert COMMITTED["counts"].keys() == WORKLOADS.keys()
    for kinds in COMMITTED["counts"].values():
        assert kinds.keys() == {"calls", "opcodes"}
