"""A headless browser for tests of pages; those skip where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    """Open a page, and fail if it says an error or asks for something that is not there."""
    faults: list[str] = []
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
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
