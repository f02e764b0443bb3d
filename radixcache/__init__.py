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
    ObserverError,
    OutOfPagesError,
    PageError,
    RadixCacheError,
    RequestError,
    RequestTooLargeError,
    TokenError,
    TraceError,
    UnknownRequestError,
)
from radixcache.eviction import (
    FIFO,
    FILO,
    LFU,
    LRU,
    MRU,
    SLRU,
    EvictionPolicy,
    Priority,
    Random,
)
from radixcache.eviction_adaptive import ARC, TLRU
from radixcache.eviction_heap import ProtectedTokens
from radixcache.eviction_registry import EVICTION_POLICIES, make_policy
from radixcache.format_tree import format_tree
from radixcache.gittins import GhostGittins
from radixcache.key import DEFAULT_NAMESPACE, KeyKind, Namespace, PrefixKey
from radixcache.null_cache import NullCache
from radixcache.packing import common_bytes
from radixcache.page_pool import PagePool
from radixcache.protocol import PrefixCache, ResidencyObserver
from radixcache.radix_cache import RadixCache
from radixcache.results import CacheSize, Dropped, InsertResult, PageIds, Peek, PrefixHandle
from radixcache.sglang_names import MatchedPrefix
from radixcache.tree import Node

__all__ = [
    "ARC",
    "DEFAULT_NAMESPACE",
    "EVICTION_POLICIES",
    "FIFO",
    "FILO",
    "LFU",
    "LRU",
    "MRU",
    "SLRU",
    "TLRU",
    "BatchOrderError",
    "CacheSize",
    "ConfigError",
    "Dropped",
    "DuplicateRequestError",
    "EvictionPolicy",
    "GhostGittins",
    "HandleError",
    "InsertResult",
    "IntegrityError",
    "InvalidInputError",
    "KeyKind",
    "KeyKindError",
    "LockError",
    "MatchedPrefix",
    "Namespace",
    "Node",
    "NullCache",
    "ObserverError",
    "OutOfPagesError",
    "PageError",
    "PageIds",
    "PagePool",
    "Peek",
    "PrefixCache",
    "PrefixHandle",
    "PrefixKey",
    "Priority",
    "ProtectedTokens",
    "RadixCache",
    "RadixCacheError",
    "Random",
    "RequestError",
    "RequestTooLargeError",
    "ResidencyObserver",
    "TokenError",
    "TraceError",
    "UnknownRequestError",
    "common_bytes",
    "format_tree",
    "make_policy",
]
