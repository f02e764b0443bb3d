"""LMCache agent calls."""

from __future__ import annotations

import json
from pathlib import Path

from scheduler.trace import PieceTokenizer, open_trace


def test_public_file_is_read_without_loss(shared_dir: Path) -> None:
    trace = open_trace(shared_dir / "traces" / "agent_miniswe.jsonl.gz")
    requests = list(trace)
    assert trace.format == "lmcache"
    assert len(requests) == trace.summary.rows == 162
    assert len({r.session_id for r in requests}) == 12
    assert requests[0].arrival_s == 0.0
    assert round(requests[-1].arrival_s, 6) == 552.13151
    last: dict[str | None, list[int]] = {}
    extensions = 0
    for request in requests:
        tokens = request.key.tokens()
        before = last.get(request.session_id)
        extensions += before is not None and tokens[: len(before)] == before
        last[request.session_id] = tokens
    assert extensions == 150


def test_extension_keeps_every_token(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    rows = [
        {"timestamp": 5, "input": "Say wo", "output": "x", "session_id": "s"},
        {"timestamp": 6, "input": "Say words", "output": None, "session_id": "s"},
        {"timestamp": 7, "input": "Say words", "output": "x", "session_id": "t"},
        {"timestamp": 8, "input": "", "output": "x", "session_id": "s"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = open_trace(path)
    first, second, third = trace
    assert second.key.tokens()[: len(first.key)] == first.key.tokens()
    assert third.key.tokens() == PieceTokenizer().encode("Say words")
    assert second.recorded_output_ids is None
    assert second.arrival_s == 1e-6
    assert trace.summary.skipped == {"input is empty": 1}
