"""Messages of a conversation, whatever their keys, roles and content are called."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, NamedTuple

from scheduler.trace.summary import TraceSummary

__all__ = ["ANSWER", "Message", "conversation_in", "messages_of", "preamble_of"]

ANSWER = "assistant"
CONVERSATION_KEYS = ("conversations", "conversation", "messages", "items")
ROLES = {
    "human": "user",
    "user": "user",
    "prompter": "user",
    "gpt": ANSWER,
    "chatgpt": ANSWER,
    "assistant": ANSWER,
    "bing": ANSWER,
    "bard": ANSWER,
    "model": ANSWER,
    "function_call": ANSWER,
    "tool_call": ANSWER,
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "tool_response": "tool",
}
NO_MESSAGE = "message is no object: dropped"
ODD_ROLE = "unknown role: its text is part of the prompt"
PICTURE = "picture or other media: its digest stands for it"


class Message(NamedTuple):
    """One message: a role of the template and its text."""

    role: str
    text: str


def conversation_in(row: dict[str, Any]) -> list[Any] | None:
    """Return the list of messages of a row, whatever its key; None when it has none."""
    for key in CONVERSATION_KEYS:
        if isinstance(row.get(key), list):
            found: list[Any] = row[key]
            return found
    return None


def messages_of(items: list[Any], summary: TraceSummary, number: int) -> list[Message]:
    """Return the messages of a list; what had to be guessed or dropped is counted."""
    messages = []
    for item in items:
        if not isinstance(item, dict):
            summary.repair(NO_MESSAGE, number)
            continue
        name = item.get("from", item.get("role"))
        role = ROLES.get(name.strip().lower()) if isinstance(name, str) else None
        if role is None:
            summary.repair(ODD_ROLE, number)
            role = "user"
        content = item.get("value", item.get("content", item.get("text")))
        text = _text(content, summary, number)
        for extra in ("tool_calls", "function_call"):
            if item.get(extra):
                text += _dumped(item[extra])
        messages.append(Message(role, text))
    return messages


def preamble_of(row: dict[str, Any], summary: TraceSummary, number: int) -> list[Message]:
    """Return the system message that a row's ``system`` and ``tools`` make, if any."""
    parts = [_text(row.get(key), summary, number).strip() for key in ("system", "tools")]
    text = "\n".join(part for part in parts if part and part != "[]")
    return [Message("system", text)] if text else []


def _text(content: Any, summary: TraceSummary, number: int) -> str:
    """Return content as text: text itself, a list of parts, or anything else as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(_part(part, summary, number) for part in content)
    return _dumped(content)


def _part(part: dict[str, Any], summary: TraceSummary, number: int) -> str:
    """Return one part of a content list as text; media as a digest of what they are."""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if "type" not in part or part["type"] in {"function", "tool_use", "tool_result"}:
        return _dumped(part)
    summary.repair(PICTURE, number)
    return f"<{blake2b(_dumped(part).encode(errors='replace'), digest_size=16).hexdigest()}>"


def _dumped(value: Any) -> str:
    """Return a JSON value as text, in the order of the file."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "?"
