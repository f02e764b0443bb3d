"""Mooncake rows: what was read from such a file is written as it was."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixKey
from radixcache.errors import InvalidInputError, KeyKindError
from scheduler.lookup import lookup_replay
from scheduler.optimal import optimal_prefill
from scheduler.request import Request
from scheduler.trace import ReadOptions, chat, open_trace
from scheduler.trace.mooncake_writer import NO_LENGTH, mooncake_lines
from scheduler.trace.renumber import in_blocks

KEEP_LAST = ReadOptions(partial_block=True)


def rows_of(requests: list[Request]) -> list[dict[str, object]]:
    return [json.loads(line) for line in mooncake_lines(requests, Counter())]


def test_the_mooncake_trace_comes_out_row_for_row(shared_dir: Path) -> None:
    path = shared_dir / "traces" / "mooncake_conversation.jsonl.gz"
    with gzip.open(path) as lines:
        expected = [json.loads(line) for line in lines]
    # Its ids count up from 0 as ours do, so not even those change.
    assert rows_of(list(in_blocks(open_trace(path, options=KEEP_LAST), 512))) == expected


@given(
    made=st.lists(
        st.tuples(st.integers(0, 9999), st.integers(1, 40), st.integers(0, 9)), min_size=1
    )
)
def test_rows_come_out_as_they_were_but_for_the_numbers(
    made: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made.sort(key=lambda row: row[0])
    rows = [
        {
            "timestamp": time - made[0][0],
            "input_length": length,
            "output_length": output,
            # Two chains of ids that share nothing.
            "hash_ids": [1000 * (output % 2) + 7 * block for block in range(-(-length // 16))],
        }
        for time, length, output in made
    ]
    path = tmp_path_factory.getbasetemp() / "mooncake.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ReadOptions(partial_block=True, block_tokens=16)
    out = rows_of(list(in_blocks(open_trace(path, options=options), 16)))
    renamed: dict[int, int] = {}
    for before, after in zip(rows, out, strict=True):
        old, new = before.pop("hash_ids"), after.pop("hash_ids")
        assert isinstance(old, list)
        assert isinstance(new, list)
        assert before == after
        assert [renamed.setdefault(*pair) for pair in zip(old, new, strict=True)] == new
    # One to one, and dense in the order of appearance.
    assert list(renamed.values()) == list(range(len(renamed)))


def test_written_rows_read_back_with_the_same_hits(tmp_path: Path) -> None:
    made = list(chat(3, sessions=8))
    path = tmp_path / "chat.jsonl"
    path.write_bytes(b"".join(mooncake_lines(in_blocks(made, 512), Counter())))
    back = list(open_trace(path))
    assert open_trace(path).format == "mooncake"
    assert lookup_replay(made, 512) == lookup_replay(back, 512)
    assert lookup_replay(made, 512).hit_tokens > 0
    assert optimal_prefill(made, 512) == optimal_prefill(back, 512)
    assert [r.session_id for r in back] == [r.session_id for r in made]
    assert [r.recorded_output_tokens for r in back] == [r.recorded_output_tokens for r in made]
    start_s = made[0].arrival_s
    assert [r.arrival_s for r in back] == pytest.approx(
        [r.arrival_s - start_s for r in made], abs=0.0011
    )


def test_what_a_row_cannot_say_is_counted() -> None:
    key = PrefixKey.from_block_ids([4], 512)
    lost: Counter[str] = Counter()
    asked = [
        Request(rid="a", key=key, prompt_tokens=9, max_new_tokens=77, samples=2, client_id="c"),
        Request(rid="b", key=key, prompt_tokens=9, max_new_tokens=7, abort_after_tokens=1,
                recorded_output_tokens=3, max_match_tokens=0, priority=1, abort_after_s=2.0),
    ]  # fmt: skip
    lines = list(mooncake_lines(asked, lost))
    assert [json.loads(line)["output_length"] for line in lines] == [77, 77, 3]
    places = ("client", "priority", "max_match_tokens", "abort_after_s", "abort_after_tokens")
    assert lost == {NO_LENGTH: 1} | {f"{name}: no place in a row": 1 for name in places}


def test_keys_of_tokens_are_refused() -> None:
    asked = Request(rid="a", key=PrefixKey([1]), prompt_tokens=1, max_new_tokens=1)
    with pytest.raises(KeyKindError, match="rows need block ids"):
        list(mooncake_lines([asked], Counter()))


def test_a_time_beyond_every_millisecond_is_refused() -> None:
    key = PrefixKey.from_block_ids([4], 512)
    for arrival_s in (9.3e15, 1e308):
        asked = Request(rid="a", key=key, prompt_tokens=9, max_new_tokens=1, arrival_s=arrival_s)
        with pytest.raises(InvalidInputError, match="request a arrives at"):
            list(mooncake_lines([asked], Counter()))
    late = Request(rid="a", key=key, prompt_tokens=9, max_new_tokens=1, arrival_s=9e15)
    assert json.loads(*mooncake_lines([late], Counter()))["timestamp"] == 9 * 10**18
