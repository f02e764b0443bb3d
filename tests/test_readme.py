"""The README: its example runs and prints what it says, and its map names every module."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_readme_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    said = re.search(r"It prints `(.*?)`\.", TEXT)
    assert said is not None
    assert printed.getvalue().strip() == said.group(1)


def test_the_map_names_every_module_once() -> None:
    modules = {
        str(path.relative_to(ROOT))
        for package in ("radixcache", "scheduler")
        for path in (ROOT / package).rglob("*.py")
        if path.stem not in {"__init__", "__main__"}
    }
    named = re.findall(r"^\| `((?:radixcache|scheduler)/[a-z_/]+\.py)` \|", TEXT, re.MULTILINE)
    assert sorted(named) == sorted(set(named))
    assert set(named) == modules
