"""What several readers take for granted, said in the same words."""

from __future__ import annotations

from scheduler.trace.formats import ReadOptions

__all__ = ["said_of_answers", "said_of_missing_times", "said_of_text", "said_of_tokenizer"]


def said_of_missing_times(options: ReadOptions) -> str:
    """Say when rows arrive that have no time."""
    return f"rows have no time: one arrives every {1 / options.rate_per_s:g} s"


def said_of_tokenizer(options: ReadOptions) -> str:
    """Say what cuts text into tokens."""
    return f"text is cut into tokens by the tokenizer {options.tokenizer.name!r}"


def said_of_text(options: ReadOptions) -> tuple[str, str]:
    """Say how messages become tokens."""
    template = options.template
    return (
        said_of_tokenizer(options),
        f"chat template: {template.header!r} text {template.end!r} {template.between!r}",
    )


def said_of_answers(options: ReadOptions) -> str:
    """Say how long an answer may get where no row does."""
    return f"every request asks for up to {options.max_new_tokens} new tokens (no row says)"
