"""Counters of cached tokens from two Prometheus snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import TraceError
from scheduler.trace.prometheus import CacheCounters, cached_between, is_snapshot, read_snapshot
from scheduler.trace.source import Source

VLLM = """# HELP vllm:prefix_cache_queries_total Prefix cache queries
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="m, {{x}}"}} {queries}.0
vllm:prefix_cache_queries_total{{engine="1",model_name="m"}} 100.0
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {hits}
vllm:cache_config_info{{block_size="16",num_gpu_blocks="1000",engine="0"}} 1.0
vllm:request_latency NaN
"""
SGLANG = """sglang:prompt_tokens_total{{model_name="m",is_streaming="true"}} {queries}
sglang:cached_tokens_total{{model_name="m",cache_source="device"}} {hits}
sglang:cached_tokens_total{{model_name="m",cache_source="host"}} 5
sglang:max_total_num_tokens{{model_name="m"}} 4096
"""


def between(tmp_path: Path, before: str, after: str) -> CacheCounters:
    snapshots = []
    for name, text in (("before", before), ("after", after)):
        path = tmp_path / name
        path.write_text(text, newline="")
        snapshots.append(read_snapshot(Source(path)))
    return cached_between(*snapshots)


def test_vllm_counts_queries_and_hits(tmp_path: Path) -> None:
    counters = between(
        tmp_path,
        VLLM.format(queries=1000, hits=200),
        VLLM.format(queries=5000, hits=2.2e3).replace("\n", "\r\n"),
    )
    assert (counters.engine, counters.prompt_tokens, counters.cached_tokens) == ("vllm", 4000, 2000)
    assert (counters.page_size, counters.capacity_tokens) == (16, 16_000)
    assert counters.external_tokens == 0


def test_older_names_and_a_server_that_just_started(tmp_path: Path) -> None:
    after = VLLM.format(queries=900, hits=500).replace("_total{", "{").replace(":pre", ":gpu_pre")
    counters = between(tmp_path, "", after)
    assert (counters.prompt_tokens, counters.cached_tokens) == (1000, 500)


def test_sglang_adds_up_its_sources(tmp_path: Path) -> None:
    counters = between(tmp_path, "", SGLANG.format(queries=100, hits=20))
    assert (counters.engine, counters.prompt_tokens, counters.cached_tokens) == ("sglang", 100, 25)
    assert (counters.page_size, counters.capacity_tokens) == (1, 4096)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (VLLM.format(queries=9, hits=2), VLLM.format(queries=9, hits=2), "stood still"),
        (VLLM.format(queries=9, hits=2), VLLM.format(queries=8, hits=2), "went back by 1"),
        ("", VLLM.format(queries=9, hits=500), "more tokens were cached"),
        ("", "sglang:cache_hit_rate 0.5", "no total follows"),
        ("", "", "no counters"),
        ("", "up 1", "no counters"),
    ],
)
def test_snapshots_that_give_no_total_are_refused(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    with pytest.raises(TraceError, match=told):
        between(tmp_path, before, after)


def test_metrics_of_other_programs_are_not_taken() -> None:
    assert is_snapshot(b"# HELP vllm:x y\n")
    assert is_snapshot(b"go_threads 3\nsglang:token_usage 0.5\n")
    assert not is_snapshot(b"go_threads 3\n")


@given(
    st.lists(st.sampled_from([*VLLM.splitlines(), *SGLANG.splitlines()]) | st.text(), max_size=6)
)
def test_no_bytes_make_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.prom"
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    snapshot = read_snapshot(Source(path))
    try:
        cached_between(snapshot, snapshot)
    except TraceError:
        return
    raise AssertionError("nothing grew")
