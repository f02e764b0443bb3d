"""Parquet files as lines of JSON, a row each, so that every reader of rows can take them.

Needs the extra ``parquet``. Columns that judge a conversation and are no part of it
(``openai_moderation``, ``detoxify_moderation``) are not read. Times become ISO 8601 text.
Memory: one row group, and 256 rows as objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from radixcache.errors import TraceError

__all__ = ["PARQUET_MAGIC", "ParquetLines"]

PARQUET_MAGIC = b"PAR1"
BATCH_ROWS = 256
NO_PART_OF_IT = frozenset({"openai_moderation", "detoxify_moderation"})

_encode = msgspec.json.Encoder(enc_hook=str).encode


class ParquetLines:
    """The rows of one Parquet file, to be read like a stream of bytes.

    Raises: TraceError when pyarrow is absent or the file has no index at its end.
    """

    __slots__ = ("_batches",)

    def __init__(self, raw: BinaryIO, path: str) -> None:
        try:
            from pyarrow import parquet  # type: ignore[import-not-found, import-untyped, unused-ignore] # extra
        except ImportError:
            raise TraceError(
                "is a Parquet file, which needs a package: pip install 'radixcache[parquet]'",
                path=path,
            ) from None
        try:
            file = parquet.ParquetFile(raw)
            columns = [name for name in file.schema_arrow.names if name not in NO_PART_OF_IT]
        except Exception as error:  # whatever a damaged index leads to
            raise TraceError(
                f"is a Parquet file that is cut or damaged ({_short(error)}): its index is at "
                "its end, so nothing of it can be read",
                path=path,
            ) from None
        self._batches: Iterator[Any] = chain.from_iterable(
            file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)
            for group in range(file.num_row_groups)
        )

    def read(self, size: int = -1) -> bytes:
        """Return the next rows, nothing after the last; ``size`` is not looked at.

        Raises: EOFError where the file is damaged.
        """
        try:
            for batch in self._batches:
                if len(batch):
                    return b"".join(_encode(row) + b"\n" for row in batch.to_pylist())
        except Exception as error:  # pages are checked as they are unpacked
            raise EOFError(_short(error)) from None
        return b""

    def __enter__(self) -> ParquetLines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        """Leave the file open: who opened it closes it."""


def _short(error: Exception) -> str:
    """Return the first words of a message in one line."""
    return " ".join(str(error).split())[:80]
