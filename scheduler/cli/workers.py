"""Tasks on all cores: a pool of processes that each hold one CellRunner."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from radixcache.errors import ConfigError
from scheduler.cli.cells import CellRunner
from scheduler.cli.progress import Bar

__all__ = ["run_tasks"]

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Work = Callable[[CellRunner, Task, Bar], Answer]
Tell = Callable[[int, Answer], None]

_POLL_S = 0.2


def run_tasks(
    runner: CellRunner,
    arguments: argparse.Namespace,
    work: Work[Task, Answer],
    tasks: Sequence[Task],
    bar: Bar,
    *,
    jobs: int | None,
    tell: Tell[Answer] | None = None,
) -> list[Answer]:
    """Do every task; the answers come in the order of the tasks.

    With one job they are done here by ``runner``, else by processes that make their own from
    ``arguments``, so that nothing large crosses between processes. ``tell`` is given each
    answer and its place as it comes. ``work`` is a function of a module. The first fault ends
    all of it, and no process is left behind.

    Raises: what ``work`` raises; ConfigError when a process died.
    """
    workers = min(jobs or os.cpu_count() or 1, len(tasks))
    if workers > 1:
        return _Pool(arguments, work, tasks, workers, tell).run(bar)
    answers: list[Answer] = []
    done = [0] * len(tasks)

    def bar_of(place: int) -> Bar:
        before = sum(done)

        def told(ended: int) -> None:
            done[place] = ended
            bar(before + ended)

        return told

    for place, task in enumerate(tasks):
        answers.append(work(runner, task, bar_of(place)))
        if tell is not None:
            tell(place, answers[-1])
    return answers


class _Pool:
    """The processes of one list of tasks."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        work: Work[Any, Any],
        tasks: Sequence[Any],
        workers: int,
        tell: Tell[Any] | None,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._work = work
        self._tasks = tasks
        self._tell = tell
        self._workers = workers
        # An interrupt in the middle of this would leave named semaphores behind.
        with _interrupts_held():
            self._done = context.Array("q", len(tasks), lock=False)
            self._others = set(multiprocessing.active_children())
            self._executor = ProcessPoolExecutor(
                workers,
                mp_context=context,
                initializer=_start_worker,
                initargs=(arguments, self._done),
            )

    def run(self, bar: Bar) -> list[Any]:
        try:
            with _interrupts_held():
                futures = [
                    self._executor.submit(_work, self._work, place, task)
                    for place, task in enumerate(self._tasks)
                ]
            self._wait(futures, bar)
        except BrokenProcessPool:
            self._end()
            raise ConfigError(
                f"a worker process died, maybe of too little memory for {self._workers} of them: "
                "use fewer --jobs"
            ) from None
        except BaseException:
            self._end()
            raise
        self._executor.shutdown()
        return [future.result() for future in futures]

    def _wait(self, futures: list[Future[Any]], bar: Bar) -> None:
        places = {future: place for place, future in enumerate(futures)}
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, timeout=_POLL_S)
            for future in finished:
                answer = future.result()
                if self._tell is not None:
                    self._tell(places[future], answer)
            bar(sum(self._done))

    def _end(self) -> None:
        """Stop the processes in the middle of their work."""
        children = set(multiprocessing.active_children()) - self._others
        for child in children:
            child.terminate()
        self._executor.shutdown(cancel_futures=True)
        for child in children:
            child.join()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Put Ctrl-C off, and let processes that are started meanwhile never see it.

    They inherit the mask, also before any code of theirs runs, and are ended by this process.
    The mask alone would not do here: a thread of a numeric library may take the signal, and
    the interrupt then rises in the middle of starting a process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    masks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    try:
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


# What a worker process was started with: the shared progress counters, and its runner.
_worker: dict[str, Any] = {}


def _start_worker(arguments: argparse.Namespace, done: Any) -> None:
    _worker.update(runner=CellRunner(arguments), done=done)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Leave no orphan behind when the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(work: Work[Any, Any], place: int, task: Any) -> Any:
    done = _worker["done"]

    def bar(ended: int) -> None:
        done[place] = ended

    return work(_worker["runner"], task, bar)
