"""Parquet files: read as their rows of JSON are, or refused with what to do."""

from __future__ import annotations

import gzip
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache.errors import TraceError
from scheduler.trace import Trace, open_trace
from tests.models.command_line import run

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra `parquet`")

START = datetime(2024, 5, 1, 10, tzinfo=UTC)


def wildchat_rows(count: int) -> list[dict[str, Any]]:
    """Return rows with the columns of WildChat, the latest conversation first."""
    rows = []
    for number in range(count, 0, -1):
        asked = START + timedelta(seconds=10 * number)
        said = [
            {
                "content": f"question {number % 3} {turn}" if role == "user" else "an answer " * 9,
                "role": role,
                "hashed_ip": "ip" if role == "user" else None,
                "header": {"accept-language": "en", "user-agent": None},
                "timestamp": None if role == "user" else asked + timedelta(seconds=60 * turn),
                "toxic": False,
                "turn_identifier": turn,
            }
            for turn in range(2)
            for role in ("user", "assistant")
        ]
        moderation = [{"flagged": False, "scores": {"a": float("nan")}}]
        rows.append(
            {
                "conversation_hash": f"h{number}",
                "model": "m",
                "timestamp": asked + timedelta(seconds=60),
                "conversation": said,
                "turn": 2,
                "openai_moderation": moderation,
                "hashed_ip": f"ip{number % 2}",
            }
        )
    return rows


def written(path: Path, rows: list[dict[str, Any]], **options: Any) -> Trace:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, **options)
    return open_trace(path)


def as_jsonl(path: Path, rows: list[dict[str, Any]]) -> Trace:
    path.write_text("".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows))
    return open_trace(path)


@pytest.mark.parametrize("row_group_size", [3, 1000])
def test_wildchat_equals_the_same_rows_as_jsonl(tmp_path: Path, row_group_size: int) -> None:
    rows = wildchat_rows(20)
    trace = written(tmp_path / "w.parquet", rows, row_group_size=row_group_size)
    same = as_jsonl(tmp_path / "w.jsonl", rows)
    assert trace.format == same.format == "wildchat"
    requests = list(trace)
    assert requests == list(same) == list(trace)
    assert len(requests) == 40
    assert requests[0].rid == "h1/1"
    assert requests[0].client_id == "ip1"
    assert [r.arrival_s for r in requests] == sorted(r.arrival_s for r in requests)
    assert trace.summary.lines() == same.summary.lines()


def test_lmsys_and_sharegpt_and_requests_are_found_by_their_columns(tmp_path: Path) -> None:
    said = [{"content": "Hi", "role": "user"}, {"content": "Hello", "role": "assistant"}]
    by_format = {
        "lmsys": {"conversation_id": "c", "model": "m", "conversation": said, "turn": 1},
        "sharegpt": {"id": "a", "conversations": [{"from": "human", "value": "Hi"},
                                                  {"from": "gpt", "value": "Hello"}]},
        "openai": {"model": "m", "messages": said[:1], "max_tokens": 5},
    }  # fmt: skip
    for name, row in by_format.items():
        trace = written(tmp_path / f"{name}.parquet", [row, row])
        assert trace.format == name
        assert len(list(trace)) == 2


def test_the_command_line_reads_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    written(tmp_path / "w.parquet", wildchat_rows(6))
    ran = run(capsys, "inspect", tmp_path / "w.parquet", "--json", "--quiet")
    assert json.loads(ran.out)["requests"] == 12
    ran = run(capsys, "inspect", tmp_path / "w.parquet", "--format", "lmsys", "--json", "--quiet")
    assert json.loads(ran.out)["sessions"] == 6


def test_a_file_without_rows_or_of_other_columns_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"model": pyarrow.array([], "string")}), tmp_path / "a")
    with pytest.raises(TraceError, match="is empty"):
        open_trace(tmp_path / "a")
    with pytest.raises(TraceError, match="no trace of a known format"):
        written(tmp_path / "b", [{"price": 1}])


def test_a_cut_file_has_no_index_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "w.parquet"
    written(path, wildchat_rows(6))
    data = path.read_bytes()
    for length in (4, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(TraceError, match="index is at its end"):
            open_trace(path)
    path.write_bytes(gzip.compress(data))
    with pytest.raises(TraceError, match="unpack it"):
        open_trace(path)


@settings(max_examples=40)
@given(at=st.integers(4, 3000), bits=st.integers(1, 255))
def test_a_damaged_file_is_read_as_far_as_it_goes(
    at: int, bits: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "whole.parquet"
    if not path.exists():
        written(path, wildchat_rows(30), row_group_size=4)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= bits
    damaged = folder / "damaged.parquet"
    damaged.write_bytes(data)
    refused = ""
    try:
        trace = open_trace(damaged)
        read = sum(1 for _ in trace)
        assert read == trace.summary.requests <= 60
    except TraceError as error:
        refused = str(error)
    assert "\n" not in refused


def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written(tmp_path / "w.parquet", wildchat_rows(1))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TraceError, match=r"pip install 'radixcache\[parquet\]'"):
        open_trace(tmp_path / "w.parquet")
