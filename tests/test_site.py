"""The built documentation as a reader sees it in a browser, and its links."""

import contextlib
import functools
import html.parser
import http.server
import threading
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.browser import cut, empty_columns, faint, headless, opened, overflow, scrolled

SITE = Path(__file__).resolve().parents[1] / "docs/_build/html"
NARROW, WIDE = 380, 1400
# templates of the theme lie in _static; they are no pages
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if path.relative_to(SITE).parts[0] != "_static"
)
pytestmark = pytest.mark.skipif(
    not PAGES, reason="docs/_build/html is not there: run `make docs` first"
)
# what a browser loads or follows, by the attribute of the tag
ADDRESSES = {"href", "src", "data", "poster", "action"}


class _Page(html.parser.HTMLParser):
    """Anchors and addresses of a page, and the identifiers that labels and lists of tags name."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.addresses = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in ADDRESSES and value:
                self.addresses.append(value)


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *given):
        """Write nothing."""


@functools.cache
def parsed(page):
    return _Page((SITE / page).read_text())


@contextlib.contextmanager
def served():
    """Serve the pages to this machine, and give their address."""
    handler = functools.partial(_Silent, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def address():
    with served() as given:
        yield given


@pytest.fixture(scope="module")
def browser():
    with headless() as running:
        yield running


@pytest.mark.slow
def test_links_and_fragments_exist():
    missing, followed = [], 0
    for page in PAGES:
        for link in parsed(page).addresses:
            parts = urlsplit(urljoin(f"http://site/{page}", link))
            if parts.hostname != "site":
                continue
            followed += 1
            path = SITE / unquote(parts.path).lstrip("/")
            path = path / "index.html" if path.is_dir() else path
            if not path.is_file():
                missing.append(f"{page}: {link}")
            elif parts.fragment and path.suffix == ".html":
                there = parsed(path.relative_to(SITE).as_posix()).anchors
                if unquote(parts.fragment) not in there:
                    missing.append(f"{page}: {link} is no anchor")
    assert followed > 10 * len(PAGES)
    assert not missing


@pytest.mark.slow
def test_each_page_of_the_gallery_has_a_picture_of_its_own():
    """Pages without one share that of sphinx-gallery."""
    thumbnails = [
        SITE / "_images" / Path(link).name
        for link in parsed("generated/gallery/index.html").addresses
        if "_thumb." in link
    ]
    assert len({each.read_bytes() for each in thumbnails}) == len(thumbnails)
    assert len(thumbnails) == len(list((SITE.parents[1] / "examples").glob("*.py")))


@pytest.mark.slow
def test_pages_of_the_reference_link_to_the_guide_and_to_each_other():
    links = parsed("generated/api/daskglm.Lasso.html").addresses
    assert "../../penalties.html" in links
    assert "daskglm.ElasticNet.html#daskglm.ElasticNet" in links
    text = (SITE / "generated/api/daskglm.fit.html").read_text()
    assert "docs/penalties.md" not in text


@pytest.mark.slow
def test_outputs_of_the_guide_are_shown():
    front = (SITE / "index.html").read_text()
    assert "relative gap" in front
    assert "daskglm-report" in front
    assert "<svg" in front
    shown = [page for page in PAGES if "daskglm-output" in (SITE / page).read_text()]
    assert len(shown) > 12


@pytest.mark.nightly
@pytest.mark.parametrize("name", PAGES)
def test_a_page(name, address, browser):
    """It loads without a fault, fits both windows, has its images, and can be read in the dark."""
    with opened(browser, address + name, width=NARROW) as page:
        assert overflow(page) <= 0, f"{NARROW} pixels"
        assert not cut(page), f"{NARROW} pixels"
        page.set_viewport_size({"width": WIDE, "height": 900})
        assert overflow(page) <= 0, f"{WIDE} pixels"
        assert not cut(page), f"{WIDE} pixels"
        assert not scrolled(page), "code of a hundred characters fits"
        assert not empty_columns(page)

        page.evaluate("document.querySelectorAll('img').forEach(i => { i.loading = 'eager'; })")
        page.wait_for_function("[...document.images].every(each => each.complete)")
        empty = "[...document.images].filter(each => !each.naturalWidth).map(each => each.src)"
        assert not page.evaluate(empty)

        for mode in ("light", "dark"):
            page.emulate_media(color_scheme=mode)
            page.wait_for_function(f"document.documentElement.dataset.theme === '{mode}'")
            assert not faint(page), mode


def _run(browser, address, script):
    with opened(browser, address + "index.html", width=NARROW) as page:
        page.evaluate(script)
        page.wait_for_timeout(200)


@pytest.mark.nightly
def test_what_the_checks_of_a_page_would_find(address, browser):
    with opened(browser, address + "index.html", width=NARROW) as page:
        assert not cut(page)
        assert not faint(page)
        page.evaluate(
            """() => {
              const made = document.createElement("p");
              made.style = "color: rgb(160, 160, 160); background: white; width: 2000px";
              made.textContent = "wide and faint";
              document.querySelector("article").append(made);
            }"""
        )
        assert any("wide and faint" in each for each in cut(page))
        assert [each for each in faint(page) if "wide and faint" in each]
    for script, told in (
        ("fetch('http://localhost:9/').catch(() => {})", "another host"),
        ("fetch('missing.html')", "404"),
        ("console.error('it broke')", "it broke"),
        ("setTimeout(() => { throw new Error('it threw') })", "it threw"),
    ):
        with pytest.raises(AssertionError, match=told):
            _run(browser, address, script)


@pytest.mark.nightly
def test_what_the_checks_of_code_and_columns_would_find(address, browser):
    with opened(browser, address + "getting-started.html", width=WIDE) as page:
        assert not scrolled(page)
        assert not empty_columns(page)
        page.evaluate(
            """() => {
              document.querySelector("article pre").append("x".repeat(150));
              document.querySelectorAll(".bd-sidebar-primary nav").forEach(each => each.remove());
            }"""
        )
        assert [each[-150:] for each in scrolled(page)] == ["x" * 150]
        assert len(empty_columns(page)) == 1


@pytest.mark.nightly
def test_formulas_are_set(address, browser):
    with opened(browser, address + "certificates.html", width=WIDE) as page:
        page.wait_for_function("document.querySelector('mjx-container')")
        written, made = page.evaluate(
            """() => [document.querySelectorAll(".math").length,
                      document.querySelectorAll(".math mjx-container").length]"""
        )
        assert written == made > 20
        assert not page.evaluate("document.querySelectorAll('mjx-merror').length")


@pytest.mark.nightly
def test_the_search_finds_pages(address, browser):
    with opened(browser, address + "search.html?q=gap", width=WIDE) as page:
        page.locator("#search-results .search li").first.wait_for(timeout=20_000)
        found = page.locator("#search-results .search li a").evaluate_all(
            "links => links.map(each => each.getAttribute('href'))"
        )
        assert any("certificates.html" in each for each in found), found
