"""What `--html` writes: a report is made only where one was asked for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib import import_module

from radixcache.errors import ConfigError
from scheduler.cli.output import check_writable, emit

__all__ = ["check_html", "write_html"]


def check_html(arguments: argparse.Namespace) -> None:
    """Refuse a report that could not be written, before anything runs. Raises: ConfigError."""
    path, other = arguments.html, arguments.output
    check_writable(path)
    if path is not None and other is not None and _same(path, other):
        raise ConfigError(f"--html and --output both name {path}: give two files")


def write_html(arguments: argparse.Namespace, page: str, *data: object, **more: object) -> None:
    """Write the report that ``page_of`` of a module of this folder makes of the data, if asked for.

    The module is imported here, so that a command without ``--html`` does without its template
    engine.
    """
    if arguments.html is None:
        return
    make: Callable[..., str] = import_module(f"scheduler.cli.{page}").page_of
    emit(arguments.html, make(arguments, *data, **more))


def _same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
