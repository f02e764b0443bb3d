"""Small traffic for the capacity curve."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from radixcache import Namespace, PrefixKey
from scheduler.request import Request

__all__ = ["CHATS", "REQUESTS", "most_capacity"]

_NAMESPACES = st.sampled_from([Namespace(), Namespace.of(lora="a")])
_CAPS = st.none() | st.integers(0, 5)


@st.composite
def _token_request(draw: st.DrawFn, outputs: bool) -> Request:
    tokens = draw(st.lists(st.integers(0, 1), max_size=7))
    answer = draw(st.lists(st.integers(0, 1), max_size=4)) if outputs else []
    return Request(
        rid="r",
        key=PrefixKey(tokens, draw(_NAMESPACES)),
        prompt_tokens=len(tokens),
        max_new_tokens=8,
        max_match_tokens=draw(_CAPS),
        recorded_output_ids=tuple(answer) or None,
    )


@st.composite
def _block_request(draw: st.DrawFn, page_size: int) -> Request:
    """Ids of whole blocks; the last may be partial, and more tokens may follow the last."""
    ids = draw(st.lists(st.integers(0, 1), max_size=5))
    tokens = len(ids) * page_size + draw(st.integers(-page_size + 1, page_size))
    return Request(
        rid="r",
        key=PrefixKey.from_block_ids(ids, page_size),
        prompt_tokens=max(tokens, 0),
        max_new_tokens=8,
    )


def _traffic(request: st.SearchStrategy[Request]) -> st.SearchStrategy[list[Request]]:
    return st.lists(request, max_size=14)


REQUESTS: st.SearchStrategy[tuple[int, list[Request]]] = st.one_of(
    st.tuples(st.integers(1, 3), _traffic(_token_request(outputs=False))),
    st.integers(1, 3).flatmap(lambda p: st.tuples(st.just(p), _traffic(_block_request(p)))),
)
"""A page size and requests of one kind, without answers."""

CHATS: st.SearchStrategy[tuple[int, list[Request]]] = st.tuples(
    st.integers(1, 3), _traffic(_token_request(outputs=True))
)


def most_capacity(requests: Sequence[Request], page_size: int) -> int:
    """Return a capacity at which nothing is ever evicted."""
    answers = sum(len(request.recorded_output_ids or ()) for request in requests)
    return 1 + (sum(len(request.key) for request in requests) + answers) // page_size
