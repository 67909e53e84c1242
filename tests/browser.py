"""A headless browser for tests of pages; those skip where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def headless() -> Iterator[Any]:
    """Give a running Chromium."""
    driver = pytest.importorskip(
        "playwright.sync_api", reason="the package playwright drives a browser"
    )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, *, width: int, dark: bool = False) -> Iterator[Any]:
    """Open a page.

    Fails if its scripts log or raise an error, if a request fails, or goes to another host.
    """
    faults: list[str] = []
    host = urlsplit(address).hostname

    def check_host(request: Any) -> None:
        if urlsplit(request.url).hostname not in (host, None):  # none: data and blob
            faults.append(f"{request.url} is on another host")

    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",  # columns have their width at once
    )
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", check_host)
    page.on("requestfailed", lambda request: faults.append(f"{request.url} failed"))
    page.on(
        "response", lambda r: faults.append(f"{r.url}: {r.status}") if r.status >= 400 else None
    )
    page.goto(address, wait_until="load")
    yield page
    page.close()
    assert not faults, f"{address} at {width} pixels: {faults}"


def overflow(page: Any) -> int:
    """Return by how many pixels a page is wider than its window."""
    return int(page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth"))


# Elements of an article whose content leaves the window to the right, but those in a box that
# scrolls, or that the page hides from view and keeps for screen readers. An article that scrolls
# as a whole is no such box.
CUT = """
() => {
  const scrolls = node => {
    for (let each = node; each && each.tagName !== "ARTICLE"; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (["auto", "scroll"].includes(style.overflowX)) return true;
      if (style.clip !== "auto" || style.visibility === "hidden") return true;
    }
    return false;
  };
  return [...document.querySelectorAll("article *")].filter(node => {
    const box = node.getBoundingClientRect();
    return box.width && box.right > window.innerWidth + 1 && !scrolls(node);
  }).map(node => `${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 40)}`);
}
"""

# Texts whose contrast to what is behind them is less than 4.5, the ratio of the Web Content
# Accessibility Guidelines (level AA). Canvas turns a colour of any notation into red, green, blue.
FAINT = """
root => {
  const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1})
    .getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) =>
    [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = colour => {
    const [r, g, b] = colour.slice(0, 3).map(
      v => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) {
      layers.push(rgba(getComputedStyle(each).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reduceRight((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const found = [];
  for (const node of document.querySelectorAll(root + " *")) {
    const own = [...node.childNodes].filter(each => each.nodeType === 3 && each.data.trim());
    if (!own.length || !node.checkVisibility({visibilityProperty: true, opacityProperty: true}))
      continue;
    const under = behind(node);
    const [a, b] = [light(over(rgba(getComputedStyle(node).color), under)), light(under)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5)
      found.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className}: ${own[0].data.trim()}`);
  }
  return found;
}
"""


# Code of examples that a reader has to scroll to see all of: their longest lines.
SCROLLED = """
() => [...document.querySelectorAll("article div.highlight pre")]
  .filter(box => box.scrollWidth > box.clientWidth + 1)
  .map(box => box.textContent.split("\\n").sort((a, b) => b.length - a.length)[0])
"""

# Columns beside the article that take their place and have nothing to read.
EMPTY_COLUMNS = """
() => [...document.querySelectorAll(".bd-sidebar-primary, .bd-sidebar-secondary")]
  .filter(column => column.checkVisibility() && column.getBoundingClientRect().width > 1)
  .filter(column => !column.querySelector("nav a[href]"))
  .map(column => column.className)
"""


def scrolled(page: Any) -> list[str]:
    """Return the longest line of each block of code that is wider than its box."""
    found: list[str] = page.evaluate(SCROLLED)
    return found


def empty_columns(page: Any) -> list[str]:
    """Return the columns beside the article that have no link."""
    found: list[str] = page.evaluate(EMPTY_COLUMNS)
    return found


def cut(page: Any) -> list[str]:
    """Return the elements of the article that leave the window and are in no box that scrolls."""
    found: list[str] = page.evaluate(CUT)
    return found


def faint(page: Any, root: str = "article") -> list[str]:
    """Return the texts in an element whose contrast is less than 4.5, with that contrast."""
    found: list[str] = page.evaluate(FAINT, root)
    return found
