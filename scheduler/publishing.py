"""Publisher: hands computed pages to the cache and redirects page rows to the cache's."""

from __future__ import annotations

from array import array

import numpy as np

from radixcache import PageIds, PrefixHandle, PrefixKey
from scheduler.batch import PageRemap
from scheduler.page_ledger import PageLedger
from scheduler.running import Run, Running

__all__ = ["Publisher"]


class Publisher:
    """Moves full pages from requests to the cache, and takes back what they held.

    The order of a publication: insert, duplicates back, row rewritten to the cache's pages,
    pin moved to the new handle, old pin released; nothing is evicted in between. A row that
    a batch in flight reads is not written but replaced.
    """

    __slots__ = ("_ledger", "_page_size", "_remaps", "_running")

    def __init__(self, ledger: PageLedger, running: Running, page_size: int) -> None:
        self._ledger = ledger
        self._running = running
        self._page_size = page_size
        self._remaps: list[tuple[Run, PageRemap]] = []

    def publish(self, run: Run, key: PrefixKey, tokens: int) -> None:
        """Put the full pages of the first ``tokens`` of a row into the cache.

        What the cache does not take stays the request's own. Cost: O(pages of the path).
        """
        page_size = self._page_size
        full = min(tokens, len(key)) // page_size
        if full <= run.shared_pages:
            return
        assert full <= run.num_pages
        result = self._ledger.cache.insert(
            key, run.pages(0, full), full * page_size, run.state.request.priority
        )
        self._ledger.publications += 1
        old, run.handle = run.handle, result.handle
        start, run.shared_pages = run.shared_pages, result.cached_tokens // page_size
        assert start <= run.shared_pages <= full
        if run.shared_pages > start:
            self._redirect(run, start)
        self._ledger.unpin(old, -1)

    def _redirect(self, run: Run, start: int) -> None:
        """Make the row name the cache's pages from ``start`` on; give the duplicates back."""
        stop = run.shared_pages
        theirs = np.frombuffer(run.handle.pages, np.int32)[start:stop]
        changed = np.flatnonzero(run.row[start:stop] != theirs)
        if not len(changed):
            return
        last_batch_id = self._running.last_batch_of(run)
        duplicates = array("i")
        duplicates.frombytes(run.row[start:stop][changed].tobytes())
        first, end = start + int(changed[0]), start + int(changed[-1]) + 1
        new_pages = tuple(theirs[first - start : end - start].tolist())
        old_pages = tuple(run.row[first:end].tolist())
        if last_batch_id > self._ledger.completed_id:
            run.row = run.row.copy()
            self._running.row_replaced()
        run.row[start:stop] = theirs
        self._remaps.append((run, PageRemap(run.state.rid, first, old_pages, new_pages)))
        self._ledger.give_back(duplicates, last_batch_id)

    def take_remaps(self) -> list[tuple[Run, PageRemap]]:
        """Return the remaps since the last call."""
        taken, self._remaps = self._remaps, []
        return taken

    def put_back(self, remaps: list[tuple[Run, PageRemap]]) -> None:
        """Keep remaps that no batch could tell."""
        self._remaps[:0] = remaps

    def publish_output(self, run: Run) -> None:
        """Publish all that is computed and may be published. Cost: O(n), at a request's end."""
        state = run.state
        tokens = min(state.publishable_tokens(), self._running.computed(run))
        if tokens // self._page_size > run.shared_pages:
            self.publish(run, state.publishable_key(), tokens)

    def give_up(self, run: Run, *, keep: bool = False) -> PrefixHandle | None:
        """Take back every page and pin of a run, once no batch in flight uses them.

        Every way out ends here, once. ``keep`` returns a pin on what was published.
        """
        assert run.alive
        ledger = self._ledger
        last_batch_id = self._running.last_batch_of(run)
        ledger.reserved_pages -= run.promised_pages
        own: PageIds = run.pages(run.shared_pages, run.num_pages)
        handle = run.handle
        self._running.remove(run)
        ledger.give_back(own, last_batch_id)
        kept: PrefixHandle | None = None
        if keep and handle.prefix_tokens:
            # A pin of its own: the batch in flight needs the other one until it completes.
            kept = ledger.cache.insert(
                run.state.key, handle.pages, handle.prefix_tokens, run.state.request.priority
            ).handle
        ledger.unpin(handle, last_batch_id)
        return kept
