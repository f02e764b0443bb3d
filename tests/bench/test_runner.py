from __future__ import annotations

from pathlib import Path

import pytest

from bench.loop import measure
from bench.micro import Shape, leaf_keys, shape_turn
from bench.runner import OURS, Results, alternate, parse_options, shown, verdict
from bench.subjects import Observed, Ours, contract_subject
from bench.targets import Raw, Row, rows, table, write_table
from bench.traffic import Traffic, hit_tokens, prepare, serve_all, time_calls
from bench.workloads import make_workload, unique_tokens
from radixcache import NullCache

pytest.importorskip("pyperf")


def traffic(name: str, scale: float = 0.01) -> Traffic:
    turns = make_workload(name, scale, 1, Path("/nonexistent"))
    assert turns is not None
    return Traffic(name, turns, 16, unique_tokens(turns, 16))


def test_subjects_take_turns_after_a_warm_up() -> None:
    order: list[str] = []

    def turn(name: str) -> dict[str, float]:
        order.append(name)
        return {"call": float(len(order))}

    found = alternate(2, {name: lambda name=name: turn(name) for name in ("a", "b")})
    assert order == ["a", "b"] * 3
    assert found == {"a": {"call": [3.0, 5.0]}, "b": {"call": [4.0, 6.0]}}


def test_a_ratio_may_be_no_difference() -> None:
    assert verdict([1.0] * 7, [3.0] * 7) == "3.00x"
    assert "no significant difference" in verdict([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5])


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(2.5e-6, "second", "2.5 µs"), (0.0, "second", "0 ns"), (2048, "byte", "2 KiB")],
)
def test_values_are_shown_with_their_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_observed_and_plain_cache_hit_the_same_tokens() -> None:
    load = traffic("W2", 0.05)
    hits = [hit_tokens(prepare(kind, load), load) for kind in (Ours, Observed)]
    assert hits[0] == hits[1] > 0


def test_any_cache_with_the_contract_can_be_measured() -> None:
    load = traffic("W1")
    null = contract_subject("null", NullCache)
    assert hit_tokens(prepare(null, load), load) == 0
    assert serve_all(prepare(null, load), load) > 0
    assert {"match", "insert", "unlock", "rematch"} == time_calls(prepare(null, load), load).keys()


def test_micro_times_every_operation_on_a_tree_of_its_shape() -> None:
    shape = Shape(depth_nodes=3, fan_out=128)
    chains = leaf_keys(shape, 1)
    assert [len(chain) for chain in chains] == [2 + 128] * 2
    spent = shape_turn(shape, chains)
    assert {"insert", "peek", "match", "release", "evict a leaf"} <= spent.keys()


def test_results_are_written_with_raw_values_and_read_into_the_table(tmp_path: Path) -> None:
    options = parse_options("loop", ["--rounds", "6", "--results-dir", str(tmp_path)])
    results = Results(options)
    measure(results, traffic("W1"), [Ours, Observed])
    results.save()
    raw = Raw(tmp_path)
    assert len(raw.get("loop", "request W1")) == 6
    assert "Python" in raw.origins["loop"]
    (row,) = [row for row in rows(raw) if row.target.startswith("2.") and "W1" in row.target]
    assert row.measured.endswith("s")
    assert row.peer == ""


def test_a_target_without_a_result_is_an_empty_cell(tmp_path: Path) -> None:
    found = rows(Raw(tmp_path))
    assert {row.target.partition(".")[0] for row in found} == {str(n) for n in range(1, 11)}
    for row in found:
        assert (row.measured, row.peer, row.ratio, row.met) == ("", "", "", None)


def test_the_table_replaces_what_is_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    marks = "<!-- targets: made by python -m bench.targets -->old<!-- end of targets -->"
    page.write_text(f"before {marks} after", encoding="utf-8")
    write_table(page, table(Raw(tmp_path)))
    write_table(page, "new")
    text = page.read_text(encoding="utf-8")
    assert "old" not in text
    assert text.startswith("before ")
    assert "new" in text
    assert text.endswith(" after")


def test_a_fast_run_writes_nothing(tmp_path: Path) -> None:
    results = Results(parse_options("loop", ["--fast", "--results-dir", str(tmp_path)]))
    results.add("call", OURS, [1.0])
    results.save()
    assert not list(tmp_path.iterdir())


def test_a_row_knows_its_command() -> None:
    assert all(row.bench for row in rows(Raw(Path("/nonexistent"))))
    assert Row("1.").met is None
