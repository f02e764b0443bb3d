"""House style that is worth a test: sizes, layers, banned imports and calls, dead modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("radixcache", "scheduler")
CHECKED = (*PACKAGES, "tests", "bench", "examples")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# Which parts of `scheduler` a part may import from; a file of the root folder is its own part.
HEAVY_IN_CORE = {"numpy", "msgspec", "sortedcontainers", "rich", "jinja2"}
NO_CLOCK_OR_CHANCE = {"time", "random", "datetime", "threading", "secrets", "uuid", "os"}
CORE_OF_SCHEDULER = {p.stem for p in (ROOT / "scheduler").glob("*.py")} - {"cli", "__main__"}
BANNED_NAMES = {"utils", "common", "helper", "helpers", "manager"}


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, ast.stmt, bool]]:
    """Yield (module, statement, inside a function) for each import of the file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for func in ast.walk(tree)
        if isinstance(func, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(func)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or "", node, id(node) in inside


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return ".".join(relative.parts[:2]).removesuffix(".py")


def names(paths: Iterator[Path]) -> list[str]:
    return [str(p.relative_to(ROOT)) for p in paths]


@pytest.mark.parametrize("name", names(files(*CHECKED)))
def test_files_and_functions_are_short(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("name", names(files(*PACKAGES)))
def test_imports_go_one_way(name: str) -> None:
    path = ROOT / name
    part = part_of(path)
    for module, _, _ in imports(path):
        if part.startswith("radixcache"):
            assert not module.startswith("scheduler")
        if module.startswith("radixcache.") and part.startswith("scheduler"):
            assert module == "radixcache.errors", f"only public names: {module}"
        target = ".".join(module.split(".")[:2])
        if part == "scheduler.sim":
            assert target not in {"scheduler.embed", "scheduler.cli", "scheduler.report"}
            if target == "scheduler.trace":
                assert module == "scheduler.trace.sessions", "a run knows sessions, no formats"
        if part == "scheduler.analysis":
            assert target not in {"scheduler.embed", "scheduler.cli", "scheduler.sim"}
        if part == "scheduler.models" and target.startswith("scheduler."):
            assert target == "scheduler.models"
        if part == "scheduler.embed":
            assert target not in {"scheduler.sim", "scheduler.cli"}
        if part == "scheduler.trace" and target.startswith("scheduler."):
            assert target in {"scheduler.trace", "scheduler.request"}
        if part == "scheduler.report" and target.startswith("scheduler."):
            assert target in {"scheduler.report", "scheduler.request", "scheduler.batch"}
        if part.split(".")[-1] in CORE_OF_SCHEDULER and target.startswith("scheduler."):
            assert target.split(".")[1] in CORE_OF_SCHEDULER


@pytest.mark.parametrize("name", names(files("radixcache")))
def test_the_cache_core_imports_nothing_heavy(name: str) -> None:
    for module, _, _ in imports(ROOT / name):
        assert module.split(".")[0] not in HEAVY_IN_CORE


def test_core_reads_no_clock_and_draws_no_chance() -> None:
    core = [*files("radixcache"), *sorted((ROOT / "scheduler").glob("*.py"))]
    for path in core:
        if path.stem in {"cli", "__main__"}:
            continue
        for module, _, _ in imports(path):
            assert module.split(".")[0] not in NO_CLOCK_OR_CHANCE, f"{path}: {module}"


@pytest.mark.parametrize("name", names(files(*PACKAGES)))
def test_no_import_hides_in_a_function(name: str) -> None:
    if name.startswith("scheduler/cli") or name.endswith("__init__.py"):
        return
    for module, statement, inside in imports(ROOT / name):
        if inside:
            source = (ROOT / name).read_text(encoding="utf-8").splitlines()
            assert "# extra" in source[statement.lineno - 1], f"{name}: {module}"


@pytest.mark.parametrize("name", names(files(*PACKAGES)))
def test_every_module_names_what_it_exports(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module says in its docstring what it is"
    if name.endswith("__main__.py"):
        return
    targets = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    assert any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets)


def test_no_module_is_imported_by_nobody() -> None:
    imported: set[str] = set()
    for path in files(*CHECKED):
        for module, statement, _ in imports(path):
            imported.add(module)
            if isinstance(statement, ast.ImportFrom):
                imported.update(f"{module}.{alias.name}" for alias in statement.names)
    texts = [(ROOT / package / "__init__.py").read_text(encoding="utf-8") for package in PACKAGES]
    for path in files(*PACKAGES):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.stem in {"__init__", "__main__"} or any(f'"{dotted}"' in text for text in texts):
            continue
        if dotted.startswith("scheduler.cli."):
            continue  # commands are imported by the name on the command line
        assert dotted in imported, f"{dotted} is imported by nobody"


def test_no_name_says_nothing() -> None:
    for path in files(*PACKAGES):
        assert path.stem not in BANNED_NAMES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert not node.name.startswith("Base")


@pytest.mark.parametrize("name", names(files("tests")))
def test_tests_neither_sleep_nor_read_the_clock(name: str) -> None:
    if name == "tests/test_style.py":
        return
    text = (ROOT / name).read_text(encoding="utf-8")
    for banned in ("time.sleep", "perf_counter", "time.monotonic", "time.time("):
        assert banned not in text
