"""The HTML report in chromium: readable, accessible, silent, in both schemes and on paper.

Needs the extra `browser` and a chromium of the system; skips with a message elsewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models.report_pages import page_named

sync_api = pytest.importorskip("playwright.sync_api", reason="pip install 'radixcache[browser]'")
axe_api = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="pip install 'radixcache[browser]'"
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
SHOWN = ("overloaded", "hostile", "sweep", "sweep of guards", "curve", "explanation")
SCHEMES = ("light", "dark")
WIDTHS = (360, 1280)

OVERLAPPING_TEXTS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    if (!svg.checkVisibility()) continue;
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [said, box] of boxes)
      if (box.left < frame.left - 3 || box.right > frame.right + 3) found.push(`outside: ${said}`);
    boxes.forEach(([said, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 4) found.push(`${said} | ${other}`);
    }));
  }
  return found;
}"""
OPEN_ALL = "() => document.querySelectorAll('details').forEach(part => { part.open = true; })"
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start the system's chromium, or skip."""
    if CHROMIUM is None:
        pytest.skip("chromium is absent: apt-get install chromium to look at the report")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Opened:
    """A page that was opened, and what it said and asked for."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.context.route("**/*", self._route)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self._own = path.as_uri()
        self.page.goto(self._own)

    def _route(self, route: Any) -> None:
        if route.request.url == self._own:
            route.continue_()
        else:
            self.asked.append(route.request.url)
            route.abort()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Return a function that opens a report by name."""
    pages: list[Opened] = []

    def show(name: str, scheme: str = "light", width: int = 1280) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(page_named(name), encoding="utf-8")
        pages.append(
            Opened(browser, path, color_scheme=scheme, viewport={"width": width, "height": 900})
        )
        return pages[-1]

    yield show
    for page in pages:
        page.context.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SHOWN)
def test_a_report_is_accessible_and_silent(opened: Any, name: str, scheme: str, width: int) -> None:
    shown = opened(name, scheme, width)
    assert shown.page.evaluate(TOO_WIDE) <= 0
    assert shown.page.evaluate(OVERLAPPING_TEXTS) == []
    shown.page.evaluate(OPEN_ALL)
    assert shown.page.evaluate(TOO_WIDE) <= 0
    results = axe_api.Axe().run(shown.page)
    assert results.violations_count == 0, results.generate_report()
    assert shown.said == []
    assert shown.asked == []


@pytest.mark.parametrize("name", SHOWN)
def test_on_paper_everything_is_open_and_dark_on_light(opened: Any, name: str) -> None:
    page = opened(name, "dark").page
    page.emulate_media(media="print", color_scheme="dark")
    hidden = page.evaluate(
        "() => [...document.querySelectorAll('details table, details dl')]"
        ".filter(part => !part.checkVisibility() || part.getBoundingClientRect().height < 10)"
        ".map(part => part.textContent.slice(0, 40))"
    )
    assert hidden == []
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    assert page.locator("nav").is_visible() is False


def test_only_the_picture_that_fits_is_shown(opened: Any) -> None:
    for width, kind in ((360, "narrow"), (1280, "wide")):
        page = opened("compare", width=width).page
        shown = page.evaluate(
            "() => [...document.querySelectorAll('figure svg')].filter(s => s.checkVisibility())"
            ".map(s => s.parentElement.className)"
        )
        assert shown
        assert set(shown) == {kind}


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened: Any) -> None:
    page = opened("compare").page
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("() => document.activeElement.tagName"))
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid" or page.evaluate("() => document.activeElement.tagName") == "BODY"
    assert {"A", "SUMMARY", "DIV"} <= seen


def test_colours_of_series_stand_out_in_both_schemes(opened: Any) -> None:
    for scheme in SCHEMES:
        page = opened("compare", scheme).page
        contrasts = page.evaluate(
            """() => {
              const style = getComputedStyle(document.documentElement);
              const light = name => {
                const hex = style.getPropertyValue(name).trim().slice(1);
                const [r, g, b] = [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16) / 255)
                  .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const ground = light('--bg');
              return ['--ink', '--soft', '--link', '--s0', '--s1', '--s2', '--s3', '--s4', '--s5',
                '--s6'].map(name => {
                  const [a, b] = [light(name), ground].sort((x, y) => y - x);
                  return [name, (a + 0.05) / (b + 0.05)];
                });
            }"""
        )
        assert [name for name, contrast in contrasts if contrast < 4.5] == []
