"""ChatTemplate: messages to tokens, piece by piece, so that turn n+1 extends turn n.

A message is ``<|role|>``, a line end, its text, ``<|end|>``, a line end. A prompt is all
messages so far and the header of the answer; the model then gives the text and ``<|end|>``.
So the next prompt is exactly prompt + answer + line end + the messages after it. Headers,
texts and ends are tokenized each alone: no piece spans two of them, with any tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixcache import PrefixKey
from scheduler.trace.tokenizer import Tokenizer

__all__ = ["ChatEncoder", "ChatTemplate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """The text around messages; ``{role}`` stands for the role in the header."""

    header: str = "<|{role}|>\n"
    end: str = "<|end|>"
    between: str = "\n"


class ChatEncoder:
    """Packs messages with one tokenizer and one template."""

    __slots__ = ("_headers", "_template", "_tokenizer", "between", "end")

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._headers: dict[str, bytes] = {}
        self.end = self.text(template.end)
        self.between = self.text(template.between)

    def text(self, text: str) -> bytes:
        """Return the packed tokens of a text alone."""
        return PrefixKey(self._tokenizer.encode(text)).data

    def header(self, role: str) -> bytes:
        """Return the packed tokens of a message's header."""
        found = self._headers.get(role)
        if found is None:
            found = self.text(self._template.header.replace("{role}", role))
            self._headers[role] = found
        return found

    def message(self, role: str, text: str) -> bytes:
        """Return the packed tokens of a whole message and the line end after it."""
        return self.header(role) + self.text(text) + self.end + self.between
