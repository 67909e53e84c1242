"""Pages and docstrings: examples run, links and named files exist, and the README stays short."""

import contextlib
import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import daskglm
from daskglm.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "daskglm").rglob("*.py")
    if ">>> " in path.read_text()
)
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\s*\Z")  # before a block, with the reason
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:daskglm|tests|benchmarks|deploy|docs)/[\w./-]+\.(?:py|md|cu|sh|json))`")


def examples(text):
    """Python blocks of a page, in their order, but those that a comment says are not run."""
    for fence in FENCE.finditer(text):
        if fence[1] == "python" and not NOT_RUN.search(text[: fence.start()]):
            yield text.count("\n", 0, fence.start()) + 1, fence[2]


def anchors(text):
    """Headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def runnable():
    return [page for page in PAGES if any(examples((ROOT / page).read_text()))]


@pytest.fixture
def shared_cluster(_cluster, monkeypatch):
    """Examples that start a LocalCluster are given the one that all tests share."""
    import distributed

    monkeypatch.setattr(
        distributed, "LocalCluster", lambda **options: contextlib.nullcontext(_cluster)
    )


@pytest.mark.parametrize("page", runnable())
def test_examples_of_a_page_run(page, shared_cluster, tmp_path, monkeypatch):
    """In one namespace, from top to bottom, as a reader would."""
    monkeypatch.chdir(tmp_path)
    np.random.seed(0)
    names = {"__name__": "__main__"}
    for line, block in examples((ROOT / page).read_text()):
        code = compile("\n" * line + block, page, "exec")
        exec(code, names)


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert not failed


@pytest.mark.parametrize("page", PAGES)
def test_links_and_named_files_exist(page):
    path = ROOT / page
    text = path.read_text()
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        there = path.parent / name if name else path
        assert there.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(there.read_text()), f"{page}: {link}"
    for name in NAMED.findall(text):
        assert (ROOT / name).exists(), f"{page} names {name}, which does not exist"


def test_every_page_is_in_the_table_of_contents():
    listed = (ROOT / "docs/index.md").read_text().split()
    for page in (ROOT / "docs").glob("*.[mr][ds]*"):
        assert page.stem == "index" or page.stem in listed, page.name


def test_examples_ask_a_question_and_say_where_their_rows_come_from():
    examples = sorted((ROOT / "docs/examples").glob("*.py"))
    assert examples
    for example in examples:
        text = example.read_text()
        question = text.split('"""')[1].split("\n\n", 1)[1]
        assert "?" in question, example.name
        assert "What was learnt" in text, example.name
        assert re.search(r"^# The rows", text, re.MULTILINE), example.name


def test_examples_that_read_a_file_are_known_to_the_build():
    """Without their file, docs/conf.py leaves them unexecuted."""
    config = (ROOT / "docs/conf.py").read_text()
    needed = dict(re.findall(r'^    "(\w+)": "([\w/.]+\.xz)",$', config, re.MULTILINE))
    reading = {
        example.stem: example.read_text()
        for example in (ROOT / "docs/examples").glob("*.py")
        if "DASKGLM_DATA" in example.read_text()
    }
    assert needed.keys() == reading.keys()
    for example, file in needed.items():
        assert f'Path(os.environ["DASKGLM_DATA"], "{file}")' in reading[example]


def test_the_reference_has_all_public_names():
    listed = (ROOT / "docs/api.rst").read_text().split()
    assert set(daskglm.__all__) <= set(listed)


@pytest.mark.parametrize("command", ["fit", "predict", "info"])
def test_the_page_on_the_command_line_has_all_options(command):
    page = (ROOT / "docs/command-line.md").read_text()
    section = re.search(rf"^## `daskglm {command} .*?(?=^## )", page, re.MULTILINE | re.DOTALL)[0]
    for option in main.get_command(None, command).params:
        for name in (*option.opts, *option.secondary_opts):
            assert not name.startswith("--") or f"`{name}" in section, name


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
