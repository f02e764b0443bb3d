"""Reader of client logs: a request as the OpenAI API takes it, and the usage that came back.

``{"request": {"model": "m", "messages": [...]}, "response": {"choices": [...], "usage":
{"prompt_tokens": 50, "prompt_tokens_details": {"cached_tokens": 16}}}}``, a JSON object a line,
in the order the requests were sent. The request may also stand under ``body`` or be the row
itself, with ``prompt`` as text or token ids in place of ``messages``; the usage may stand in
the row. The first of ``choices`` counts as the output. The server has to be told to report hits
(vLLM: ``--enable-prompt-tokens-details``, SGLang: ``--enable-cache-report``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from radixcache import KeyKind, Namespace, PrefixKey
from scheduler.request import Request
from scheduler.trace.chat_template import ChatEncoder
from scheduler.trace.fields import count_of, ids_of, name_of, row_of
from scheduler.trace.formats import ReadOptions
from scheduler.trace.messages import ANSWER, messages_of, preamble_of
from scheduler.trace.row_reading import UniqueNames, made_rows
from scheduler.trace.source import Line, Source
from scheduler.trace.summary import RowError, TraceSummary

__all__ = ["UsageRow", "has_usage", "usage_rows"]

_NO_CACHED = (
    "no cached_tokens in the usage: start the server with --enable-prompt-tokens-details (vLLM) "
    "or --enable-cache-report (SGLang)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One request, and what the server counted of it."""

    line: int
    request: Request
    prompt_tokens: int
    cached_tokens: int
    is_exact: bool
    """Whether the row has token ids; else a tokenizer of ours cut its text."""


def usage_rows(source: Source, options: ReadOptions, summary: TraceSummary) -> Iterator[UsageRow]:
    """Yield the requests in file order, and count every row. Memory: one row, and all names."""
    encoder = ChatEncoder(options.tokenizer, options.template)
    names = UniqueNames()

    def make(line: Line) -> UsageRow:
        return _row(row_of(line, summary), line[0], encoder, options, summary, names)

    for _, row in made_rows(
        source.lines(summary), make, summary, strict=options.strict, path=source.path
    ):
        summary.took()
        yield row


def has_usage(row: dict[str, Any]) -> bool:
    """Tell whether a row has the usage of an answer."""
    return _usage(row) is not None


def _usage(row: dict[str, Any]) -> dict[str, Any] | None:
    for part in (_answer(row), row):
        usage = part.get("usage")
        if isinstance(usage, dict):
            return usage
    return None


def _answer(row: dict[str, Any]) -> dict[str, Any]:
    """Return the response's body, {} where there is none."""
    response = row.get("response")
    if not isinstance(response, dict):
        return {}
    body = response.get("body")
    return body if isinstance(body, dict) else response


def _row(
    row: dict[str, Any],
    line: int,
    encoder: ChatEncoder,
    options: ReadOptions,
    summary: TraceSummary,
    names: UniqueNames,
) -> UsageRow:
    usage = _usage(row)
    if usage is None:
        raise RowError("no usage in the row")
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict) or details.get("cached_tokens") is None:
        raise RowError(_NO_CACHED)
    prompt_tokens = count_of(usage, "prompt_tokens", least=1)
    cached_tokens = count_of(details, "cached_tokens", least=0)
    if cached_tokens > prompt_tokens:
        raise RowError("cached_tokens are more than the prompt")
    body = next((row[k] for k in ("request", "body") if isinstance(row.get(k), dict)), row)
    namespace = Namespace.of(name_of(body, "model"), None, name_of(body, "cache_salt"))
    data, exact = _prompt(body, line, encoder, summary)
    if not data:
        raise RowError("the prompt is empty")
    key = PrefixKey.from_packed(data, KeyKind.TOKENS, namespace)
    output = _output(_answer(row), encoder) if not exact else None
    length = count_of(usage, "completion_tokens", least=0, default=0)
    name = name_of(row, "custom_id") or name_of(row, "request_id") or f"line {line}"
    request = Request(
        rid=names.claim(name, line, summary),
        key=key,
        prompt_tokens=len(key),
        max_new_tokens=max(options.max_new_tokens, length, len(output or ())),
        recorded_output_tokens=len(output) if output else length,
        recorded_output_ids=output,
    )
    return UsageRow(
        line=line,
        request=request,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        is_exact=exact,
    )


def _prompt(
    body: dict[str, Any], line: int, encoder: ChatEncoder, summary: TraceSummary
) -> tuple[bytes, bool]:
    """Return the packed prompt, and whether its tokens are the server's own."""
    if isinstance(body.get("messages"), list):
        messages = preamble_of(body, summary, line)
        messages += messages_of(body["messages"], summary, line)
        if not messages:
            raise RowError("messages is empty")
        data = b"".join(encoder.message(*message) for message in messages)
        return data + encoder.header(ANSWER), False
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return encoder.text(prompt), False
    if prompt is None:
        raise RowError("no messages and no prompt in it")
    return PrefixKey(ids_of(body, "prompt", bits=32)).data, True


def _output(answer: dict[str, Any], encoder: ChatEncoder) -> tuple[int, ...] | None:
    """Return the tokens of the first answer as the next turn will have it."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str) or not text:
        return None
    data = encoder.text(text) + encoder.end
    return tuple(PrefixKey.from_packed(data, KeyKind.TOKENS).tokens())
