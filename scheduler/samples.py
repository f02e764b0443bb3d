"""Several answers to one prompt, as requests of their own that share its computed pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.request import Request

__all__ = ["each_sample", "fan_out"]


def fan_out(request: Request) -> tuple[Request, ...]:
    """Return one request for each of ``request.samples`` answers; the first keeps the rid.

    The others are called ``rid#2``, ``rid#3`` and so on. Each has its own pages behind the
    shared prompt. Only the first has the recorded answer; the others are as long as it.

    The prompt is computed once if the others are scheduled when its pages can be found: hold
    them (``hold="stop"`` or ``"skip"``), publish at scheduling, or submit them once the first
    has its first token. They then compute no more than what follows the last full page that
    may be matched: 1 to page_size tokens each.

    Ref: vLLM v1 ``parallel_sampling.py`` (one child request a sample); SGLang
    ``tokenizer_manager.py`` (the prompt is cached first, then each sample is sent).
    """
    if request.samples == 1:
        return (request,)
    length = request.recorded_output_tokens
    if length is None and request.recorded_output_ids is not None:
        length = len(request.recorded_output_ids)
    first = replace(request, samples=1)
    others = (
        replace(
            first,
            rid=f"{request.rid}#{number}",
            recorded_output_tokens=length,
            recorded_output_ids=None,
        )
        for number in range(2, request.samples + 1)
    )
    return (first, *others)


def each_sample(requests: Iterable[Request]) -> Iterator[Request]:
    """Yield every sample of the requests, in their order: what a server looks up."""
    for request in requests:
        yield from fan_out(request)
