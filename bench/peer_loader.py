"""Load a peer's own files from an unpacked wheel without what they need a GPU for.

A finder on ``sys.meta_path`` answers for everything below the peer's root: files on the
peer's list are loaded unchanged, any other module is a stand-in whose attributes are empty
classes. Imports, annotations, base classes and decorators work with those; nothing of them
runs on a measured path, which ``tests/bench/test_peers.py`` makes sure of by comparing results.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["PeerMissingError", "install", "need", "site_packages"]

Patch = Callable[[Any], None]


class PeerMissingError(Exception):
    """A peer cannot be loaded here; the message says why."""


class _EmptyType(type):
    """Makes classes whose every attribute is again an empty class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name)

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __bool__(cls) -> bool:
        return False


def _empty(name: str) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Used as a decorator it returns what it decorates.
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else _empty(name)()

    def attribute(self: Any, attribute_name: str) -> Any:
        if attribute_name.startswith("__"):
            raise AttributeError(attribute_name)
        return _empty(attribute_name)()

    body = {
        "__init__": lambda self, *args, **kwargs: None,
        "__call__": call,
        "__getattr__": attribute,
        "__bool__": lambda self: False,
        "__iter__": lambda self: iter(()),
        "__enter__": lambda self: self,
        "__exit__": lambda self, *error: False,
    }
    return _EmptyType(name or "Empty", (), body)


class _EmptyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _empty(name)
        setattr(self, name, value)
        return value


class _Finder(MetaPathFinder, Loader):
    def __init__(
        self, folder: Path, root: str, real: Sequence[str], patches: Mapping[str, Patch]
    ) -> None:
        self.folder = folder
        self.root = root
        self.real = frozenset(name for name in real if not name.endswith(".*"))
        self.real_below = tuple(name[:-1] for name in real if name.endswith(".*"))
        self.patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.root:
            return None
        place = self.folder.joinpath(*fullname.split("."))
        wanted = fullname in self.real or f"{fullname}.".startswith(self.real_below)
        if wanted and fullname not in self.patches:
            for file in (place / "__init__.py", *_files(place)):
                if file.is_file():
                    below = [str(place)] if file.name == "__init__.py" else None
                    return importlib.util.spec_from_file_location(
                        fullname, file, submodule_search_locations=below
                    )
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        patch = self.patches.get(module.__name__)
        if patch is not None:
            patch(module)


def _files(place: Path) -> Iterator[Path]:
    yield place.with_name(f"{place.name}.py")
    for suffix in EXTENSION_SUFFIXES:
        yield place.with_name(place.name + suffix)


def install(
    folder: Path,
    root: str,
    real: Sequence[str],
    patches: Mapping[str, Patch],
    empty_roots: Sequence[str] = (),
) -> None:
    """Serve ``root`` from ``folder``: ``real`` names files as they are (``a.b.*``: all below).

    ``patches`` fill stand-ins with the few values that are used. Packages of
    ``empty_roots`` are stand-ins as a whole.
    """
    if not (folder / root).is_dir():
        raise PeerMissingError(f"no {root} in {folder}: unpack its wheel there")
    sys.meta_path.insert(0, _Finder(folder, root, real, patches))
    for name in empty_roots:
        sys.meta_path.insert(0, _Finder(folder, name, (), {}))


def site_packages(peers_dir: Path) -> None:
    """Let what the peers need (torch, msgspec, ...) be found in their venv, after our own."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = peers_dir / "venv" / "lib" / version / "site-packages"
    if place.is_dir() and str(place) not in sys.path:
        sys.path.append(str(place))


def need(module: str) -> Any:
    """Import a module that peers need, or say that it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PeerMissingError(f"{module} cannot be imported ({error})") from None
