"""Logs that a server of a known cost model would print, for tests of what reads them."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["TRUTH", "colourful", "finish_line", "sglang_log", "vllm_log"]

TRUTH = {
    "step_s": 0.009,
    "per_prefill_token_s": 4e-5,
    "per_running_s": 1e-4,
    "per_context_token_s": 2e-8,
}
CAPACITY = 500_000


def seconds(prefill: int, running: float, context: float) -> float:
    """Return what a step takes."""
    return (
        TRUTH["step_s"]
        + TRUTH["per_prefill_token_s"] * prefill
        + TRUTH["per_running_s"] * running
        + TRUTH["per_context_token_s"] * context
    )


def vllm_log(steps: int, *, seed: int = 0, noise_s: float = 0.0, usage: bool = True) -> list[str]:
    """Return the iteration lines of random steps, the capacity line first."""
    rng = random.Random(seed)
    prefix = "(EngineCore_DP0 pid=7) INFO 09-26 11:20:52"
    lines = [f"{prefix} [kv_cache_utils.py:1286] GPU KV cache size: {CAPACITY:,} tokens"]
    for index in range(steps):
        prompts = rng.choice([0, 0, 0, 1, 2])
        tokens = sum(rng.randint(100, 2000) for _ in range(prompts))
        decodes = rng.randint(1, 60)
        percent = round(rng.uniform(1, 80), 1)
        took = seconds(tokens, prompts + decodes, percent / 100 * CAPACITY if usage else 0)
        took = max(took + rng.gauss(0, noise_s), 1e-4)
        tail = f", GPU KV cache usage: {percent:.1f}%" if usage else ""
        lines.append(
            f"{prefix} [loggers.py:200] Engine 000: Iteration({index}): {prompts} context "
            f"requests, {tokens} context tokens, {decodes} generation requests, {decodes} "
            f"generation tokens, iteration elapsed time: {1000 * took:.2f} ms{tail}"
        )
    return lines


def sglang_log(intervals: int, *, seed: int = 0) -> list[str]:
    """Return the batch lines of a server that is never idle; every step is simulated."""
    rng = random.Random(seed)
    lines = [
        "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', page_size=1, "
        "chunked_prefill_size=8192, schedule_policy='fcfs', decode_log_interval=20)",
        f"[2026-01-01 00:00:00 TP0] max_total_num_tokens={CAPACITY}, context_len=131072",
    ]
    running, context, clock = 20, 20_000.0, 0.0
    generated, since, decodes = 0, 0.0, 0
    while len(lines) < intervals:
        stamp = f"2026-01-01 00:{int(clock) // 60 % 60:02d}:{int(clock) % 60:02d}"
        if decodes % 20 in {3, 11} and rng.random() < 0.4 and running < 60:
            new, tokens = rng.randint(1, 4), rng.randint(200, 6000)
            lines.append(
                f"[{stamp} TP0] Prefill batch. #new-seq: {new}, #new-token: {tokens}, "
                f"#cached-token: 64, token usage: 0.10, #running-req: {running}, #queue-req: 5"
            )
            clock += seconds(tokens, new, 0)
            running += new
            context += tokens
        clock += seconds(0, running, context)
        generated += running
        context += running
        decodes += 1
        if running > 5 and rng.random() < 0.05:
            context -= context / running
            running -= 1
        if decodes % 20 == 0:
            lines.append(
                f"[{stamp} TP0] Decode batch. #running-req: {running}, #token: {int(context)}, "
                f"token usage: 0.30, cuda graph: True, gen throughput (token/s): "
                f"{generated / (clock - since):.2f}, #queue-req: 0,"
            )
            generated, since = 0, clock
    return lines


def finish_line(
    rid: str,
    ids: list[int],
    *,
    cached: int = 0,
    out_ids: tuple[int, ...] = (7,),
    second: int = 0,
    received: float | None = None,
    ttft: float | None = None,
    e2e: float = 0.25,
) -> str:
    """Return SGLang's line of one finished request, with text that would mislead a split."""
    meta = f"'id': '{rid}', 'finish_reason': {{'type': 'stop', 'matched': 2}}, "
    meta += f"'prompt_tokens': {len(ids)}, 'completion_tokens': {len(out_ids)}, "
    meta += f"'cached_tokens': {cached}, 'e2e_latency': {e2e}"
    if received is not None:
        meta += f", 'request_received_ts': {received}"
    if ttft is not None:
        meta += f", 'first_token_latency': {ttft}"
    return (
        f"[2026-01-01 00:{second // 60 % 60:02d}:{second % 60:02d}] Finish: "
        f"obj=GenerateReqInput(rid='{rid}', text=\"it's (here], out={{\", input_ids={ids}, "
        "sampling_params={'max_new_tokens': 16, 'stop': None}, stream=True), "
        f"out={{'text': 'a \\'}} b', 'output_ids': {list(out_ids)}, 'meta_info': {{{meta}}}}}"
    )


def colourful(lines: list[str]) -> Iterator[str]:
    """Yield the lines as a terminal keeps them: colours and carriage returns."""
    for line in lines:
        yield f"\x1b[32m{line}\x1b[0m\r"
