"""Prompts as block ids: equal prefixes have equal ids, and nothing of their content is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b

from radixcache import PrefixKey
from radixcache.errors import ConfigError
from scheduler.request import Request

__all__ = ["ANONYMISED", "BlockNumbers", "anonymised", "in_blocks"]

ANONYMISED = (
    "anonymised: block ids for text and tokens, names renumbered, seconds after the first request"
)


class BlockNumbers:
    """Numbers the blocks of prompts from 0 in order of appearance.

    A number names the whole prefix up to its block: two blocks have one number exactly when
    their prefixes are equal, namespace included. A last block that is not full is known by the
    tokens it has, so it equals no full block. A block of which the key does not tell all (a
    trace without the id of a last block) gets a number of its own.

    Prefixes are told apart by chained 128-bit blake2b digests: among 2**32 blocks two share a
    number with probability 2**-65. Cost: O(key bytes) a prompt. Memory: some 200 bytes a
    different block, whatever its length.
    """

    __slots__ = ("_block_tokens", "_made", "_numbers")

    def __init__(self, block_tokens: int) -> None:
        if block_tokens < 1:
            raise ConfigError(f"block_tokens is {block_tokens}: give at least 1")
        self._block_tokens = block_tokens
        self._numbers: dict[bytes, int] = {}
        self._made = 0

    def of(self, key: PrefixKey, prompt_tokens: int) -> list[int]:
        """Return the numbers of a prompt's ceil(n / block_tokens) blocks.

        Raises: ConfigError when the key's own blocks do not divide these.
        """
        block, page = self._block_tokens, key.page_size
        if block % page:
            raise ConfigError(
                f"blocks of {block} tokens cannot be made of this trace's, which have {page}: "
                f"give a multiple of {page}"
            )
        width = block // page * key.unit_bytes
        chain = blake2b(repr((tuple(key.namespace), key.layout)).encode(), digest_size=16).digest()
        numbers = []
        known = True
        for index, start in enumerate(range(0, prompt_tokens, block)):
            units = -(-min(prompt_tokens - start, block) // page)
            data = key.data[index * width : index * width + units * key.unit_bytes]
            known = known and len(data) == units * key.unit_bytes
            if known:
                chain = blake2b(chain + data, digest_size=16).digest()
                number = self._numbers.setdefault(chain, self._made)
            else:
                number = self._made
            self._made += number == self._made
            numbers.append(number)
        return numbers


def in_blocks(requests: Iterable[Request], block_tokens: int) -> Iterator[Request]:
    """Yield the requests with block ids as keys, the id of a last block that is not full too.

    What hits what stays as it was, for whole blocks of prompts. Answers have no ids any more,
    only lengths; namespaces are in the ids. Streams; memory as `BlockNumbers`.
    Raises: ConfigError as `BlockNumbers.of`.
    """
    numbers = BlockNumbers(block_tokens)
    for request in requests:
        ids = numbers.of(request.key, request.prompt_tokens)
        length = request.recorded_output_tokens
        if length is None and request.recorded_output_ids is not None:
            length = len(request.recorded_output_ids)
        yield replace(
            request,
            key=PrefixKey.from_block_ids(ids, block_tokens),
            cache_output="all",
            visible_tokens=None,
            recorded_output_tokens=length,
            recorded_output_ids=None,
        )


class _Names:
    """Gives each name a letter and a number, in order of appearance."""

    __slots__ = ("_given", "_letter")

    def __init__(self, letter: str) -> None:
        self._letter = letter
        self._given: dict[str, str] = {}

    def of(self, name: str | None) -> str | None:
        if name is None:
            return None
        return self._given.setdefault(name, f"{self._letter}{len(self._given) + 1}")


def anonymised(requests: Iterable[Request]) -> Iterator[Request]:
    """Yield requests of block ids without names, from second 0 on.

    Requests, sessions and clients are numbered in order of appearance. Left are: which blocks
    are equal, lengths, arrivals after the first, what each asks for (tokens, samples, priority)
    and when its client gives up. Streams; holds the names of sessions and clients.
    """
    sessions, clients = _Names("s"), _Names("c")
    start_s: float | None = None
    for number, request in enumerate(requests, 1):
        start_s = request.arrival_s if start_s is None else start_s
        yield replace(
            request,
            rid=f"r{number}",
            arrival_s=request.arrival_s - start_s,
            session_id=sessions.of(request.session_id),
            client_id=clients.of(request.client_id),
        )
