"""Bytes of a trace file: gzip, BOM, line ends, blank lines, cut and damaged files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from radixcache.errors import TraceError
from scheduler.trace import open_trace
from scheduler.trace import source as source_module
from scheduler.trace.source import Source
from scheduler.trace.summary import TraceSummary

ROW = b'{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[%d]}'


def lines_of(path: Path) -> list[tuple[int, bytes, bool]]:
    return list(Source(path).lines(TraceSummary()))


def test_line_ends_blanks_and_order_mark_are_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbf one\r\n\r\n \n\ntwo\nthree")
    assert lines_of(path) == [(1, b"one", True), (5, b"two", True), (6, b"three", False)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_lines_do_not_depend_on_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\n\nab\ncdefgh\n\ni")
    expected = [(3, b"ab", True), (4, b"cdefgh", True), (6, b"i", False)]
    monkeypatch.setattr(source_module, "CHUNK_BYTES", size)
    assert lines_of(path) == expected


def test_too_long_line_is_counted_and_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(source_module, "CHUNK_BYTES", 4)
    path = tmp_path / "a"
    path.write_bytes(b"ab\n" + b"x" * 50 + b"\ncd\n" + b"y" * 50)
    summary = TraceSummary()
    assert [line for _, line, _ in Source(path).lines(summary)] == [b"ab", b"cd"]
    assert summary.skipped == {"line longer than 64 MiB": 2}
    assert summary.rows == 2


def test_cut_gzip_gives_what_is_there(tmp_path: Path) -> None:
    rows = b"".join(ROW % i + b"\n" for i in range(5000))
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(rows)[:-2000])
    trace = open_trace(path)
    requests = list(trace)
    assert 100 < len(requests) < 5000
    assert [r.key.tokens() for r in requests] == [[i] for i in range(len(requests))]
    assert trace.summary.repaired["compressed file is cut or damaged: the rest is lost"] == 1
    assert trace.summary.skipped in ({}, {"cut: the file ends inside it": 1})


def test_damaged_gzip_gives_what_was_before(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"".join(ROW % i + b"\n" for i in range(50_000))))
    data[len(data) // 2] ^= 0xFF
    path = tmp_path / "a.gz"
    path.write_bytes(data)
    trace = open_trace(path)
    assert list(trace)
    assert trace.summary.repaired


def test_cut_last_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(ROW % 1 + b"\n" + (ROW % 2)[:30])
    trace = open_trace(path)
    assert len(list(trace)) == 1
    assert trace.summary.skipped == {"cut: the file ends inside it": 1}


def test_line_that_is_no_json_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(ROW % 1 + b"\n{not json}\n" + b"[" * 100_000 + b"\n" + ROW % 2 + b"\n")
    trace = open_trace(path)
    assert len(list(trace)) == 2
    assert trace.summary.skipped == {"not JSON": 2}


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes((ROW % 1)[:-1] + b',"session_id":"\xff\xfe"}\n')
    trace = open_trace(path)
    (request,) = trace
    assert request.session_id == "\ufffd\ufffd"
    assert trace.summary.repaired == {"bytes that are not UTF-8 were replaced": 1}


def test_lone_surrogate_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes((ROW % 1)[:-1] + b',"session_id":"\\ud800"}\n')
    (request,) = open_trace(path)
    assert (request.session_id or "").encode() == b"?"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \r\n\n", "is empty"),
        (b"\x1f\x8b", "is empty, or damaged from its start"),
        (b"hello world\n", "is no trace of a known format"),
        (b"\x00\x01\x02" * 99, "is no trace of a known format"),
        (b"{}\n", "is no trace of a known format"),
        (b"PAR1....", "is a Parquet file"),
        (gzip.compress(b"PAR1....", mtime=0), "was packed once more: unpack it"),
        (b"PK\x03\x04..", "is a ZIP archive: unpack it"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023,1,2\n", "no prefix identity"),
        (b'{"timestamp":0,"input_length":5}\n', "no request in it, read as mooncake: 1 rows ="),
    ],
)
def test_file_that_is_no_trace_is_one_line_of_error(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        list(open_trace(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_path_that_is_no_file_is_one_line_of_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", Path("/dev/null"), "a\0b"):
        with pytest.raises(TraceError) as caught:
            open_trace(path)
        assert "\n" not in str(caught.value)


def test_folder_without_trace_files_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "inner.json").mkdir()
    with pytest.raises(TraceError, match=r"is a folder without files named \.json"):
        open_trace(tmp_path)


def test_azure_csv_has_no_prefix_identity(shared_dir: Path) -> None:
    with pytest.raises(TraceError, match="no prefix identity"):
        open_trace(shared_dir / "traces" / "azure_conv_2023.csv.gz")
