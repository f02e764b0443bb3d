"""PrefixKey: token ids packed once into bytes, plus the namespace they live in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple, overload

from radixcache.errors import InvalidInputError, KeyKindError
from radixcache.packing import (
    PAIR_LIMIT,
    TOKEN_LIMIT,
    WIDE_LIMIT,
    common_bytes,
    fill_items,
    pack_pairs,
    pack_units,
    unpack_units,
)

__all__ = ["DEFAULT_NAMESPACE", "KeyKind", "Namespace", "PrefixKey", "checked"]

_PREVIEW_TOKENS = 6


class Namespace(NamedTuple):
    """What keeps keys apart besides their tokens; keys of two namespaces never share.

    Compared field by field, never joined, so distinct namespaces stay distinct whatever
    the strings hold. ``None`` and ``""`` differ for ``extra_key`` and ``lora``; an empty
    ``cache_salt`` means none. ``lora`` may be a tuple such as ``("name", version)``.
    """

    extra_key: str | None = None
    lora: str | tuple[str | int, ...] | None = None
    cache_salt: str | None = None

    @classmethod
    def of(
        cls,
        extra_key: str | None = None,
        lora: str | tuple[str | int, ...] | None = None,
        cache_salt: str | None = None,
    ) -> Namespace:
        """Return the checked namespace, an empty salt made none.

        Raises:
            InvalidInputError: a field has another type than the fields declare. The types
                are exact, since ``1 == True == 1.0`` would merge namespaces.

        """
        return cls(extra_key, lora, cache_salt).normalized()

    def normalized(self) -> Namespace:
        """Return this namespace checked and with an empty salt made none (see ``of``)."""
        extra_key, lora, cache_salt = self
        for name, value in (("extra_key", extra_key), ("cache_salt", cache_salt)):
            if value is not None and type(value) is not str:
                raise InvalidInputError(f"{name} is {value!r}: give a str or None")
        if type(lora) is tuple:
            if any(type(part) not in {str, int} for part in lora):
                raise InvalidInputError(f"lora is {lora!r}: a tuple may hold only str and int")
        elif lora is not None and type(lora) is not str:
            raise InvalidInputError(
                f"lora is {lora!r}: give a str, a tuple of str and int, or None"
            )
        return self._replace(cache_salt=None) if cache_salt == "" else self


DEFAULT_NAMESPACE = Namespace()


def checked(namespace: Namespace) -> Namespace:
    """Return a namespace normalized. Raises: InvalidInputError if it is none."""
    if namespace is DEFAULT_NAMESPACE:
        return namespace
    if type(namespace) is not Namespace:
        raise InvalidInputError(f"namespace is {namespace!r}: make one with Namespace.of(...)")
    return namespace.normalized()


class KeyKind(Enum):
    """What one packed unit of a key stands for; a cache holds keys of one kind."""

    TOKENS = "tokens"
    """4 bytes a token, ids below 2**32."""
    WIDE = "wide"
    """8 bytes a token, ids below 2**63; also token pairs."""
    BLOCKS = "blocks"
    """8 bytes a *page*: the id of a whole block of tokens, as block-hash traces have it."""

    @property
    def unit_bytes(self) -> int:
        """Bytes of one unit: of a token, or for BLOCKS of a page."""
        return 4 if self is KeyKind.TOKENS else 8

    def page_bytes(self, page_size: int) -> int:
        """Return the packed bytes of one page."""
        return self.unit_bytes * (1 if self is KeyKind.BLOCKS else page_size)

    def layout(self, page_size: int) -> int:
        """Return an int that is equal exactly for keys that may live in one cache."""
        if self is KeyKind.BLOCKS:
            return 16 + page_size
        return self.unit_bytes


class PrefixKey:
    """Token ids, packed little-endian once, and their namespace.

    ``tokens`` is a list, a tuple, another iterable of ints, or an integer ``array``, numpy
    or torch vector; the latter are packed without a Python loop. ``wide`` takes ids below
    2**63 instead of 2**32 at 8 bytes each.

    ``items`` are multimodal items ``(offset, length, digest)``: the ``length`` placeholder
    tokens from ``offset`` are replaced by units drawn from the digest (SHAKE-128), so that
    two pictures never share and one picture always does. In a wide key bit 63 of such a
    unit is set, so it equals no token id. In a 4-byte key a unit has 32 bits of the stream
    and may equal a token id; whole pages of them still tell digests apart, but use
    ``wide=True`` where that matters.

    Cost: O(n), about 10 ns a token from a list, 1-4 ns from a buffer. Make a key once per
    request and ``extend`` it.

    Raises:
        TokenError: a token is a bool, a float, no int, negative or too large; an item is
            out of range, empty or overlaps another.
        InvalidInputError: the namespace is none.

    >>> key = PrefixKey([1, 2, 3])
    >>> key.extend([4])
    >>> len(key), key.tokens(), key[1:3].tokens()
    (4, [1, 2, 3, 4], [2, 3])

    """

    __slots__ = ("_pair_tail", "data", "kind", "layout", "namespace", "page_size")

    data: bytes
    """The packed units. Grows by ``extend``; what is there never changes."""
    namespace: Namespace
    kind: KeyKind
    layout: int
    """Equal exactly for keys that may live in one cache."""
    page_size: int
    """Tokens of one unit: 1, except for a key of block ids."""
    # The packed last raw token of a pair key; None for every other key.
    _pair_tail: bytes | None

    def __init__(
        self,
        tokens: Iterable[int],
        namespace: Namespace = DEFAULT_NAMESPACE,
        *,
        wide: bool = False,
        items: Iterable[tuple[int, int, bytes]] = (),
    ) -> None:
        data = pack_units(tokens, WIDE_LIMIT if wide else TOKEN_LIMIT)
        kind = KeyKind.WIDE if wide else KeyKind.TOKENS
        if items:
            data = fill_items(data, kind.unit_bytes, items)
        self.data = data
        self.namespace = checked(namespace)
        self.kind = kind
        self.layout = kind.unit_bytes
        self.page_size = 1
        self._pair_tail = None

    @classmethod
    def from_pairs(
        cls, tokens: Iterable[int], namespace: Namespace = DEFAULT_NAMESPACE
    ) -> PrefixKey:
        """Return the wide key of the n-1 pairs of neighbours of n tokens (EAGLE drafts).

        ``extend`` goes on with raw tokens. Keep pair keys and plain wide keys in separate
        caches: both are ``KeyKind.WIDE``.

        Raises:
            TokenError: a token is no int or not below 2**31.

        """
        data, tail = pack_pairs(pack_units(tokens, PAIR_LIMIT))
        return cls._made(data, checked(namespace), KeyKind.WIDE, 1, tail)

    @classmethod
    def from_block_ids(
        cls, ids: Iterable[int], page_size: int, namespace: Namespace = DEFAULT_NAMESPACE
    ) -> PrefixKey:
        """Return the key of whole pages known only by an id each; ids are below 2**63.

        The length is ``len(ids) * page_size`` tokens; the key fits only caches of that
        page size and ``KeyKind.BLOCKS``.

        Raises:
            TokenError: an id is no int, negative or too large.
            InvalidInputError: ``page_size`` is not a positive int.

        """
        _check_page_size(page_size)
        data = pack_units(ids, WIDE_LIMIT)
        return cls._made(data, checked(namespace), KeyKind.BLOCKS, page_size, None)

    @classmethod
    def from_packed(
        cls,
        data: bytes,
        kind: KeyKind,
        namespace: Namespace = DEFAULT_NAMESPACE,
        page_size: int | None = None,
    ) -> PrefixKey:
        """Return the key of bytes that a ``PrefixKey`` packed before; the ids are trusted.

        Cost: O(1). ``page_size`` is needed for block ids only.

        Raises:
            InvalidInputError: ``data`` is no bytes of whole units, or the page size is
                missing for block ids.

        """
        if not isinstance(kind, KeyKind):
            raise InvalidInputError(f"kind is {kind!r}: give a KeyKind")
        if type(data) is not bytes or len(data) % kind.unit_bytes:
            what = f"{len(data)} bytes" if type(data) is bytes else type(data).__name__
            raise InvalidInputError(
                f"packed data must be bytes of whole {kind.unit_bytes}-byte units, not {what}"
            )
        if kind is KeyKind.BLOCKS:
            _check_page_size(page_size)
        return cls._made(
            data,
            checked(namespace),
            kind,
            page_size if kind is KeyKind.BLOCKS and page_size else 1,
            None,
        )

    @classmethod
    def _made(
        cls,
        data: bytes,
        namespace: Namespace,
        kind: KeyKind,
        page_size: int,
        pair_tail: bytes | None,
    ) -> PrefixKey:
        key = cls.__new__(cls)
        key.data = data
        key.namespace = namespace
        key.kind = kind
        key.layout = kind.layout(page_size)
        key.page_size = page_size
        key._pair_tail = pair_tail
        return key

    @property
    def unit_bytes(self) -> int:
        """Bytes of one unit of ``data``."""
        return self.kind.unit_bytes

    def __len__(self) -> int:
        """Return the length in tokens."""
        return len(self.data) // self.kind.unit_bytes * self.page_size

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens (a pair key: raw tokens, a block key: block ids) in place.

        Cost: O(length), one copy: extend by pages, not by tokens.

        Raises:
            TokenError: as in the constructor; the key is unchanged then.

        """
        if self._pair_tail is not None:
            more = pack_units(tokens, PAIR_LIMIT)
            pairs, self._pair_tail = pack_pairs(self._pair_tail + more)
            self.data += pairs
        else:
            self.data += pack_units(
                tokens, TOKEN_LIMIT if self.kind is KeyKind.TOKENS else WIDE_LIMIT
            )

    def tokens(self) -> list[int]:
        """Return the units as ints: token ids, ``first + (second << 32)`` of a pair, block ids."""
        return unpack_units(self.data, self.kind.unit_bytes)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tokens())

    @overload
    def __getitem__(self, index: int) -> PrefixKey: ...

    @overload
    def __getitem__(self, index: slice) -> PrefixKey: ...

    def __getitem__(self, index: int | slice) -> PrefixKey:
        """Return the part as a key of the same namespace; an int gives a key of one token.

        Raises:
            IndexError: an int is out of range.
            InvalidInputError: a step other than 1, or a cut inside a block of a block key.

        """
        length = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                raise InvalidInputError(f"a key cannot be sliced by step {step}: use step 1")
            stop = max(start, stop)
        else:
            start = index + length if index < 0 else index
            stop = start + 1
            if not 0 <= start < length:
                raise IndexError(f"token {index} of a key of {length} tokens")
        if start % self.page_size or stop % self.page_size:
            raise InvalidInputError(
                f"a key of block ids cannot be cut at {start}:{stop}: "
                f"use multiples of its page size {self.page_size}"
            )
        size = self.kind.unit_bytes
        low, high = start // self.page_size * size, stop // self.page_size * size
        tail = self._pair_tail
        if tail and high < len(self.data):
            tail = self.data[high : high + 4]
        return self._made(self.data[low:high], self.namespace, self.kind, self.page_size, tail)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixKey):
            return NotImplemented
        return (
            self.data == other.data
            and self.layout == other.layout
            and self.kind is other.kind
            and self.namespace == other.namespace
        )

    # It grows in place.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[: _PREVIEW_TOKENS * self.page_size].tokens()))
        more = ", ..." if len(self) > _PREVIEW_TOKENS * self.page_size else ""
        where = "" if self.namespace == DEFAULT_NAMESPACE else f", {self.namespace!r}"
        return f"PrefixKey({self.kind.value}, {len(self)} tokens: [{shown}{more}]{where})"

    def common_prefix_tokens(self, other: PrefixKey, page_size: int = 1) -> int:
        """Return the length of the common prefix, floored to whole pages.

        Cost: O(common prefix), by bisection over memory comparisons.

        Raises:
            KeyKindError: the keys are of different kinds.
            InvalidInputError: the namespaces differ, or ``page_size`` is not positive.

        """
        _check_page_size(page_size)
        if self.layout != other.layout:
            raise KeyKindError(
                f"a {self.kind.value} key was compared with a {other.kind.value} key"
            )
        if self.namespace != other.namespace:
            raise InvalidInputError(
                f"keys of two namespaces never share: {self.namespace} and {other.namespace}"
            )
        size = self.kind.unit_bytes
        mine, theirs = self.data, other.data
        if mine[:size] != theirs[:size]:
            return 0
        units = common_bytes(theirs, mine, 0, len(mine), size) // size
        return units * self.page_size // page_size * page_size


def _check_page_size(page_size: int | None) -> None:
    if type(page_size) is not int or not 0 < page_size < 2**31:
        raise InvalidInputError(f"page_size is {page_size!r}: give 1 to 2**31 - 1")
