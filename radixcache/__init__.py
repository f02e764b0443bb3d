"""A radix-tree KV prefix cache."""

from radixcache.errors import (
    BatchOrderError,
    ConfigError,
    DuplicateRequestError,
    HandleError,
    IntegrityError,
    InvalidInputError,
    KeyKindError,
    LockError,
    OutOfPagesError,
    PageError,
    RadixCacheError,
    RequestError,
    RequestTooLargeError,
    TokenError,
    TraceError,
    UnknownRequestError,
)
from radixcache.key import DEFAULT_NAMESPACE, KeyKind, Namespace, PrefixKey
from radixcache.protocol import PrefixCache, ResidencyObserver
from radixcache.results import CacheSize, Dropped, InsertResult, PageIds, Peek, PrefixHandle

__all__ = [
    "DEFAULT_NAMESPACE",
    "BatchOrderError",
    "CacheSize",
    "ConfigError",
    "Dropped",
    "DuplicateRequestError",
    "HandleError",
    "InsertResult",
    "IntegrityError",
    "InvalidInputError",
    "KeyKind",
    "KeyKindError",
    "LockError",
    "Namespace",
    "OutOfPagesError",
    "PageError",
    "PageIds",
    "Peek",
    "PrefixCache",
    "PrefixHandle",
    "PrefixKey",
    "RadixCacheError",
    "RequestError",
    "RequestTooLargeError",
    "ResidencyObserver",
    "TokenError",
    "TraceError",
    "UnknownRequestError",
]
