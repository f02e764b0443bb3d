"""What is true of every reader: recognition, quirks of files, bad rows, order, names."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixcache import KeyKind
from radixcache.errors import TraceError
from scheduler.cli import main
from scheduler.request import Request
from scheduler.trace import FORMATS, ReadOptions, Trace, open_trace
from tests.scheduler.trace.samples import SAMPLES, Sample

every_format = pytest.mark.parametrize("sample", SAMPLES, ids=str)


def opened(folder: Path, data: bytes, **named: Any) -> Trace:
    path = folder / "trace"
    path.write_bytes(data)
    return open_trace(path, **named)


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def seen(trace: Trace) -> list[tuple[bytes, float, str | None, int | None]]:
    """Return what must not depend on how the file is written; names may hold line numbers."""
    found = [
        (request.key.data, request.arrival_s, request.client_id, request.recorded_output_tokens)
        for request in trace
    ]
    assert trace.summary.rows == trace.summary.requests + trace.summary.skipped_rows
    assert len(found) == trace.summary.requests
    return found


def test_every_format_has_a_sample() -> None:
    # A server's log holds no rows but lines of any kind; test_sglang_log has its own files.
    logs = {"sglang-log"}
    assert {sample.name for sample in SAMPLES} | logs == {form.name for form in FORMATS}


@every_format
def test_sample_is_recognised_by_exactly_its_reader(tmp_path: Path, sample: Sample) -> None:
    chance = random.Random(0)
    for row in (sample.header,) if sample.header else () if sample.is_csv else sample.rows:
        for _ in range(5):
            keys = list(row or ())
            chance.shuffle(keys)
            shuffled = {key: (row or {})[key] for key in keys}
            assert [form.name for form in FORMATS if form.recognises(shuffled)] == [sample.name]
    trace = opened(tmp_path, joined(sample.lines()))
    assert trace.format == sample.name
    assert len(seen(trace)) == sample.requests
    assert not trace.summary.skipped
    assert trace.page_size == sample.block_tokens
    assert (trace.kind is KeyKind.BLOCKS) == (sample.block_tokens is not None)
    assert trace.assumptions or sample.header


@every_format
def test_line_ends_blank_lines_order_mark_and_gzip_change_nothing(
    tmp_path: Path, sample: Sample
) -> None:
    lines = sample.lines()
    plain = seen(opened(tmp_path, joined(lines)))
    crlf = b"".join(line.replace(b"\n", b"\r\n") + b"\r\n" for line in lines)
    for data in (
        b"\n".join(lines),
        crlf,
        b"\xef\xbb\xbf" + joined(lines),
        b"\n \n" + b"\n\n \r\n".join(lines) + b"\n\n",
        gzip.compress(joined(lines), mtime=0),
    ):
        trace = opened(tmp_path, data)
        assert trace.format == sample.name
        assert seen(trace) == plain
        assert not trace.summary.skipped


@every_format
def test_requests_come_in_order_of_arrival_under_names_of_their_own(
    tmp_path: Path, sample: Sample
) -> None:
    lines = sample.lines()
    trace = opened(tmp_path, joined([*lines, *lines[sample.headers :]]))
    found: list[Request] = list(trace)
    assert len(found) == 2 * sample.requests
    assert len({request.rid for request in found}) == len(found)
    times = [request.arrival_s for request in found]
    assert times == sorted(times)
    assert times[0] == 0.0


@every_format
def test_rows_that_go_back_in_time_are_sorted_and_counted(tmp_path: Path, sample: Sample) -> None:
    lines = sample.lines()
    plain = seen(opened(tmp_path, joined(lines)))
    back = [*lines[: sample.headers], *reversed(lines[sample.headers :])]
    trace = opened(tmp_path, joined(back))
    if not sample.timed:
        assert len(seen(trace)) == len(plain)
        return
    if sample.name == "aibrix":  # the requests of one row come at one time, in file order
        assert sorted(seen(trace)) == sorted(plain)
    else:
        assert seen(trace) == plain
    # WildChat gives the end of a conversation: its rows are in no order of starts anyway.
    counted = any("goes back in time" in reason for reason in trace.summary.repaired)
    assert counted == (sample.name != "wildchat")


@every_format
def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path, sample: Sample) -> None:
    trace = opened(tmp_path, joined(sample.lines()).replace(b"MARK", b"M\xff\xfeK"))
    assert len(seen(trace)) == sample.requests
    assert trace.summary.repaired["bytes that are not UTF-8 were replaced"] == 3


@every_format
def test_bad_row_is_skipped_with_its_reason_or_raised(tmp_path: Path, sample: Sample) -> None:
    lines = sample.lines()
    rows = (*sample.rows, sample.rows[0] | sample.bad)
    bad = replace(sample, rows=rows).lines()[-1]
    for wrong in (bad, b"{" if not sample.is_csv else b"x,y"):
        data = joined([*lines[:-1], wrong, lines[-1]])
        trace = opened(tmp_path, data)
        found = seen(trace)
        assert len(found) == sample.requests
        assert trace.summary.skipped_rows == 1
        assert sum(trace.summary.first_lines[next(iter(trace.summary.skipped))]) > 0
        strict = opened(tmp_path, data, options=ReadOptions(strict=True))
        with pytest.raises(TraceError) as caught:
            list(strict)
        assert "\n" not in str(caught.value)


@every_format
def test_cut_file_gives_what_is_whole_in_it(tmp_path: Path, sample: Sample) -> None:
    data = joined(sample.lines())
    start = data.index(b"\n", len(sample.lines()[sample.headers])) + 1
    whole = {key for key, *_ in seen(opened(tmp_path, data))}
    for end in range(start, len(data), 7):
        trace = opened(tmp_path, data[:end], format=sample.name)
        try:
            found = seen(trace)
        except TraceError:
            continue
        assert {key for key, *_ in found} <= whole
        # The lines of a cut CSV record are counted one by one: which quote is missing is not known.
        assert trace.summary.skipped_rows <= 1 or sample.is_csv


@every_format
def test_every_reader_reads_or_refuses_the_sample_of_every_other(
    tmp_path: Path, sample: Sample
) -> None:
    for form in FORMATS:
        with suppress(TraceError):
            seen(opened(tmp_path, joined(sample.lines()), format=form.name))


@every_format
def test_folder_is_read_as_its_files_by_name(tmp_path: Path, sample: Sample) -> None:
    lines = sample.lines()
    plain = seen(opened(tmp_path, joined(lines)))
    folder = tmp_path / "folder"
    folder.mkdir()
    head = lines[: sample.headers]
    for index, line in enumerate(lines[sample.headers :]):
        data = b"\n".join([*head, line] if not index or sample.is_csv else [line])
        name = f"{index}.{'csv' if sample.is_csv else 'json'}"
        if index == 1:
            data, name = gzip.compress(data), name + ".gz"
        (folder / name).write_bytes(data)
    (folder / "README.md").write_text("no trace")
    trace = open_trace(folder)
    assert seen(trace) == plain
    assert not trace.summary.skipped


blocks = pytest.mark.parametrize("sample", [s for s in SAMPLES if s.block_tokens], ids=str)


@blocks
def test_page_size_other_than_the_block_is_refused(
    tmp_path: Path, sample: Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(joined(sample.lines()))
    for size in (1, (sample.block_tokens or 0) // 2, 2 * (sample.block_tokens or 0)):
        assert main(["inspect", str(path), "--page-size", str(size)]) == 2
        error = capsys.readouterr().err
        assert f"page size is {size}, but this trace has blocks of {sample.block_tokens}" in error
        assert error.count("\n") == 1
    assert main(["inspect", str(path), "--page-size", str(sample.block_tokens)]) == 0


@blocks
def test_partial_block_is_kept_only_where_it_is_wanted(tmp_path: Path, sample: Sample) -> None:
    for partial in (False, True):
        trace = opened(tmp_path, joined(sample.lines()), options=ReadOptions(partial_block=partial))
        size = sample.block_tokens or 0
        for request in trace:
            assert len(request.key) <= -(-request.prompt_tokens // size) * size
            assert partial or len(request.key) <= request.prompt_tokens


def test_rows_of_a_json_array_are_read_where_objects_may_stand_in_any_layout(
    tmp_path: Path,
) -> None:
    lines_only = {"radixcache", "bailian", "mooncake", "lmcache", "gateway-csv"}
    for sample in SAMPLES:
        if sample.name in lines_only:
            continue
        plain = seen(opened(tmp_path, joined(sample.lines())))
        for indent in (None, 1):
            trace = opened(tmp_path, json.dumps(sample.rows, indent=indent).encode())
            assert seen(trace) == plain
