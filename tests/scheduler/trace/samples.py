"""One small hand-made file of every format, for the tests that all readers must pass."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SAMPLES", "Sample"]

HI = {"role": "user", "content": "Hi MARK"}


@dataclass(frozen=True)
class Sample:
    """Rows in order of time, each with MARK in some text; a header where the format has one."""

    name: str
    rows: tuple[dict[str, Any], ...]
    requests: int
    timed: bool = True
    is_csv: bool = False
    header: dict[str, Any] | None = None
    block_tokens: int | None = None
    bad: dict[str, Any] = field(default_factory=dict)
    """What makes a row unreadable when it is put over it."""

    def __str__(self) -> str:
        return self.name

    def lines(self) -> list[bytes]:
        """Return the header, if any, and the rows, as the format writes them."""
        if self.is_csv:
            return [_csv(list(self.rows[0])), *(_csv(list(row.values())) for row in self.rows)]
        rows = (self.header, *self.rows) if self.header else self.rows
        return [json.dumps(row).encode() for row in rows]

    @property
    def headers(self) -> int:
        """How many of the lines are no row."""
        return 1 if self.header or self.is_csv else 0


def _csv(fields: list[str]) -> bytes:
    """Return one CSV record."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue().encode()


def _gateway(number: int) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": f'Hi MARK, "{number}"\n'}], "max_tokens": 9}
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hello, you"}}]}
    return {
        "request_json": json.dumps(body, indent=1),
        "response_json": json.dumps(answer),
        "model_name": "m",
        "status_code": "200",
        "timestamp": f"2026-01-05T10:00:0{number}Z",
    }


def _weka(number: int) -> dict[str, Any]:
    call = {"type": "n", "model": "m", "out": 4}
    return {
        "id": f"MARK{number}",
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": [
            call | {"t": 0.0, "in": 128, "hash_ids": [1, 2]},
            {
                "t": 1.0,
                "type": "subagent",
                "agent_id": "a",
                "requests": [call | {"t": 0.5, "in": 64, "hash_ids": [9]}],
            },
            call | {"t": 9.0, "in": 200, "hash_ids": [1, 2, 3, 4]},
        ],
    }


def _agent(number: int) -> dict[str, Any]:
    call = {"input_toks": 2, "output_toks": 2, "input_tok_ids": [1, 2], "output_tok_ids": [3, 4]}
    after = {"input_toks": 5, "output_toks": 1, "input_tok_ids": [1, 2, 3, 4, 5]}
    return {
        "session_id": f"MARK{number}",
        "arrival_time_ns": number * 10**9,
        "sub_requests": [call | {"tool_duration_ns": 10**8}, after],
    }


SAMPLES = (
    Sample(
        "radixcache",
        tuple(
            {"rid": f"MARK{i}", "t": float(i), "tokens": [1, 2, i + 3], "max_new": 4}
            for i in range(3)
        ),
        requests=3,
        header={"radixcache_trace": 1, "kind": "tokens"},
        bad={"tokens": "no"},
    ),
    Sample(
        "bailian",
        tuple(
            {"chat_id": i, "parent_chat_id": -1, "timestamp": 4.25 + i, "input_length": 40,
             "output_length": 9, "type": "text", "turn": 1, "hash_ids": [3, 4, i + 5],
             "session_id": "MARK"}
            for i in range(3)
        ),
        requests=3,
        block_tokens=16,
        bad={"hash_ids": "no"},
    ),
    Sample(
        "mooncake",
        tuple(
            {"timestamp": 3000 * i, "input_length": 1100, "output_length": 80,
             "hash_ids": [0, 7, i + 8], "session_id": "MARK"}
            for i in range(3)
        ),
        requests=3,
        block_tokens=512,
        bad={"hash_ids": "no"},
    ),
    Sample(
        "kvcache-simulator",
        tuple(
            {"block_size": 64, "hash_ids": ["A", i], "input_length": 100, "block_tokens": [64, 36],
             "request_id": "MARK"}
            for i in range(3)
        ),
        requests=3,
        timed=False,
        block_tokens=64,
        bad={"hash_ids": "no"},
    ),
    Sample(
        "weka", tuple(map(_weka, range(3))), requests=9, timed=False, block_tokens=64,
        bad={"requests": "no"},
    ),
    Sample(
        "tair",
        tuple(
            {"instance_id": "MARK", "trace_id": f"x{i}", "timestamp_us": i + 1, "keys": [1, -2],
             "query_type": "prefix_match", "input_len": 32, "output_len": 0,
             "total_keys": [1, -2]}
            for i in range(3)
        ),
        requests=3,
        block_tokens=16,
        bad={"keys": "no"},
    ),
    Sample(
        "tair-tokens",
        tuple(
            {"ts_str": "MARK", "timestamp": i + 0.5, "token_ids": [1, 2, i], "is_tool_call": False}
            for i in range(3)
        ),
        requests=3,
        bad={"token_ids": "no"},
    ),
    Sample(
        "prefixlens",
        tuple(
            {"request_id": f"r{i}", "token_ids": [1, 2, i], "tenant": "MARK",
             "route": "/v1/chat", "tags": {"k": "v"}}
            for i in range(3)
        ),
        requests=3,
        timed=False,
        bad={"token_ids": "no"},
    ),
    Sample(
        "llmservingsim",
        tuple(
            {"input_toks": 3, "output_toks": 2, "arrival_time_ns": i * 10**6,
             "input_tok_ids": [1, 2, i], "output_tok_ids": [4, 5], "note": "MARK"}
            for i in range(3)
        ),
        requests=3,
        bad={"input_tok_ids": "no"},
    ),
    Sample(
        "llmservingsim", tuple(map(_agent, range(3))), requests=6, bad={"sub_requests": []}
    ),
    Sample(
        "lmcache",
        tuple(
            {"timestamp": 1_760_000_000_000_000 + i, "input": f"MARK {i}", "output": "x",
             "session_id": f"s{i}"}
            for i in range(3)
        ),
        requests=3,
        bad={"input": 5},
    ),
    Sample(
        "wildchat",
        tuple(
            {"conversation_hash": f"h{i}", "model": "m", "timestamp": f"2023-04-09T00:0{i}:53Z",
             "hashed_ip": "MARK",
             "conversation": [{"role": "user", "content": "Hi", "timestamp": None},
                              {"role": "assistant", "content": "Yo"}]}
            for i in range(3)
        ),
        requests=3,
        bad={"conversation": 5},
    ),
    Sample(
        "lmsys",
        tuple(
            {"conversation_id": f"c{i}", "model": "m",
             "conversation": [{"role": "user", "content": "MARK"},
                              {"role": "assistant", "content": "Yo"}]}
            for i in range(3)
        ),
        requests=3,
        timed=False,
        bad={"conversation": 5},
    ),
    Sample(
        "sharegpt",
        tuple(
            {"id": f"a{i}_0",
             "conversations": [{"from": "human", "value": "MARK"}, {"from": "gpt", "value": "Yo"}]}
            for i in range(3)
        ),
        requests=3,
        timed=False,
        bad={"conversations": "no"},
    ),
    Sample(
        "sharegpt",  # SGLang's custom dataset
        tuple(
            {"conversations": [{"role": "user", "content": f"MARK {i}"},
                               {"role": "assistant", "content": "A"}]}
            for i in range(3)
        ),
        requests=3,
        timed=False,
        bad={"conversations": "no"},
    ),
    Sample(
        "openai",
        tuple({"model": "m", "messages": [HI], "max_tokens": 64 + i} for i in range(3)),
        requests=3,
        timed=False,
        bad={"messages": "no"},
    ),
    Sample(
        "openai",  # OpenAI batch
        tuple(
            {"custom_id": f"r-{i}", "method": "POST", "url": "/v1/chat/completions",
             "body": {"model": "m", "messages": [HI]}}
            for i in range(3)
        ),
        requests=3,
        timed=False,
        bad={"body": {}},
    ),
    Sample(
        "openai",  # vLLM's custom dataset
        tuple({"prompt": f"MARK {i}", "output_tokens": 64} for i in range(3)),
        requests=3,
        timed=False,
        bad={"prompt": 5},
    ),
    Sample(
        "openai",  # AIPerf single turn
        tuple(
            {"text": f"MARK {i}", "timestamp": 1000 + i, "session_id": "s", "output_length": 20}
            for i in range(3)
        ),
        requests=3,
        bad={"text": 5},
    ),
    Sample(
        "openai",  # AIPerf raw payload in a Mooncake row
        tuple(
            {"timestamp": 1000 + i, "payload": {"messages": [HI], "max_tokens": 8}}
            for i in range(3)
        ),
        requests=3,
        bad={"payload": {}},
    ),
    Sample(
        "aiperf",
        tuple(
            {"session_id": f"s{i}", "turns": [
                {"timestamp": 1000 * i, "text": "MARK", "output_length": 5},
                {"text": "Q2", "delay": 500},
            ]}
            for i in range(3)
        ),
        requests=6,
        bad={"turns": []},
    ),
    Sample(
        "aiperf",  # MT-bench, spec-bench
        tuple({"question_id": i, "category": "c", "turns": ["MARK", "Q2"]} for i in range(3)),
        requests=6,
        timed=False,
        bad={"turns": 5},
    ),
    Sample(
        "aibrix",
        tuple(
            {"timestamp": 21 + i, "requests": [
                {"Prompt Length": 9, "Output Length": 5, "prompt": "MARK"},
                {"prompt_length": 9, "output_length": None, "prompt": "Two", "session_id": 0},
            ]}
            for i in range(3)
        ),
        requests=6,
        bad={"requests": 5},
    ),
    Sample(
        "gateway-csv", tuple(map(_gateway, range(3))), requests=3, is_csv=True,
        bad={"status_code": "?"},
    ),
)  # fmt: skip
