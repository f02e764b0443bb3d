"""Every exception this project raises on purpose.

::

    RadixCacheError
    ├── InvalidInputError (ValueError)     an argument that can never be right
    │   ├── TokenError                     a token id that is no int, negative or too large
    │   ├── KeyKindError                   a key of another width or kind than the cache holds
    │   ├── ConfigError                    a setting out of its range, or an unknown name
    │   └── TraceError                     a file, or a row of it, that is no trace
    ├── HandleError                        a handle of another cache, or used after its release
    ├── LockError                          a lock_ref released more often than taken
    ├── PageError                          a page id freed twice, unknown, or out of place
    ├── OutOfPagesError                    more pages asked for than are free
    ├── ObserverError                      an observer raised; the change itself is done
    ├── RequestError                       a request the scheduler cannot take or does not know
    │   ├── RequestTooLargeError           it could never be admitted: the numbers say why
    │   ├── DuplicateRequestError          its id is alive already
    │   └── UnknownRequestError            no live request has this id
    ├── BatchOrderError                    complete() out of order, or results that fit no batch
    └── IntegrityError                     check() found a broken invariant: a fault of ours

A message says what was wrong, the value, and what to do.
"""

from __future__ import annotations

__all__ = [
    "BatchOrderError",
    "ConfigError",
    "DuplicateRequestError",
    "HandleError",
    "IntegrityError",
    "InvalidInputError",
    "KeyKindError",
    "LockError",
    "ObserverError",
    "OutOfPagesError",
    "PageError",
    "RadixCacheError",
    "RequestError",
    "RequestTooLargeError",
    "TokenError",
    "TraceError",
    "UnknownRequestError",
]


class RadixCacheError(Exception):
    """The root of the tree: catch it to catch everything below."""


class InvalidInputError(RadixCacheError, ValueError):
    """An argument that can never be right; nothing was changed."""


class TokenError(InvalidInputError):
    """A token id is no int, negative, or too large for the key's width."""


class KeyKindError(InvalidInputError):
    """A key's width or kind differs from what the cache holds."""


class ConfigError(InvalidInputError):
    """A setting is out of its range, or a name is unknown."""


class TraceError(InvalidInputError):
    """A file, or a row of it, is no trace of the expected format.

    ``path`` and ``line`` (1-based) say where, when they are known.
    """

    def __init__(self, message: str, *, path: str | None = None, line: int | None = None) -> None:
        where = "" if path is None else path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {message}" if where else message)
        self.path = path
        self.line = line


class HandleError(RadixCacheError):
    """A handle belongs to another cache, or its pages were asked for after its release."""


class LockError(RadixCacheError):
    """A lock_ref was released more often than it was taken."""


class PageError(RadixCacheError):
    """A page id is unknown, was freed twice, or is not where it is said to be."""


class OutOfPagesError(RadixCacheError):
    """More pages were asked for than are free; nothing was handed out."""


class ObserverError(RadixCacheError):
    """An observer raised, which it must not; the cause is its exception, the first if several.

    The call it listened to is done and everybody was told: ``result`` is what the call would
    have returned, so that no page and no pin is lost.
    """

    def __init__(self, result: object) -> None:
        super().__init__(
            "an observer of the cache raised: the change is done, and what the call would have "
            "returned is this error's result; mend the observer"
        )
        self.result = result


class RequestError(RadixCacheError):
    """The scheduler cannot take this request, or does not know it."""


class RequestTooLargeError(RequestError):
    """A request that could never be admitted; the numbers are attributes.

    ``needed_pages`` is what the admission predicate would ask for at the very least,
    ``capacity_pages`` what the pool holds in all.
    """

    def __init__(self, message: str, *, needed_pages: int, capacity_pages: int) -> None:
        super().__init__(message)
        self.needed_pages = needed_pages
        self.capacity_pages = capacity_pages


class DuplicateRequestError(RequestError):
    """A request with this id is alive already."""


class UnknownRequestError(RequestError):
    """No live request has this id."""


class BatchOrderError(RadixCacheError):
    """complete() was called out of order, or with results that do not fit the batch."""


class IntegrityError(RadixCacheError):
    """check() found a broken invariant; this is a fault of the project, not of the caller."""
