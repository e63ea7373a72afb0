"""The pages in a real browser: nothing asked of the network, no error, legible in light and dark, wide and narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import HOSTILE
from run_files import comparison, hand_made, save

from nesbs import files
from nesbs.report import write_comparison_page, write_report, write_side_by_side

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (the extra dev)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs an installed Chromium")

# How many pieces of text there are, and those whose contrast to what lies behind is below WCAG AA (4.5; large: 3).
CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [r, g, b, text === "none" || text === "transparent" ? 0 : a];
  };
  const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element, box) => {
    const layers = [];
    const drawing = element.closest("svg");
    if (drawing) {
      const x = box.left + box.width / 2, y = box.top + box.height / 2;
      for (const shape of [...drawing.querySelectorAll("rect, circle")].reverse()) {
        const b = shape.getBoundingClientRect();
        if (element.compareDocumentPosition(shape) & Node.DOCUMENT_POSITION_FOLLOWING) continue;
        const held = b.left <= x && x <= b.right && b.top <= y && y <= b.bottom;
        if (held) layers.push(parse(getComputedStyle(shape).fill));
      }
    }
    for (let one = element; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
    layers.push(matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1]);
    return layers.reverse().reduce((below, top) => over(top, below));
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const low = [];
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, style, title")) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const style = getComputedStyle(element);
    const ground = behind(element, box);
    const ink = over(parse(element.closest("svg") ? style.fill : style.color), ground);
    const [a, b] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    if (ratio < (large ? 3 : 4.5)) low.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [seen, low];
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A whole run, an interrupted one, runs side by side, a comparison, and a run with hostile names."""
    place = tmp_path_factory.mktemp("pages")
    whole = hand_made()
    halfway = replace(whole, metrics=None, selection=None, predictions=None)
    record = dict(whole.record or {})
    record["data"] = {**record["data"], "name": HOSTILE, "classes": [HOSTILE, '"><img src=x onerror=alert(1)>']}
    bad = replace(whole, record=record, metrics={**(whole.metrics or {}), "data": HOSTILE})
    folders = {name: save(place / name, one) for name, one in (("whole", whole), ("half", halfway), ("bad", bad))}
    found = {name: write_report(folder) for name, folder in folders.items()}
    found["side"] = write_side_by_side([folders["whole"], folders["half"], folders["bad"]], place / "side.html")
    files.write_json(place / "comparison" / "comparison.json", comparison())
    return {**found, "comparison": write_comparison_page(place / "comparison")}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


class Opened:
    """A page in a tab of its own, with everything it asked for and complained about."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_quiet_and_legible(browser: Any, pages: dict[str, Path], width: int, scheme: str) -> None:
    for name, path in pages.items():
        if name != "whole" and (width, scheme) not in ((390, "dark"), (1440, "light")):
            continue  # the same styles: two ways are enough
        with Opened(browser, path, viewport={"width": width, "height": 900}, color_scheme=scheme) as opened:
            page = opened.page
            page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            seen, low = page.evaluate(CONTRAST)
            assert seen > 50
            assert low == [], name
            assert not page.evaluate(
                "[...document.images].filter((one) => !one.alt.trim()).map((one) => one.outerHTML)"
            )
            assert not page.evaluate(
                "[...document.querySelectorAll('svg')].filter((one) => one.getAttribute('role') !== 'img' || "
                "!one.querySelector('title')?.textContent.trim()).map((one) => one.outerHTML)"
            )
            assert page.evaluate("[...document.images].every((one) => one.naturalWidth > 0)")
            assert [url for url in opened.asked if not url.startswith("data:")] == [path.as_uri()]
            assert opened.complaints == [], name


def test_a_faint_text_would_be_found(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["half"]) as opened:
        opened.page.evaluate("document.querySelector('h1').style.color = 'rgb(119 119 119)'")  # 4.48 on white
        opened.page.evaluate("document.querySelector('h2').style.color = '#999'")  # 2.85, of large text
        _, low = opened.page.evaluate(CONTRAST)
        assert [text.split(": ")[-1] for text in low] == ["4.48", "2.85"]


def test_sections_open_and_close(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["whole"], viewport={"width": 390, "height": 844}) as opened:
        page = opened.page
        table = page.locator("#recipe table")
        assert not table.is_visible()
        page.click("#recipe > details > summary")
        assert table.is_visible()
        page.click("#recipe > details > summary")
        assert not table.is_visible()
        page.click("nav a[href='#recipe']")  # a link opens what it leads to
        table.wait_for(state="visible")
        page.get_by_role("button", name="Open all sections").click()
        page.get_by_role("button", name="Close all sections").click()
        assert not page.locator("#measures table").first.is_visible()
        page.emulate_media(media="print")
        assert page.locator("#measures table").first.is_visible()  # on paper everything is
        assert not page.locator("nav").is_visible()
        page.set_viewport_size({"width": 720, "height": 1000})  # A4 with margins
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


def test_tables_sort(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["whole"]) as opened:
        table = opened.page.locator("#measures table").first

        def column(number: int) -> list[str]:
            return table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()

        table.get_by_role("button", name="Sort by Error", exact=True).click()
        assert column(2) == ["8.12 %", "9.00 %", "9.00 %", "9.56 %", "11.00 %"]  # 11 after 9: as numbers
        assert table.locator("th[aria-sort=ascending]").inner_text().startswith("Error")
        table.get_by_role("button", name="Sort by Error", exact=True).click()
        assert column(2)[0] == "11.00 %"
        table.get_by_role("button", name="Sort by Parameters").click()
        assert column(9) == ["1,000", "2,500", "3,500", "3,500", "–"]  # what is missing comes last
        table.get_by_role("button", name="Sort by Parameters").click()
        assert column(9) == ["3,500", "3,500", "2,500", "1,000", "–"]
        stages = opened.page.locator("#stages table")
        stages.get_by_role("button", name="Sort by Time").click()
        assert stages.locator("tbody th").first.inner_text() == "evaluation"  # 1 s, where the text would say 10
        assert stages.locator("tfoot th").inner_text() == "Total"


def test_the_glossary_shows_on_hover_focus_and_tap(browser: Any, pages: dict[str, Path]) -> None:
    meanings = {"ATE": "Averaged test error", "PPD": "Pairwise predictive", "ECE": "Expected calibration"}
    meanings |= {"δ": "The weight of SVGD-RD", "τ": "The posterior's temperature"}
    with Opened(browser, pages["whole"], viewport={"width": 390, "height": 844}, has_touch=True) as opened:
        page = opened.page
        tip = page.get_by_role("tooltip")
        for word, meaning in meanings.items():
            term = page.locator("a.term", has_text=word).first
            term.scroll_into_view_if_needed()
            term.focus()
            assert tip.inner_text().startswith(meaning)
            box = tip.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            page.keyboard.press("Escape")
            assert not tip.is_visible()
            term.blur()
            term.hover()
            assert tip.inner_text().startswith(meaning)
            page.mouse.move(0, 0)
            term.tap()
            assert tip.inner_text().startswith(meaning)
            page.keyboard.press("Escape")
            term.blur()


def test_readable_without_scripts(browser: Any, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["whole"], java_script_enabled=False) as opened:
        page = opened.page
        assert page.locator("button").count() == 0
        page.click("#recipe > details > summary")
        assert page.locator("#recipe table").is_visible()
        page.locator("a.term", has_text="ATE").first.click()
        assert page.url.endswith("#term-ate")
        assert page.locator("#term-ate").is_visible()
