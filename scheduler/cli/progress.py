"""A progress bar on standard error: rate and time left; silent where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["Bar", "counted", "progress_bar"]

Bar: TypeAlias = Callable[[int], None]
"""Takes how much is done in all."""

Item = TypeVar("Item")
_BATCH = 512


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@contextmanager
def progress_bar(title: str, total: int | None, *, quiet: bool) -> Iterator[Bar]:
    """Show a bar while the block runs; only on a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)


def counted(items: Iterable[Item], bar: Bar) -> Iterator[Item]:
    """Yield the items and tell the bar how many there were."""
    done = 0
    for done, item in enumerate(items, start=1):
        yield item
        if done % _BATCH == 0:
            bar(done)
    bar(done)
